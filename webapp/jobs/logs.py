"""A job's log, from the run folder's log.txt: as a whole, and in parts.

If the run folder has been removed, the log is what the job's row keeps: its end.
"""

from __future__ import annotations

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
    if not (start + len(chunk) == size and not job.is_active):
        chunk = chunk[: len(chunk) - _begun(chunk)]
    return Piece(chunk.decode("utf-8", errors="replace"), start + len(chunk), size)


def _begun(chunk: bytes) -> int:
    """The number of bytes at the end of a chunk that belong to an incomplete character (UTF-8)."""
    for back in range(1, min(3, len(chunk)) + 1):
        byte = chunk[-back]
        if byte >= 0xC0:  # the first byte of a character, which encodes its length
            needed = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return back if needed > back else 0
        if byte < 0x80:
            return 0
    return 0
