"""The texts of a corpus state as one corpus: its layers concatenated, with dead and repeated rows masked.

Documents and blocks have rows as in a `Snapshot`, counted through all layers: first the base's, then those of each
segment. A row belongs to one document. Of several rows with the same title and text the first is searched, as if the
corpus had been ingested from the living documents in their order; in a part of the corpus, the first of that part.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from realm_core.arrays import Mask
from realm_core.corpus.records import Article, Block
from realm_core.living.collections import CollectionFacts, joined_collections
from realm_core.living.documents import Filter, LivingDocument
from realm_core.living.layer import Layer
from realm_core.living.state import BASE, LivingState


@dataclass(frozen=True)
class ListedDocument:
    """A document without its text. row: its article row. blocks: their number, those included that others have, too."""

    row: int
    id: str
    title: str
    url: str
    blocks: int


class CorpusView:
    """An opened corpus state; `len()` is the number of rows, including dead ones."""

    def __init__(self, state: LivingState, layers: Sequence[Layer]) -> None:
        self.state = state
        self.layers = tuple(layers)
        self.snapshot_id = state.id
        self.manifest: dict[str, Any] = {"name": state.name}
        self._first_rows = np.cumsum([0, *map(len, self.layers)])
        self._first_articles = np.cumsum([0, *(layer.articles for layer in self.layers)])
        self.articles = int(self._first_articles[-1])
        self.live_articles: Mask = np.ones(self.articles, np.bool_)
        self.standing_rows: Mask = np.ones(len(self), np.bool_)
        """The rows of the living documents."""
        for layer, first_row, first_article in self._placed():
            for article in state.tombstones.get(layer.name, ()):
                own = layer.rows_of(article)
                self.standing_rows[first_row + own.start : first_row + own.stop] = False
                self.live_articles[first_article + article] = False
        self.live_rows: Mask = self._first_of_equal(self.standing_rows)
        """The rows that are searched: of equal ones the first."""

    def _placed(self) -> Iterator[tuple[Layer, int, int]]:
        """Each layer with its first row and its first article row."""
        yield from zip(self.layers, self._first_rows.tolist(), self._first_articles.tolist(), strict=False)

    def _first_of_equal(self, rows_N: Mask) -> Mask:
        """Of the rows of a mask those whose block id no earlier one has."""
        kept_N = rows_N.copy()
        base = next((layer for layer in self.layers if layer.name == BASE), None)
        segments_start = 0 if base is None else len(base)
        if base is not None and base.stored_N is not None and base.several_V is not None:
            several = np.flatnonzero(kept_N[:segments_start] & base.several_V[base.stored_N])
            kept_N[np.delete(several, np.unique(base.stored_N[several], return_index=True)[1])] = False
        segments = [layer for layer in self.layers if layer is not base]
        if not segments:
            return kept_N
        kept_M = kept_N[segments_start:]
        if base is not None:
            taken_V = kept_N[:segments_start]
            if base.stored_N is not None:
                taken_V = np.zeros(len(base.snapshot), np.bool_)
                taken_V[base.stored_N[np.flatnonzero(kept_N[:segments_start])]] = True
            stored_M = np.concatenate([layer.stored_in(base) for layer in segments])
            kept_M &= ~((stored_M >= 0) & taken_V[stored_M])
        candidates = np.flatnonzero(kept_M)
        halves_C2 = np.concatenate([layer.id_halves_N2 for layer in segments])[candidates]
        order = np.lexsort((halves_C2[:, 1], halves_C2[:, 0]))  # stable: of equal ids the first row stays first
        ascending = halves_C2[order]
        repeated = np.flatnonzero((ascending[1:] == ascending[:-1]).all(axis=1)) + 1
        kept_M[candidates[order[repeated]]] = False
        return kept_N

    def __len__(self) -> int:
        return int(self._first_rows[-1])

    @cached_property
    def blocks(self) -> int:
        """The number of searched blocks."""
        return int(np.count_nonzero(self.live_rows))

    @cached_property
    def _listed(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        return np.flatnonzero(self.live_articles)

    @property
    def documents(self) -> int:
        """The number of living documents."""
        return len(self._listed)

    # ---- as in a snapshot

    def block(self, row: int) -> Block:
        """The block at `row`, its own and its article's row counted through all layers; IndexError beyond the last."""
        layer, first_row, first_article = self._layer_at(row, self._first_rows)
        return _moved(layer.block(row - first_row), first_row, first_article)

    def block_id(self, row: int) -> str:
        layer, first_row, _ = self._layer_at(row, self._first_rows)
        return layer.block_ids(range(row - first_row, row - first_row + 1))[0]

    def rows_with(self, block_id: str) -> list[int]:
        """The rows of the living documents that have the block with this id, in order; the first is searched."""
        return [
            first_row + row
            for layer, first_row, _ in self._placed()
            for row in layer.rows_with(block_id)
            if self.standing_rows[first_row + row]
        ]

    def blocks_with(self, block_id: str) -> list[Block]:
        """The block with this id in each living document that has it, in order."""
        return list(map(self.block, self.rows_with(block_id)))

    def articles_with(self, block_id: str) -> list[int]:
        """The article rows of the living documents that have the block with this id, in order."""
        return [
            first_article + int(layer.owners_N[row])
            for layer, first_row, first_article in self._placed()
            for row in layer.rows_with(block_id)
            if self.standing_rows[first_row + row]
        ]

    def article(self, row: int) -> Article:
        """The document at an article row, in a snapshot's form."""
        layer, _, first_article = self._layer_at(row, self._first_articles)
        return layer.snapshot.article(row - first_article)

    def blocks_of_article(self, row: int) -> list[Block]:
        """The blocks of the living document at an article row, in reading order, also those that others have."""
        layer, first_row, first_article = self._layer_at(row, self._first_articles)
        if not self.live_articles[row]:
            return []
        return [_moved(layer.block(own), first_row, first_article) for own in layer.rows_of(row - first_article)]

    def articles_matching(self, expression: str) -> Iterator[int]:
        """Rows of the living documents whose text an RE2 expression matches, ignoring case; in order."""
        for layer, _, first_article in self._placed():
            for row in layer.snapshot.articles_matching(expression):
                if self.live_articles[first_article + row]:
                    yield first_article + row

    # ---- documents

    def listed(self, start: int, stop: int) -> list[ListedDocument]:
        """The living documents number `start` to `stop`, counted from 0, in order: a page of a list."""
        return self.described(self._listed[start:stop].tolist())

    def found(self, title: str = "", without: Collection[str] = (), wanted: Filter | None = None) -> list[int]:
        """The article rows of the living documents that pass a filter, without those with some ids.

        title: a part of theirs, in whatever case.
        """
        live_A = self.live_articles.copy()
        for layer, _, first_article in self._placed():
            own = slice(first_article, first_article + layer.articles)
            if wanted is not None:
                live_A[own] &= layer.passing(wanted)
            if title:
                live_A[own] &= layer.with_title_part(title)
            for row in layer.with_ids(without).values():
                live_A[first_article + row] = False
        rows: list[int] = np.flatnonzero(live_A).tolist()
        return rows

    def described(self, rows: Sequence[int]) -> list[ListedDocument]:
        """The documents at some article rows, without their texts."""
        listed = []
        for row in rows:
            layer, _, first_article = self._layer_at(row, self._first_articles)
            document_id, title, url = (
                layer.article_table.column(name)[row - first_article].as_py() for name in ("id", "title", "url")
            )
            listed.append(ListedDocument(row, document_id, title, url, len(layer.rows_of(row - first_article))))
        return listed

    def document(self, row: int) -> LivingDocument:
        layer, _, first_article = self._layer_at(row, self._first_articles)
        return layer.document(row - first_article)

    def metadata(self, row: int) -> dict[str, Any]:
        """What is known of a document besides its text: the fields of `DOCUMENTS_SCHEMA`."""
        layer, _, first_article = self._layer_at(row, self._first_articles)
        return layer.metadata(row - first_article)

    def collection_of(self, row: int) -> str:
        layer, _, first_article = self._layer_at(row, self._first_articles)
        return layer.collection_of(row - first_article)

    @cached_property
    def collections(self) -> dict[str, CollectionFacts]:
        """The collections of the living documents, by name."""
        return joined_collections(
            layer.collections(self.live_articles[first_article : first_article + layer.articles])
            for layer, _, first_article in self._placed()
        )

    def with_ids(self, ids: Collection[str]) -> dict[str, int]:
        """The living documents that have one of these ids: id → article row."""
        return {
            document_id: first_article + row
            for layer, _, first_article in self._placed()
            for document_id, row in layer.with_ids(ids).items()
            if self.live_articles[first_article + row]
        }

    def in_base(self, ids: Collection[str]) -> dict[str, int]:
        """The documents of the base, dead and living, that have one of these ids: id → article row."""
        return next((layer.with_ids(ids) for layer in self.layers[:1] if layer.name == BASE), {})

    def titled(self, titles: Collection[str]) -> list[int]:
        """The article rows of the living documents that have one of these titles."""
        return [
            first_article + row
            for layer, _, first_article in self._placed()
            for row in layer.titled(titles)
            if self.live_articles[first_article + row]
        ]

    def place_of(self, row: int) -> tuple[Layer, int]:
        """The layer of a document, and its row there."""
        layer, _, first_article = self._layer_at(row, self._first_articles)
        return layer, row - first_article

    def rows_of_layer(self, layer: Layer) -> slice:
        number = self.layers.index(layer)
        return slice(int(self._first_rows[number]), int(self._first_rows[number + 1]))

    def articles_of_layer(self, layer: Layer) -> slice:
        number = self.layers.index(layer)
        return slice(int(self._first_articles[number]), int(self._first_articles[number + 1]))

    def passing_rows(self, wanted: Filter) -> Mask:
        """bool: the rows that are searched in the documents that match a filter: of equal ones the first of these."""
        passing = [layer.passing(wanted)[layer.owners_N] for layer in self.layers]
        return self._first_of_equal(self.standing_rows & np.concatenate([np.array([], np.bool_), *passing]))

    def _layer_at(self, row: int, firsts: np.ndarray[Any, np.dtype[np.int64]]) -> tuple[Layer, int, int]:
        if not 0 <= row < firsts[-1]:
            raise IndexError(f"row {row} of {firsts[-1]}")
        number = int(np.searchsorted(firsts, row, side="right")) - 1
        return self.layers[number], int(self._first_rows[number]), int(self._first_articles[number])


def _moved(block: Block, first_row: int, first_article: int) -> Block:
    return replace(block, row=block.row + first_row, article_row=block.article_row + first_article)
