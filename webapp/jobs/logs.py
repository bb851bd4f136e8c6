"""A job's log, from the run folder's log.txt: as a whole, and in parts.

If the run folder has been removed, the log is what the job's row keeps: its end.
"""

from __future__ import annotations

from codecs import getincrementaldecoder
from dataclasses import dataclass
from io import BytesIO
from typing import BinaryIO

from webapp.models import Job


@dataclass(frozen=True)
class Piece:
    """A part of a log. end: start of the next part. size: of the whole. Both in bytes."""

    text: str
    end: int
    size: int


def open_log(job: Job) -> BinaryIO:
    """The whole log, to be read and closed."""
    try:
        return open(job.run_dir / "log.txt", "rb")
    except FileNotFoundError:
        return BytesIO(job.log.encode())


def read_log(job: Job, offset: int, limit: int) -> Piece:
    """At most `limit` (at least 4) bytes of a job's log from `offset` on, ending with a complete character."""
    with open_log(job) as file:
        size = file.seek(0, 2)
        start = file.seek(min(offset, size))
        chunk = file.read(limit)
    decoder = getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(chunk, final=start + len(chunk) == size and not job.is_active)
    begun, _ = decoder.getstate()  # bytes of an incomplete character
    return Piece(text, start + len(chunk) - len(begun), size)
