"""Reads a corpus snapshot through memory maps: opening one takes hardly longer at any size.

A snapshot is immutable. Articles and blocks are in two Arrow files; block ids are found by binary search in a sorted
file of id prefixes. All methods are thread-safe.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from realm_core.arrays import Mask, Rows, open_array
from realm_core.corpus import tables
from realm_core.corpus.metadata import open_table
from realm_core.corpus.records import BLOCK_ID, Article, Block, Section, Span
from realm_core.corpus.repetition import IdPrefixes, id_prefixes
from realm_core.corpus.tasks import origin_of
from realm_core.errors import RealmError
from realm_core.files import checksum, plain_name, read_json, remove_folder
from realm_core.object_store import remove_published
from realm_core.text.spelling import Lexicon

_TITLES_READ = 500_000  # for the spelling of questions


class _Tables(NamedTuple):
    """What the files of a snapshot hold: its articles and blocks, and the table that finds block ids."""

    articles: pa.Table
    blocks: pa.Table
    prefixes_N: IdPrefixes
    rows_N: Rows

    @classmethod
    def opened(cls, folder: Path, manifest: dict[str, Any]) -> _Tables:
        blocks: int = manifest["blocks"]
        return cls(
            open_table(folder / tables.ARTICLES_FILE, tables.ARTICLES_SCHEMA, manifest["articles"]),
            open_table(folder / tables.BLOCKS_FILE, tables.BLOCKS_SCHEMA, blocks),
            open_array(folder / tables.PREFIXES_FILE, np.uint64, (blocks,)),
            open_array(folder / tables.ROWS_FILE, np.int64, (blocks,)),
        )

    @classmethod
    def in_memory(cls, articles: pa.RecordBatch, blocks: pa.RecordBatch) -> _Tables:
        blocks = blocks.select(tables.BLOCKS_SCHEMA.names)
        prefixes_N = id_prefixes(blocks.column("block_id").to_pylist())
        order_N = np.argsort(prefixes_N, kind="stable").astype(np.int64)
        own = pa.Table.from_batches([articles]), pa.Table.from_batches([blocks])
        return cls(*own, prefixes_N[order_N], order_N)


class Snapshot:
    """An opened corpus snapshot; `len()` is the number of blocks."""

    def __init__(self, folder: Path, manifest: dict[str, Any], held: _Tables | None = None) -> None:
        self.folder = folder
        self.manifest = manifest
        self.snapshot_id: str = manifest["snapshot_id"]
        self.articles: int = manifest["articles"]
        held = held or _Tables.opened(folder, manifest)
        self.article_table, self.block_table, self._prefixes, self._rows = held
        # Kept: a column finds a row in its batches by a table that takes a while to make.
        self._blocks, self._articles = self.block_table.columns, self.article_table.columns
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
    def in_memory(cls, snapshot_id: str, articles: pa.RecordBatch, blocks: pa.RecordBatch, name: str) -> Snapshot:
        """A small one that is in no file. name: of the corpus."""
        counts = {"articles": articles.num_rows, "blocks": blocks.num_rows}
        manifest = {"snapshot_id": snapshot_id, "name": name, **counts}
        return cls(Path(snapshot_id), manifest, _Tables.in_memory(articles, blocks))

    @classmethod
    def open(cls, folder: Path | str) -> Snapshot:
        """Open a published snapshot; `RealmError` if it is none, damaged, or of another format."""
        folder = Path(folder)
        manifest = _read_manifest(folder)
        counts = (*map(manifest.get, ("articles", "blocks")), *(manifest.get(key, 0) for key in ("links", "shared")))
        if not isinstance(manifest.get("snapshot_id"), str) or not all(type(one) is int and one >= 0 for one in counts):
            raise RealmError(f"{folder / tables.MANIFEST_FILE} does not describe a corpus snapshot.")
        return cls(folder, manifest)

    @classmethod
    def verified(cls, folder: Path | str) -> Snapshot:
        """Open a snapshot from which something is to be made: each file is compared with its checksum first."""
        snapshot = cls.open(folder)
        verify_files(snapshot.folder)
        return snapshot

    @property
    def origin(self) -> str:
        """The same for all snapshots of one corpus: source and language, or the name."""
        return origin_of(self.manifest)

    def __len__(self) -> int:
        return len(self.block_table)

    def block(self, row: int) -> Block:
        """The block at `row`; IndexError if out of range."""
        block_id, article_row, start, end = _values(self._blocks, row)
        return self.block_at(row, block_id, article_row, start, end)

    def block_at(self, row: int, block_id: str, article_row: int, start: int, end: int) -> Block:
        """The characters [start, end) of the article at `article_row` as a block."""
        return _block(row, block_id, article_row, self.article(article_row), start, end)

    def row_of(self, block_id: str) -> int | None:
        if not BLOCK_ID.fullmatch(block_id):
            return None
        prefix = np.uint64(int(block_id[:16], 16))
        position = int(np.searchsorted(self._prefixes, prefix))
        while position < len(self) and self._prefixes[position] == prefix:
            row = int(self._rows[position])
            if self._blocks[0][row].as_py() == block_id:
                return row
            position += 1
        return None

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
        article_id, title, url, text, sections = _values(self._articles, row)
        return Article(article_id, title, url, text, tuple(Section(s["heading"], s["start"]) for s in sections))

    def blocks_of_article(self, row: int) -> list[Block]:
        """The blocks of the article at `row`, in reading order."""
        article, owners = self.article(row), self._blocks[1]
        first, stop = (
            bisect_left(range(len(self)), wanted, key=lambda place: owners[place].as_py()) for wanted in (row, row + 1)
        )
        blocks = []
        for block_row in range(first, stop):
            block_id, article_row, start, end = _values(self._blocks, block_row)
            blocks.append(_block(block_row, block_id, article_row, article, start, end))
        return blocks

    def articles_with(self, ids: Collection[str]) -> list[int]:
        """Rows of the articles that have one of these ids; in order."""
        found = pc.is_in(self._articles[0], pa.array(list(ids), pa.string()))
        rows: list[int] = pc.indices_nonzero(found).to_pylist()
        return rows

    def articles_matching(self, expression: str) -> Iterator[int]:
        """Rows of the articles whose text contains a match of an RE2 expression, ignoring case; in order."""
        first = 0
        for texts in self._articles[3].chunks:
            matches = pc.match_substring_regex(texts, expression, ignore_case=True)
            yield from (first + row for row in pc.indices_nonzero(matches).to_pylist())
            first += len(texts)

    def rows_from(self, address: str) -> Mask:
        """bool [N]: the blocks of the articles whose addresses begin with `address`."""
        rows: Mask = self._articles_from(address)[self._blocks[1].to_numpy()]
        return rows

    def count_from(self, address: str) -> int:
        """Number of the articles whose addresses begin with `address`."""
        return int(self._articles_from(address).sum())

    def _articles_from(self, address: str) -> Mask:
        found_A: Mask = pc.starts_with(self._articles[2], address).to_numpy()
        return found_A

    def titles(self, most: int) -> Iterator[str]:
        """Titles of the articles in order; where there are more than `most`, about so many, evenly spaced."""
        rows = pa.array(range(0, self.articles, max(1, -(-self.articles // most))), pa.int64())
        for titles in self._articles[1].take(rows).chunks:
            yield from titles.to_pylist()

    @cached_property
    def title_words(self) -> Lexicon:
        """The words of its titles, by which the spelling of questions is checked."""
        return Lexicon.of_titles(self.titles(_TITLES_READ))

    def titles_texts(self, start: int, stop: int) -> tuple[list[str], list[str]]:
        """Titles and texts of the blocks in rows [start, stop), limited to the last row."""
        titles: list[str] = []
        texts: list[str] = []
        open_row, title, text = -1, "", ""
        columns = (column.slice(start, max(stop - start, 0)).to_pylist() for column in self._blocks[1:])
        for article_row, first, last in zip(*columns, strict=True):
            if article_row != open_row:
                open_row = article_row
                title, text = self._articles[1][article_row].as_py(), self._articles[3][article_row].as_py()
            titles.append(title)
            texts.append(text[first:last])
        return titles, texts

    @property
    def has_links(self) -> bool:
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
        for name, table in ((tables.ARTICLES_FILE, self.article_table), (tables.BLOCKS_FILE, self.block_table)):
            try:
                table.validate(full=True)
            except (pa.ArrowException, OSError) as error:
                raise RealmError(f"{self.folder / name} is missing or damaged: {error}.") from error
            if any(column.null_count for column in table.columns):
                raise RealmError(f"{self.folder / name} is missing or damaged: a row lacks a value.")
        sections = pc.list_flatten(self.article_table.column("sections"))
        if sections.null_count or any(part.null_count for part in sections.flatten()):
            raise RealmError(f"{self.folder / tables.ARTICLES_FILE} is missing or damaged: a section lacks a value.")
        for batch in self.block_table.to_batches():
            owners, starts, ends = (batch.column(name).to_numpy() for name in ("article", "start", "end"))
            if ((owners < 0) | (owners >= self.articles) | (starts < 0) | (ends < starts)).any():
                raise RealmError(f"{self.folder / tables.BLOCKS_FILE} is damaged: a block lies in no article.")
        if ((self._rows < 0) | (self._rows >= len(self))).any():
            raise RealmError(f"{self.folder / tables.ROWS_FILE} is damaged: it refers to rows that do not exist.")
        if self.shared_R4 is not None:
            limits = np.array([self.articles, len(self)])
            if ((self.shared_R4 < 0).any(axis=1) | (self.shared_R4[:, :2] >= limits).any(axis=1)).any():
                raise RealmError(f"{self.folder / tables.SHARED_FILE} is damaged: it refers to rows that do not exist.")


def _values(columns: Sequence[pa.ChunkedArray], row: int) -> list[Any]:
    """The values of a row; IndexError if out of range."""
    if not 0 <= row < len(columns[0]):
        raise IndexError(f"row {row} of {len(columns[0])}")
    return [column[row].as_py() for column in columns]


def remove_snapshot(folder: Path) -> None:
    """Remove a snapshot from the object store and here, with what has its words beside it."""
    remove_published(folder)
    for derived in tables.derived_folders(folder):
        remove_folder(derived)


def checksums(folder: Path) -> dict[str, str]:
    """The SHA-256 of each file of a snapshot by its name, as the manifest has it; `RealmError` if it has none."""
    files = _read_manifest(folder).get("files")
    if not isinstance(files, dict) or not files:
        raise RealmError(f"{folder / tables.MANIFEST_FILE} contains no checksums.")
    return files


def verify_files(folder: Path) -> int:
    """Check every file of a snapshot against its checksum in the manifest; returns the number of files."""
    expected_of = checksums(folder)
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
