"""The hidden folder in which an unfinished snapshot is built.

`.NAME.partial/` beside the corpora contains finished parts (a pair of Arrow files each) and a journal that lists them
with the source position that each reaches. A part is valid once the journal lists it, so a process that is killed loses
at most the part that it was writing. If the fingerprint (source, options, version of the cleaning rules) has changed,
the folder is emptied.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import asdict, astuple, dataclass
from pathlib import Path

import pyarrow as pa

from realm_core.corpus import tables
from realm_core.errors import RealmError
from realm_core.files import disk_errors, read_json, remove_folder, write_json
from realm_core.runs.folder import LOCK
from realm_core.runs.locks import exclusive

# A part is closed at this size: small enough to lose, large enough for few files.
_PART_ARTICLES = 4096
_PART_BYTES = 64 << 20
_FORMAT = 3  # of parts and journal


@dataclass(frozen=True)
class SnapshotPart:
    """position: records of the source read when the part was closed."""

    number: int
    position: int
    articles: int
    blocks: int


class WorkFolder:
    """A context manager that holds the folder's lock, so that one process at a time works in it."""

    def __init__(self, corpora: Path, name: str, fingerprint: str) -> None:
        self.path = corpora / f".{name}.partial"
        self._name = name
        self._fingerprint = fingerprint
        self._journal = self.path / "journal.json"
        self._pending_articles: list[pa.RecordBatch] = []
        self._pending_blocks: list[pa.RecordBatch] = []
        self._pending_position = 0
        self._pending_rows = 0
        self._pending_bytes = 0
        self.parts: list[SnapshotPart] = []
        self.complete = False
        self.share = 1.0  # of the source that was read, where it is complete
        self.emptied = False

    def __enter__(self) -> WorkFolder:
        with disk_errors(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        taken = f"Another process is ingesting {self._name} in {self.path}; wait for it."
        with ExitStack() as stack:
            stack.enter_context(exclusive(self.path / LOCK, taken))
            self._resume()
            self._lock = stack.pop_all()  # held until __exit__
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.close()

    @property
    def position(self) -> int:
        """Records of the source read so far, in finished parts or pending."""
        return max(self._pending_position, self.parts[-1].position if self.parts else 0)

    @property
    def blocks(self) -> int:
        pending: int = sum(batch.num_rows for batch in self._pending_blocks)
        return sum(part.blocks for part in self.parts) + pending

    def add(self, articles: pa.RecordBatch, blocks: pa.RecordBatch, position: int) -> None:
        """Add articles and their blocks (article rows relative to the batch), read up to `position`."""
        self._pending_articles.append(articles)
        self._pending_blocks.append(tables.with_article_offset(blocks, self._pending_rows))
        self._pending_rows += articles.num_rows
        self._pending_bytes += articles.nbytes
        self._pending_position = position
        if self._pending_rows >= _PART_ARTICLES or self._pending_bytes >= _PART_BYTES:
            self.close_part()

    def close_part(self) -> None:
        """Write the pending rows as a part and list it in the journal."""
        if self._pending_position <= (self.parts[-1].position if self.parts else 0):
            return
        number = len(self.parts)
        articles = pa.Table.from_batches(self._pending_articles, tables.UNFINISHED_ARTICLES_SCHEMA).combine_chunks()
        blocks = pa.Table.from_batches(self._pending_blocks, tables.UNFINISHED_BLOCKS_SCHEMA).combine_chunks()
        for table, path in ((articles, self.articles_file(number)), (blocks, self.blocks_file(number))):
            with disk_errors(path), open(path, "wb") as file:
                with pa.ipc.new_file(file, table.schema) as writer:
                    writer.write_table(table)
                file.flush()
                os.fsync(file.fileno())
        self.parts.append(SnapshotPart(number, self._pending_position, articles.num_rows, blocks.num_rows))
        self._write_journal()
        self._pending_articles, self._pending_blocks = [], []
        self._pending_rows = self._pending_bytes = 0

    def finish(self, share: float = 1.0) -> None:
        """Close the last part and record that the source has been read: to its end, or a share of it."""
        self.close_part()
        self.complete, self.share = True, share
        self._write_journal()

    def articles_file(self, number: int) -> Path:
        return self.path / f"articles-{number:06d}.arrow"

    def blocks_file(self, number: int) -> Path:
        return self.path / f"blocks-{number:06d}.arrow"

    def remove(self) -> None:
        remove_folder(self.path)

    def _write_journal(self) -> None:
        journal = {
            "format": _FORMAT,
            "fingerprint": self._fingerprint,
            "complete": self.complete,
            "share": self.share,
            "parts": [asdict(part) for part in self.parts],
        }
        write_json(self._journal, journal)

    def _resume(self) -> None:
        """Keep the files that the journal lists and remove all others."""
        kept = {LOCK}
        if self._journal.exists():
            journal = read_json(self._journal)
            if not isinstance(journal, dict):
                raise RealmError(f"{self._journal} is damaged; remove its folder and start again.")
            if (journal.get("format"), journal.get("fingerprint")) == (_FORMAT, self._fingerprint):
                try:
                    self.parts = _parts(journal["parts"])
                    self.complete = bool(journal["complete"])
                    self.share = float(journal.get("share", 1.0))
                except (KeyError, TypeError, ValueError):
                    raise RealmError(f"{self._journal} is damaged; remove its folder and start again.") from None
                kept.add(self._journal.name)
                for part in self.parts:
                    kept |= {self.articles_file(part.number).name, self.blocks_file(part.number).name}
            else:
                self.emptied = True
                self._journal.unlink()  # first: without it no file in the folder is valid
        for path in list(self.path.iterdir()):
            if path.name not in kept:
                remove_folder(path) if path.is_dir() else path.unlink()


def _parts(listed: list[dict[str, int]]) -> list[SnapshotPart]:
    """The parts that a journal lists. ValueError or TypeError if they are not valid."""
    parts = [SnapshotPart(**part) for part in listed]
    if any(type(count) is not int or count < 0 for part in parts for count in astuple(part)):
        raise ValueError("A part's fields are counts.")
    if [part.number for part in parts] != list(range(len(parts))):
        raise ValueError("Parts are numbered from 0.")
    return parts
