"""One opened layer of a living corpus: the base or a segment. Both are a snapshot and a generation of its blocks.

A base stores a passage that several of its documents have once (`corpus/sharing.py`). A layer has a row of it for each
of these documents, all with the same stored vector, so that every row belongs to one document.

Layers are immutable and thread-safe; states with a common layer share the opened one.
Legend: N rows, M wanted ones, V stored blocks with their vectors, R those of a shard, P wanted ones of it, A documents,
D dimension.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

from realm_core.arrays import Mask, Rows
from realm_core.corpus import tables
from realm_core.corpus.metadata import DOCUMENTS_FILE, DOCUMENTS_SCHEMA, known_of, open_table
from realm_core.corpus.records import Block
from realm_core.corpus.sharing import Shared, shared_in
from realm_core.corpus.store import Snapshot
from realm_core.errors import RealmError
from realm_core.files import plain_name
from realm_core.index.generation import Generation, read_vectors
from realm_core.index.manifest import read_manifest, verified_file
from realm_core.index.postings import Postings
from realm_core.living.collections import CollectionFacts, collections_of
from realm_core.living.documents import Filter, LivingDocument
from realm_core.living.state import BASE


class StoredVectors:
    """The vectors of a generation on disk: an edit needs only a few of them, whatever the size of the base."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.manifest = read_manifest(folder)
        try:
            self.rows, self.dimension = int(self.manifest["rows"]), int(self.manifest["dim"])
            self.block_hash, self.snapshot_id = str(self.manifest["block_hash"]), str(self.manifest["snapshot_id"])
            self._shards = [
                {"file": plain_name(shard["file"]), "sha256": str(shard["sha256"]), "start": int(shard["start"])}
                for shard in self.manifest["shards"]
            ]
            self._starts = np.array([*(shard["start"] for shard in self._shards), self.rows], np.int64)
        except (KeyError, TypeError, ValueError) as error:
            raise RealmError(f"{folder / 'manifest.json'} does not describe an index: {error}.") from None

    def load(self) -> Tensor:
        """All vectors, float16 [N, D], verified."""
        return Generation.open(self.folder).vectors_ND

    def at(self, rows_M: Rows) -> Tensor:
        """The vectors of some rows, float16 [M, D], with their files verified."""
        vectors_MD = torch.empty(len(rows_M), self.dimension, dtype=torch.float16)
        shards_M = np.searchsorted(self._starts, rows_M, side="right") - 1
        for shard in np.unique(shards_M).tolist():
            start, stop = self._starts[shard : shard + 2].tolist()
            places_P = np.flatnonzero(shards_M == shard)
            path = verified_file(self.folder, self._shards[shard])
            vectors_RD = read_vectors(path, stop - start, self.dimension)  # a mapping: the wanted rows alone are read
            vectors_MD[torch.from_numpy(places_P)] = vectors_RD[torch.from_numpy(rows_M[places_P] - start)]
        return vectors_MD


class HeldVectors(StoredVectors):
    """Vectors that are in no file."""

    def __init__(self, vectors_ND: Tensor, block_hash: str, snapshot_id: str) -> None:
        self.rows, self.dimension = vectors_ND.shape
        self.block_hash, self.snapshot_id = block_hash, snapshot_id
        self._vectors_ND = vectors_ND

    def load(self) -> Tensor:
        return self._vectors_ND

    def at(self, rows_M: Rows) -> Tensor:
        return self._vectors_ND[torch.from_numpy(rows_M)]


