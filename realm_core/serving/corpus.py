"""What an engine searches and reads its blocks from: a snapshot as it was ingested, or one state of a living corpus."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from realm_core.corpus.records import Block
from realm_core.corpus.store import Snapshot
from realm_core.index.approximate import open_approximate
from realm_core.index.choice import SearchKind
from realm_core.index.generation import Generation
from realm_core.index.manifest import read_manifest
from realm_core.index.retriever import check_manifest_fits
from realm_core.index.search import ExactSearch, Search, search_without
from realm_core.living.index import LivingIndex, check_fits
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
    model: Model, index: Path, corpus: Path, device: torch.device, wanted: SearchKind
) -> tuple[ServedCorpus, str]:
    """A corpus with the index that matches model and corpus, and the index's name. wanted: see `open_approximate`."""
    manifest, snapshot = read_manifest(index), Snapshot.open(corpus)
    check_manifest_fits(model, manifest, snapshot)
    snapshot.verify()  # memory-mapped, so not verified on reading as model and index are
    search: Search | None = open_approximate(index, wanted)
    if search is None:
        search = ExactSearch(Generation.open(index).vectors_ND, device)
    return ServedCorpus.of_snapshot(snapshot, search), str(manifest["generation"])


def open_living(
    model: Model, living: LivingCorpus, device: torch.device, wanted: SearchKind
) -> tuple[ServedCorpus, str]:
    """A state of a living corpus, and the name of its base's index. wanted: see `open_approximate`."""
    check_fits(model, living.state)
    index = LivingIndex.open(living.store, living.state, device=device, search=wanted)
    base = next(layer for layer in index.corpus.layers if layer.name == BASE)
    return ServedCorpus.of_index(index), str(base.vectors.manifest["generation"])
