"""Reads a corpus snapshot through memory maps: opening one takes the same time at any size.

A snapshot is immutable. Articles and blocks are in two Arrow files of several record batches; block ids are found by
binary search in a sorted file of id prefixes. All methods are thread-safe.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from realm_core.arrays import Mask, open_array
from realm_core.corpus import tables
from realm_core.corpus.records import BLOCK_ID, Article, Block, Section, Span
from realm_core.corpus.tasks import PACKAGES
from realm_core.errors import RealmError
from realm_core.files import checksum, plain_name, read_json
from realm_core.text.spelling import Lexicon

_TITLES_READ = 500_000  # for the spelling of questions


class _Batches:
    """Random access to the record batches of one Arrow file."""

    def __init__(self, path: Path, schema: pa.Schema, rows: int) -> None:
        try:
            self._reader = pa.ipc.open_file(pa.memory_map(str(path)))
            counts = [self._reader.get_batch(i).num_rows for i in range(self._reader.num_record_batches)]
        except (pa.ArrowException, OSError, ValueError) as error:
            raise RealmError(f"{path} is missing or damaged: {error}.") from error
        if self._reader.schema != schema or sum(counts) != rows:
            raise RealmError(f"{path} does not contain the {rows:,} rows that its manifest declares.")
        self._first_rows = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]).astype(np.int64)
        self._batches: list[pa.RecordBatch | None] = [None] * len(counts)
        self._lock = threading.Lock()
        self._path = path
        self.rows = rows

    def batch_of(self, row: int) -> tuple[pa.RecordBatch, int]:
        """The batch that contains `row`, and the row's position in it."""
        if not 0 <= row < self.rows:
            raise IndexError(f"row {row} of {self.rows}")
        number = int(np.searchsorted(self._first_rows, row, side="right")) - 1
        batch = self._batches[number]
        if batch is None:
            with self._lock:
                batch = self._batches[number] = self._reader.get_batch(number)
        return batch, row - int(self._first_rows[number])

    def validated(self) -> Iterator[pa.RecordBatch]:
        """All batches, fully validated; `RealmError` for invalid offsets, invalid UTF-8 or a missing value."""
        try:
            for number in range(len(self._batches)):
                batch = self._reader.get_batch(number)
                batch.validate(full=True)
                if any(column.null_count for column in batch.columns):
                    raise RealmError(f"{self._path} is missing or damaged: a row lacks a value.")
                yield batch
        except (pa.ArrowException, OSError) as error:
            raise RealmError(f"{self._path} is missing or damaged: {error}.") from error

    def all(self) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Each batch and its first row."""
        for first in self._first_rows[:-1].tolist():
            yield self.batch_of(first)[0], first

    def value(self, row: int, column: int) -> Any:
        batch, position = self.batch_of(row)
        return batch.column(column)[position].as_py()


class Snapshot:
    """An opened corpus snapshot; `len()` is the number of blocks."""

    def __init__(self, folder: Path, manifest: dict[str, Any]) -> None:
        self.folder = folder
        self.manifest = manifest
        self.snapshot_id: str = manifest["snapshot_id"]
        self.articles: int = manifest["articles"]
        self._blocks = _Batches(folder / tables.BLOCKS_FILE, tables.BLOCKS_SCHEMA, manifest["blocks"])
        self._articles = _Batches(folder / tables.ARTICLES_FILE, tables.ARTICLES_SCHEMA, self.articles)
        self._prefixes = open_array(folder / tables.PREFIXES_FILE, np.uint64, (len(self),))
        self._rows = open_array(folder / tables.ROWS_FILE, np.int64, (len(self),))
        links: int = manifest.get("links", 0)
        self._links_M3 = (
            open_array(folder / tables.LINKS_FILE, np.int32, (links, 3)) if links else np.empty((0, 3), np.int32)
        )
        shared: int | None = manifest.get("shared")
        self.shared_R4 = None if shared is None else np.empty((0, 4), np.int64)
        """As in `sharing.py`; None in a snapshot that was made before they were kept."""
        if shared:
            self.shared_R4 = open_array(folder / tables.SHARED_FILE, np.int64, (shared, 4))

    @classmethod
    def open(cls, folder: Path | str) -> Snapshot:
        """Open a published snapshot; `RealmError` if it is none, damaged, or of another format."""
        folder = Path(folder)
        manifest = _read_manifest(folder)
        counts = (*map(manifest.get, ("articles", "blocks")), *(manifest.get(key, 0) for key in ("links", "shared")))
        if not isinstance(manifest.get("snapshot_id"), str) or not all(type(one) is int and one >= 0 for one in counts):
            raise RealmError(f"{folder / tables.MANIFEST_FILE} does not describe a corpus snapshot.")
        return cls(folder, manifest)

    @property
    def origin(self) -> str:
        """The same for all snapshots of one corpus: source and language, or the name."""
        source, language, name = (str(self.manifest.get(key, "")) for key in ("source", "language", "name"))
        return f"{source} {language}" if source in PACKAGES else f"{source} {name}"

    def __len__(self) -> int:
        return self._blocks.rows

    def block(self, row: int) -> Block:
        """The block at `row`; IndexError if out of range."""
        batch, position = self._blocks.batch_of(row)
        block_id, article_row, start, end = (column[position].as_py() for column in batch.columns)
        return self.block_at(row, block_id, article_row, start, end)

    def block_at(self, row: int, block_id: str, article_row: int, start: int, end: int) -> Block:
        """The characters [start, end) of the article at `article_row` as a block."""
        return _block(row, block_id, article_row, self.article(article_row), start, end)

    def row_of(self, block_id: str) -> int | None:
        """The row of the block with this id, None if there is none."""
        if not BLOCK_ID.fullmatch(block_id):
            return None
        prefix = np.uint64(int(block_id[:16], 16))
        position = int(np.searchsorted(self._prefixes, prefix))
        while position < len(self) and self._prefixes[position] == prefix:
            row = int(self._rows[position])
            if self._blocks.value(row, 0) == block_id:
                return row
            position += 1
        return None

    def rows_with(self, block_id: str) -> list[int]:
        """The rows of the block with this id: one or none. (A living corpus has one for each document.)"""
        row = self.row_of(block_id)
        return [] if row is None else [row]

    def blocks_with(self, block_id: str) -> list[Block]:
        """The block with this id in each article that has it, in order."""
        row = self.row_of(block_id)
        if row is None:
            return []
        others_R4 = np.empty((0, 4), np.int64) if self.shared_R4 is None else self.shared_R4
        others = others_R4[others_R4[:, 1] == row].tolist()
        return [self.block(row), *(self.block_at(row, block_id, one, start, end) for one, _, start, end in others)]

    def article(self, row: int) -> Article:
        """The article at `row`; IndexError if out of range."""
        batch, position = self._articles.batch_of(row)
        article_id, title, url, text, sections = (column[position].as_py() for column in batch.columns)
        return Article(article_id, title, url, text, tuple(Section(s["heading"], s["start"]) for s in sections))

    def blocks_of_article(self, row: int) -> list[Block]:
        """The blocks of the article at `row`, in reading order."""
        article = self.article(row)
        blocks = []
        for block_row in range(self._first_block(row), self._first_block(row + 1)):
            batch, position = self._blocks.batch_of(block_row)
            block_id, article_row, start, end = (column[position].as_py() for column in batch.columns)
            blocks.append(_block(block_row, block_id, article_row, article, start, end))
        return blocks

    def articles_matching(self, expression: str) -> Iterator[int]:
        """Rows of the articles whose text contains a match of an RE2 expression, ignoring case; in order."""
        for batch, first in self._articles.all():
            matches = pc.match_substring_regex(batch.column(3), expression, ignore_case=True)
            for row in pc.indices_nonzero(matches).to_pylist():
                yield first + row

    def rows_from(self, address: str) -> Mask:
        """bool [N]: the blocks of the articles whose addresses begin with `address`."""
        found_A = np.zeros(self.articles, np.bool_)
        for batch, first in self._articles.all():
            found_A[first : first + batch.num_rows] = pc.starts_with(batch.column(2), address).to_numpy(False)
        owners = [batch.column(1).to_numpy() for batch, _ in self._blocks.all()]
        return found_A[np.concatenate(owners)] if owners else np.zeros(0, np.bool_)

    def titles(self, most: int) -> Iterator[str]:
        """Titles of the articles in order; where there are more than `most`, about so many, evenly spaced."""
        step = max(1, -(-self.articles // most))
        for batch, first in self._articles.all():
            yield from batch.column(1).take(pa.array(range(-first % step, batch.num_rows, step))).to_pylist()

    @cached_property
    def title_words(self) -> Lexicon:
        """The words of its titles, by which the spelling of questions is checked."""
        return Lexicon.of_titles(self.titles(_TITLES_READ))

    def titles_texts(self, start: int, stop: int) -> tuple[list[str], list[str]]:
        """Titles and texts of the blocks in rows [start, stop), limited to the last row."""
        titles: list[str] = []
        texts: list[str] = []
        open_row, title, text = -1, "", ""
        row, stop = start, min(stop, len(self))
        while row < stop:
            batch, position = self._blocks.batch_of(row)
            taken = batch.slice(position, stop - row)
            columns = (taken.column(i).to_pylist() for i in (1, 2, 3))
            for article_row, first, last in zip(*columns, strict=True):
                if article_row != open_row:
                    open_row = article_row
                    title, text = self._articles.value(article_row, 1), self._articles.value(article_row, 3)
                titles.append(title)
                texts.append(text[first:last])
            row += taken.num_rows
        return titles, texts

    @property
    def has_links(self) -> bool:
        """Whether the snapshot records the links in its blocks."""
        return len(self._links_M3) > 0

    def links(self, row: int) -> list[Span]:
        """The link anchors in the block at `row`: characters [start, end) of its text, in order."""
        rows_M = self._links_M3[:, 0]
        first = bisect_left(rows_M, row)
        own = self._links_M3[first : bisect_left(rows_M, row + 1, first)]
        return [(start, end) for start, end in own[:, 1:].tolist()]

    def verify(self) -> None:
        """Check every file against its checksum and validate all rows; reads everything."""
        verify_files(self.folder)
        for batch in self._articles.validated():
            sections = batch.column("sections").flatten()
            if sections.null_count or any(part.null_count for part in sections.flatten()):
                raise RealmError(
                    f"{self.folder / tables.ARTICLES_FILE} is missing or damaged: a section lacks a value."
                )
        for batch in self._blocks.validated():
            owners, starts, ends = (batch.column(name).to_numpy() for name in ("article", "start", "end"))
            if ((owners < 0) | (owners >= self.articles) | (starts < 0) | (ends < starts)).any():
                raise RealmError(f"{self.folder / tables.BLOCKS_FILE} is damaged: a block lies in no article.")
        if ((self._rows < 0) | (self._rows >= len(self))).any():
            raise RealmError(f"{self.folder / tables.ROWS_FILE} is damaged: it refers to rows that do not exist.")
        if self.shared_R4 is not None:
            limits = np.array([self.articles, len(self)])
            if ((self.shared_R4 < 0).any(axis=1) | (self.shared_R4[:, :2] >= limits).any(axis=1)).any():
                raise RealmError(f"{self.folder / tables.SHARED_FILE} is damaged: it refers to rows that do not exist.")

    def _first_block(self, article_row: int) -> int:
        """The first row whose block belongs to `article_row` or a later one; blocks are sorted by article row."""
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if self._blocks.value(middle, 1) < article_row:
                low = middle + 1
            else:
                high = middle
        return low


def verify_files(folder: Path) -> int:
    """Check every file of a snapshot against its checksum in the manifest; returns the number of files."""
    expected_of = _read_manifest(folder).get("files")
    if not isinstance(expected_of, dict) or not expected_of:
        raise RealmError(f"{folder / tables.MANIFEST_FILE} contains no checksums.")
    for name, expected in expected_of.items():
        try:
            path = folder / plain_name(name)
            found = checksum(path)
        except FileNotFoundError:
            raise RealmError(f"{folder / name} does not exist.") from None
        except (ValueError, OSError) as error:
            raise RealmError(f"{folder / tables.MANIFEST_FILE}: {error}.") from None
        if found != expected:
            raise RealmError(f"{path} is not the file that was published: its checksum differs.")
    return len(expected_of)


def _read_manifest(folder: Path) -> dict[str, Any]:
    manifest = read_json(folder / tables.MANIFEST_FILE)
    if not isinstance(manifest, dict) or manifest.get("format") != tables.FORMAT:
        raise RealmError(f"{folder} is not a corpus snapshot of format {tables.FORMAT}.")
    return manifest


def _block(row: int, block_id: str, article_row: int, article: Article, start: int, end: int) -> Block:
    return Block(
        row=row,
        block_id=block_id,
        title=article.title,
        text=article.text[start:end],
        article_row=article_row,
        start=start,
        end=end,
        section=article.section_at(start),
        url=article.url,
    )