class Layer:
    """name: `BASE` or the segment's id."""

    def __init__(
        self, name: str, snapshot: Snapshot, vectors: StoredVectors, document_table: pa.Table | None = None
    ) -> None:
        self.name, self.snapshot, self.vectors, self.document_table = name, snapshot, vectors, document_table
        self.article_table, self.block_table = snapshot.article_table, snapshot.block_table
        # The document of each row, ascending, so that a document's rows are found by bisection.
        self.owners_N: Rows = self.block_table.column("article").to_numpy()
        self.stored_N: Rows | None = None
        """The stored block of each row; None where each row has its own."""
        self._shared_rows: dict[int, tuple[int, int]] = {}  # row → start and end, where the block is another document's
        if name == BASE and len(shared_R4 := shared_in(self.snapshot)):
            self._add_shared(shared_R4)
        self._base_rows: dict[str, Rows] = {}

    @classmethod
    def open(cls, name: str, corpus: Path, index: Path) -> Layer:
        """Open and verify a published one. corpus: folder of the snapshot. index: folder of the generation."""
        snapshot = Snapshot.open(corpus)
        snapshot.verify()
        vectors = StoredVectors(index)
        if (vectors.snapshot_id, vectors.rows) != (snapshot.snapshot_id, len(snapshot)):
            raise RealmError(f"The index {index} is not of the corpus {corpus}.")
        document_table = None
        if DOCUMENTS_FILE in snapshot.manifest["files"]:
            document_table = open_table(corpus / DOCUMENTS_FILE, DOCUMENTS_SCHEMA, snapshot.articles)
        return cls(name, snapshot, vectors, document_table)

    def _add_shared(self, shared_R4: Shared) -> None:
        articles, stored, starts, _ = shared_R4.T
        owners, blocks = np.concatenate([self.owners_N, articles]), len(self.snapshot)
        order_N = np.lexsort((np.concatenate([self.block_table.column("start").to_numpy(), starts]), owners))
        self.owners_N = owners[order_N]
        self.stored_N = np.concatenate([np.arange(blocks), stored])[order_N]
        for row in np.flatnonzero(order_N >= blocks).tolist():
            self._shared_rows[row] = tuple(shared_R4[order_N[row] - blocks, 2:].tolist())

    def __len__(self) -> int:
        return len(self.owners_N)

    @property
    def articles(self) -> int:
        """The number of its documents, dead and living."""
        return self.snapshot.articles

    def rows_of(self, article: int) -> range:
        """The rows of a document, in reading order."""
        first, stop = np.searchsorted(self.owners_N, [article, article + 1]).tolist()
        return range(first, stop)

    def stored(self, rows_M: Rows) -> Rows:
        """The stored blocks of some rows."""
        return rows_M if self.stored_N is None else self.stored_N[rows_M]

    @cached_property
    def several_V(self) -> Mask | None:
        """bool [V]: the stored blocks that several documents have; None where none is."""
        return None if self.stored_N is None else np.bincount(self.stored_N) > 1

    def block(self, row: int) -> Block:
        """The block of a row, in its own document."""
        if self.stored_N is None:
            return self.snapshot.block(row)
        stored = int(self.stored_N[row])
        if row not in self._shared_rows:
            return replace(self.snapshot.block(stored), row=row)
        return self.snapshot.block_at(
            row, self.snapshot.block(stored).block_id, int(self.owners_N[row]), *self._shared_rows[row]
        )

    def block_ids(self, rows: range) -> list[str]:
        column = self.block_table.column("block_id")
        if self.stored_N is None:
            own = column.slice(rows.start, len(rows))
        else:
            own = column.take(pa.array(self.stored_N[rows.start : rows.stop]))
        ids: list[str] = own.to_pylist()
        return ids

    def block_rows(self, rows_M: Rows) -> pa.Table:
        """Some rows in `BLOCKS_SCHEMA`, each with its own document."""
        table = self.block_table.take(pa.array(self.stored(rows_M)))
        if self.stored_N is None:
            return table
        places = [self._shared_rows.get(row) for row in rows_M.tolist()]
        columns = {"article": self.owners_N[rows_M]}
        for number, name in enumerate(("start", "end")):
            own = table.column(name).to_numpy().copy()
            for place, span in enumerate(places):
                if span is not None:
                    own[place] = span[number]
            columns[name] = own
        for name, values in columns.items():
            number = tables.BLOCKS_SCHEMA.get_field_index(name)
            table = table.set_column(number, tables.BLOCKS_SCHEMA.field(number), pa.array(values, pa.int64()))
        return table

    @cached_property
    def postings(self) -> Postings:
        """The wordpieces of its stored blocks [V]."""
        return Postings.of(self.snapshot) if self.name == BASE else Postings.in_memory(self.snapshot)

    def vectors_at(self, rows_M: Rows) -> Tensor:
        """The vectors of some rows, float16 [M, D]."""
        return self.vectors.at(self.stored(rows_M))

    @cached_property
    def _rows_by_id(self) -> dict[str, list[int]]:
        rows: dict[str, list[int]] = {}
        for row, block_id in enumerate(self.block_ids(range(len(self)))):
            rows.setdefault(block_id, []).append(row)
        return rows

    def rows_with(self, block_id: str) -> list[int]:
        """The rows with this block id, dead and living, in order."""
        # A base may be large and is searched on disk; a segment's ids are in memory.
        if self.name != BASE:
            return self._rows_by_id.get(block_id, [])
        stored = self.snapshot.row_of(block_id)
        if stored is None or self.stored_N is None:
            return [] if stored is None else [stored]
        rows: list[int] = np.flatnonzero(self.stored_N == stored).tolist()
        return rows

    @cached_property
    def id_halves_N2(self) -> np.ndarray[Any, np.dtype[np.uint64]]:
        """The block ids as two numbers each, uint64 [N, 2]."""
        return np.frombuffer(bytes.fromhex("".join(self.block_ids(range(len(self))))), ">u8").reshape(-1, 2)

    def stored_in(self, base: Layer) -> Rows:
        """For each of its rows the base's stored block with the same id, −1 if there is none; cached."""
        key = base.snapshot.snapshot_id
        if key not in self._base_rows:
            found = (base.snapshot.row_of(block_id) for block_id in self.block_ids(range(len(self))))
            self._base_rows[key] = np.array([-1 if row is None else row for row in found], np.int64)
        return self._base_rows[key]

    def with_ids(self, ids: Collection[str]) -> dict[str, int]:
        """The documents with one of these ids, dead and living: id → row."""
        column = self.article_table.column("id")
        return {column[row].as_py(): row for row in self._in("id", ids).tolist()}

    def titled(self, titles: Collection[str]) -> list[int]:
        """The rows of the documents with one of these titles, dead and living."""
        rows: list[int] = self._in("title", titles).tolist()
        return rows

    def with_title_part(self, part: str) -> Mask:
        """bool [A]: the documents, dead and living, whose title contains this part, ignoring case."""
        found = pc.match_substring(self.article_table.column("title"), part, ignore_case=True)
        mask: Mask = found.to_numpy()
        return mask

    def _in(self, column: str, values: Collection[str]) -> Rows:
        if not values:
            return np.array([], np.int64)
        return np.flatnonzero(_is_in(self.article_table.column(column), values))

    def document(self, article: int) -> LivingDocument:
        own = self.snapshot.article(article)
        known = self.metadata(article)
        known["tags"] = tuple(known["tags"])
        return LivingDocument(own.id, own.title, own.text, own.sections, own.url, **known)

    def metadata(self, article: int) -> dict[str, Any]:
        """What is known of a document besides its text: the fields of `DOCUMENTS_SCHEMA`."""
        if self.document_table is None:
            return known_of(self.snapshot.manifest, self.article_table.column("url")[article].as_py())
        return {name: self.document_table.column(name)[article].as_py() for name in DOCUMENTS_SCHEMA.names}

    def collection_of(self, article: int) -> str:
        if self.document_table is None:
            return str(known_of(self.snapshot.manifest)["collection"])
        return str(self.document_table.column("collection")[article].as_py())

    def collections(self, live_A: Mask) -> dict[str, CollectionFacts]:
        """The collections of its living documents, by name."""
        if self.document_table is not None:
            return collections_of(self.document_table.filter(pa.array(live_A)))
        known, documents = known_of(self.snapshot.manifest), int(np.count_nonzero(live_A))
        languages = frozenset(filter(None, [known["language"]]))
        facts = CollectionFacts(documents, languages, frozenset(), None, None)
        return {known["collection"]: facts} if documents else {}

    def known_rows(self, start: int, stop: int) -> pa.Table:
        """The metadata of the documents in rows [start, stop), in `DOCUMENTS_SCHEMA`."""
        if self.document_table is not None:
            return self.document_table.slice(start, stop - start)
        urls = self.article_table.column("url").slice(start, stop - start).to_pylist()
        return pa.Table.from_pylist([known_of(self.snapshot.manifest, url) for url in urls], DOCUMENTS_SCHEMA)

    def passing(self, wanted: Filter) -> Mask:
        """bool [A]: the documents, dead and living, that match a filter."""
        passing = np.ones(self.articles, np.bool_)
        if wanted.documents is not None:
            passing &= _is_in(self.article_table.column("id"), wanted.documents)
        if wanted.titles is not None:
            passing &= _is_in_any_case(self.article_table.column("title"), wanted.titles)
        if self.document_table is None:
            known = known_of(self.snapshot.manifest)
            passes = all(
                values is None or known[column] in values
                for column, values in (("language", wanted.languages), ("collection", wanted.collections))
            )
            passes &= known["collection"] not in wanted.hidden_collections
            dated = wanted.since is not None or wanted.until is not None
            return passing & (passes and not dated and wanted.tags is None)
        if wanted.languages is not None:
            passing &= _is_in(pc.utf8_lower(self.document_table.column("language")), wanted.languages)
        if wanted.collections is not None:
            passing &= _is_in(self.document_table.column("collection"), wanted.collections)
        if wanted.hidden_collections:
            passing &= ~_is_in(self.document_table.column("collection"), wanted.hidden_collections)
        if wanted.tags is not None:
            tags = self.document_table.column("tags").combine_chunks()
            tagged = pc.list_parent_indices(tags).to_numpy()[_is_in_any_case(pc.list_flatten(tags), wanted.tags)]
            passing &= np.isin(np.arange(self.articles), tagged)
        dates = self.document_table.column("date")
        for bound, holds in ((wanted.since, pc.greater_equal), (wanted.until, pc.less_equal)):
            if bound is not None:
                held = pc.fill_null(holds(dates, pa.scalar(bound, pa.date32())), False)
                passing &= held.to_numpy(zero_copy_only=False) if isinstance(held, pa.Array) else held.to_numpy()
        return passing


def _is_in_any_case(texts: pa.ChunkedArray | pa.Array, wanted: Collection[str]) -> Mask:
    """Whether each text is a wanted one, without regard to case; composed, because titles and older tags are not."""
    folded = _folded(pa.array(sorted(wanted), pa.string()))
    return _is_in(_folded(texts), folded.to_pylist())


def _folded(texts: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    return pc.utf8_lower(pc.utf8_normalize(texts, form="NFC"))


def _is_in(values: pa.ChunkedArray | pa.Array, wanted: Collection[str]) -> Mask:
    found = pc.is_in(values, value_set=pa.array(sorted(wanted), pa.string()))
    mask: Mask = found.to_numpy(zero_copy_only=False) if isinstance(found, pa.Array) else found.to_numpy()
    return mask
