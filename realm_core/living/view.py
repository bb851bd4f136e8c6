"""The texts of a corpus state as one corpus: its layers concatenated, with dead and repeated rows masked.

Documents and blocks have rows as in a `Snapshot`, counted through all layers: first the base's, then those of each
segment. Of several living blocks with the same title and text the first counts, as in ingesting, so the living rows are
exactly those of a corpus ingested from the living documents in their order.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from realm_core.arrays import Mask
from realm_core.corpus.records import Article, Block
from realm_core.living.collections import CollectionFacts, joined
from realm_core.living.documents import Filter, LivingDocument
from realm_core.living.layer import Layer
from realm_core.living.state import BASE, CorpusState


@dataclass(frozen=True)
class ListedDocument:
    """A document without its text. row: its article row. blocks: the number of its searched blocks."""

    row: int
    id: str
    title: str
    url: str
    blocks: int


class CorpusView:
    """An opened corpus state; `len()` is the number of rows, including dead ones."""

    def __init__(self, state: CorpusState, layers: Sequence[Layer]) -> None:
        self.state = state
        self.layers = tuple(layers)
        self.snapshot_id = state.id
        self.manifest: dict[str, Any] = {"name": state.name}
        self._first_rows = np.cumsum([0, *map(len, self.layers)])
        self._first_articles = np.cumsum([0, *(layer.articles for layer in self.layers)])
        self.articles = int(self._first_articles[-1])
        self.live_articles: Mask = np.ones(self.articles, np.bool_)
        self.live_rows: Mask = np.ones(len(self), np.bool_)
        for layer, first_row, first_article in self._placed():
            for article in state.tombstones.get(layer.name, ()):
                own = layer.blocks_of(article)
                self.live_rows[first_row + own.start : first_row + own.stop] = False
                self.live_articles[first_article + article] = False
        self._mask_repeated()

    def _placed(self) -> Iterator[tuple[Layer, int, int]]:
        """Each layer with its first row and its first article row."""
        yield from zip(self.layers, self._first_rows.tolist(), self._first_articles.tolist(), strict=False)

    def _mask_repeated(self) -> None:
        """Mask every living block whose id an earlier living one has; a base has none."""
        base = next((layer for layer in self.layers if layer.name == BASE), None)
        if len(self.layers) == (base is not None):
            return
        segments_start = 0 if base is None else len(base)
        live_M = self.live_rows[segments_start:]
        segments = [layer for layer in self.layers if layer is not base]
        if base is not None:
            rows_M = np.concatenate([layer.rows_in(base) for layer in segments])
            live_M &= ~((rows_M >= 0) & self.live_rows[rows_M])
        candidates = np.flatnonzero(live_M)
        halves_C2 = np.concatenate([layer.id_halves_N2 for layer in segments])[candidates]
        order = np.lexsort((halves_C2[:, 1], halves_C2[:, 0]))  # stable: of equal ids the first row stays first
        ascending = halves_C2[order]
        repeated = np.flatnonzero((ascending[1:] == ascending[:-1]).all(axis=1)) + 1
        live_M[candidates[order[repeated]]] = False

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

    # ── As in a snapshot
    # ────────────────────────────────────────────────────────────────────────────────────────────────

    def block(self, row: int) -> Block:
        """The block at `row`, its own and its article's row counted through all layers; IndexError beyond the last."""
        layer, first_row, first_article = self._layer_at(row, self._first_rows)
        return _moved(layer.snapshot.block(row - first_row), first_row, first_article)

    def row_of(self, block_id: str) -> int | None:
        """The row of the living block with this id, None if there is none."""
        for layer, first_row, _ in self._placed():
            row = layer.row_of(block_id)
            if row is not None and self.live_rows[first_row + row]:
                return first_row + row
            if row is not None and layer.name != BASE:  # a dead document may have the same block as a living one
                same_N = (layer.id_halves_N2 == layer.id_halves_N2[row]).all(axis=1)
                living = np.flatnonzero(same_N & self.live_rows[first_row : first_row + len(layer)])
                if len(living):
                    return first_row + int(living[0])
        return None

    def article(self, row: int) -> Article:
        """The document at an article row, in a snapshot's form."""
        layer, _, first_article = self._layer_at(row, self._first_articles)
        return layer.snapshot.article(row - first_article)

    def blocks_of_article(self, row: int) -> list[Block]:
        """The living blocks of the document at an article row, in reading order."""
        layer, first_row, first_article = self._layer_at(row, self._first_articles)
        return [
            _moved(block, first_row, first_article)
            for block in layer.snapshot.blocks_of_article(row - first_article)
            if self.live_rows[first_row + block.row]
        ]

    def articles_matching(self, expression: str) -> Iterator[int]:
        """Rows of the living documents whose text an RE2 expression matches, ignoring case; in order."""
        for layer, _, first_article in self._placed():
            for row in layer.snapshot.articles_matching(expression):
                if self.live_articles[first_article + row]:
                    yield first_article + row

    # ── Documents ───────────────────────────────────────────────────────────────────────────────────────────────────

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
            layer, first_row, first_article = self._layer_at(row, self._first_articles)
            own = layer.blocks_of(row - first_article)
            blocks = np.count_nonzero(self.live_rows[first_row + own.start : first_row + own.stop])
            document_id, title, url = (
                layer.article_table.column(name)[row - first_article].as_py() for name in ("id", "title", "url")
            )
            listed.append(ListedDocument(row, document_id, title, url, int(blocks)))
        return listed

    def document(self, row: int) -> LivingDocument:
        """The document at an article row, with its metadata."""
        layer, _, first_article = self._layer_at(row, self._first_articles)
        return layer.document(row - first_article)

    def collection_of(self, row: int) -> str:
        """The collection of the document at an article row."""
        layer, _, first_article = self._layer_at(row, self._first_articles)
        return layer.collection_of(row - first_article)

    @cached_property
    def collections(self) -> dict[str, CollectionFacts]:
        """The collections of the living documents, by name."""
        return joined(
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
        """The slice of a layer's block rows."""
        number = self.layers.index(layer)
        return slice(int(self._first_rows[number]), int(self._first_rows[number + 1]))

    def articles_of_layer(self, layer: Layer) -> slice:
        """The slice of a layer's article rows."""
        number = self.layers.index(layer)
        return slice(int(self._first_articles[number]), int(self._first_articles[number + 1]))

    def passing_rows(self, wanted: Filter) -> Mask:
        """bool: the living rows whose document matches a filter."""
        passing = [layer.passing(wanted)[layer.owners_N] for layer in self.layers]
        rows_N: Mask = self.live_rows & np.concatenate([np.array([], np.bool_), *passing])
        return rows_N

    def _layer_at(self, row: int, firsts: np.ndarray[Any, np.dtype[np.int64]]) -> tuple[Layer, int, int]:
        if not 0 <= row < firsts[-1]:
            raise IndexError(f"row {row} of {firsts[-1]}")
        number = int(np.searchsorted(firsts, row, side="right")) - 1
        return self.layers[number], int(self._first_rows[number]), int(self._first_articles[number])


def _moved(block: Block, first_row: int, first_article: int) -> Block:
    return replace(block, row=block.row + first_row, article_row=block.article_row + first_article)
