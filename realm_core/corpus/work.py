"""The hidden folder in which a snapshot grows until it is whole.

`.NAME.partial/` beside the corpora holds finished parts (a pair of Arrow files each), and a journal that
lists them with the source position that they reach. A part counts once the journal names it, so a process
that is killed at any instant loses at most the part that it was writing. Another source, other options or
another version of the cleaning rules have another fingerprint: then the folder is emptied.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from types import TracebackType

import pyarrow as pa

from realm_core.corpus import tables
from realm_core.errors import RealmError
from realm_core.files import disk_errors, read_json, remove_folder, write_json
from realm_core.runs.folder import LOCK
from realm_core.runs.locks import exclusive

# A part is closed when it holds this much: small enough to lose, large enough for few files.
_PART_ARTICLES = 4096
_PART_BYTES = 64 << 20
_FORMAT = 2  # of parts and journal


@dataclass(frozen=True)
class Part:
    """position: records of the source read when the part was closed."""

    number: int
    position: int
    articles: int
    blocks: int


class WorkFolder:
    """Opened by one process at a time; a context manager that lets go of the lock."""

    def __init__(self, corpora: Path, name: str, fingerprint: str) -> None:
        self.path = corpora / f".{name}.partial"
        self._name = name
        self._fingerprint = fingerprint
        self._lock = ExitStack()
        self._journal = self.path / "journal.json"
        self._pending_articles: list[pa.RecordBatch] = []
        self._pending_blocks: list[pa.RecordBatch] = []
        self._pending_position = 0
        self._pending_rows = 0
        self._pending_bytes = 0
        self.parts: list[Part] = []
        self.complete = False
        self.emptied = False

    def __enter__(self) -> WorkFolder:
        with disk_errors(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        taken = f"Another process is ingesting {self._name} in {self.path}; wait for it."
        self._lock.enter_context(exclusive(self.path / LOCK, taken))  # held until __exit__
        try:
            self._resume()
        except BaseException:
            self._lock.close()
            raise
        return self

    def __exit__(self, _type: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None) -> None:
        self._lock.close()

    @property
    def position(self) -> int:
        """Records of the source that lie behind, in finished parts or waiting for one to be closed."""
        return max(self._pending_position, self.parts[-1].position if self.parts else 0)

    @property
    def blocks(self) -> int:
        pending: int = sum(batch.num_rows for batch in self._pending_blocks)
        return sum(part.blocks for part in self.parts) + pending

    def add(self, articles: pa.RecordBatch, blocks: pa.RecordBatch, position: int) -> None:
        """Take articles and their blocks (article rows counted from the batch's first), read up to `position`."""
        self._pending_articles.append(articles)
        self._pending_blocks.append(tables.with_article_offset(blocks, self._pending_rows))
        self._pending_rows += articles.num_rows
        self._pending_bytes += articles.nbytes
        self._pending_position = position
        if self._pending_rows >= _PART_ARTICLES or self._pending_bytes >= _PART_BYTES:
            self.close_part()

    def close_part(self) -> None:
        """Write what waits as a part and enter it in the journal."""
        if self._pending_position <= (self.parts[-1].position if self.parts else 0):
            return
        number = len(self.parts)
        articles = pa.Table.from_batches(self._pending_articles, tables.ARTICLES_SCHEMA).combine_chunks()
        blocks = pa.Table.from_batches(self._pending_blocks, tables.UNFINISHED_BLOCKS_SCHEMA).combine_chunks()
        for table, path in ((articles, self.articles_file(number)), (blocks, self.blocks_file(number))):
            with disk_errors(path), open(path, "wb") as file:
                with pa.ipc.new_file(file, table.schema) as writer:
                    writer.write_table(table)
                file.flush()
                os.fsync(file.fileno())
        self.parts.append(Part(number, self._pending_position, articles.num_rows, blocks.num_rows))
        self._write_journal()
        self._pending_articles, self._pending_blocks = [], []
        self._pending_rows = self._pending_bytes = 0

    def finish(self) -> None:
        """Close the last part and note that the source holds no more: it need not be read again."""
        self.close_part()
        self.complete = True
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
            "parts": [asdict(part) for part in self.parts],
        }
        write_json(self._journal, journal)

    def _resume(self) -> None:
        """Keep what the journal names and remove everything else."""
        kept = {LOCK}
        if self._journal.exists():
            journal = read_json(self._journal)
            if not isinstance(journal, dict):
                raise RealmError(f"{self._journal} is damaged; remove its folder and start again.")
            if (journal.get("format"), journal.get("fingerprint")) == (_FORMAT, self._fingerprint):
                try:
                    self.parts = _parts(journal["parts"])
                    self.complete = bool(journal["complete"])
                except (KeyError, TypeError, ValueError):
                    raise RealmError(f"{self._journal} is damaged; remove its folder and start again.") from None
                kept.add(self._journal.name)
                for part in self.parts:
                    kept |= {self.articles_file(part.number).name, self.blocks_file(part.number).name}
            else:
                self.emptied = True
                self._journal.unlink()  # first: from here on nothing in the folder counts
        for path in list(self.path.iterdir()):
            if path.name not in kept:
                remove_folder(path) if path.is_dir() else path.unlink()


def _parts(told: list[dict[str, int]]) -> list[Part]:
    """Parts as a journal lists them. ValueError or TypeError where it does not."""
    parts = [Part(**part) for part in told]
    if any(type(figure) is not int or figure < 0 for part in parts for figure in astuple(part)):
        raise ValueError("A part is told in counts.")
    if [part.number for part in parts] != list(range(len(parts))):
        raise ValueError("Parts are numbered from 0.")
    return parts
