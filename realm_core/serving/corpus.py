"""What an engine searches and reads its blocks from: a snapshot as it was ingested, or one state of a living corpus."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from realm_core.corpus.records import Block
from realm_core.corpus.store import Snapshot
from realm_core.index.generation import Generation
from realm_core.index.retriever import check_fit
from realm_core.index.search import ExactSearch, Search, search_without
from realm_core.living.index import LivingIndex, check_fits
from realm_core.living.search import Approximate
from realm_core.living.state import BASE, CorpusState
from realm_core.living.store import Store
from realm_core.living.view import CorpusView
from realm_core.model.checkpoint import Model


@dataclass(frozen=True)
class LivingCorpus:
    """A state of a living corpus and the store of its segments, for an engine to open."""

    store: Store
    state: CorpusState


@dataclass(frozen=True)
class ServedCorpus:
    """Texts and their search, of one corpus state. A question is answered from one of these from start to end.

    id: NAME@SNAPSHOT, and +STATE where documents were edited: what answers name.
    """

    texts: Snapshot | CorpusView
    search: Search
    id: str
    index: LivingIndex | None = None

    @classmethod
    def of_snapshot(cls, snapshot: Snapshot, search: Search) -> ServedCorpus:
        """A corpus that is not edited."""
        return cls(snapshot, search, f"{snapshot.manifest['name']}@{snapshot.snapshot_id}")

    @classmethod
    def of_index(cls, index: LivingIndex) -> ServedCorpus:
        """One state of a living corpus."""
        view = index.corpus
        base = next(layer for layer in view.layers if layer.name == BASE).snapshot
        edits = f"+{view.state.id}" if view.state.has_edits else ""
        return cls(view, index, f"{base.manifest['name']}@{base.snapshot_id}{edits}", index)


def nearest(
    corpus: ServedCorpus, queries_BD: torch.Tensor, ks: Sequence[int], excludes: Sequence[Collection[str]]
) -> list[tuple[list[Block], list[float]]]:
    """The k best blocks of each query with their scores, without the blocks with the ids `exclude`."""
    texts = corpus.texts
    rows = [{row for block_id in exclude if (row := texts.row_of(block_id)) is not None} for exclude in excludes]
    return [
        ([texts.block(row) for row in own], scores)
        for own, scores in search_without(corpus.search, queries_BD, ks, rows)
    ]


def open_snapshot(
    model: Model, index: Path, corpus: Path, device: torch.device, approximate: Approximate | None
) -> tuple[ServedCorpus, str]:
    """A corpus with the index that matches model and corpus, and the index's name."""
    generation, snapshot = Generation.open(index), Snapshot.open(corpus)
    check_fit(model, generation, snapshot)
    snapshot.verify()  # memory-mapped, so not verified on reading as model and index are
    vectors_ND = generation.vectors_ND
    search = ExactSearch(vectors_ND, device) if approximate is None else approximate(vectors_ND)
    return ServedCorpus.of_snapshot(snapshot, search), generation.name


def open_living(
    model: Model, living: LivingCorpus, device: torch.device, approximate: Approximate | None
) -> tuple[ServedCorpus, str]:
    """A state of a living corpus, and the name of its base's index."""
    check_fits(model, living.state)
    index = LivingIndex.open(living.store, living.state, device=device, approximate=approximate)
    base = next(layer for layer in index.corpus.layers if layer.name == BASE)
    return ServedCorpus.of_index(index), str(base.vectors.manifest["generation"])
