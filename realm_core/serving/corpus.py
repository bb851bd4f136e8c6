"""The corpus of an engine: one state of a living corpus, which may be a snapshot as it was ingested."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import torch
from cachetools import LRUCache

from realm_core.corpus.records import Block
from realm_core.corpus.store import Snapshot
from realm_core.index.choice import WantedSearch
from realm_core.index.lexical import candidates, ranked_again
from realm_core.index.manifest import read_manifest
from realm_core.index.postings import LexicalPart
from realm_core.index.proximity import best_with_proximity
from realm_core.index.retriever import check_manifest_fits
from realm_core.index.search import search_without
from realm_core.living.index import LivingIndex, check_fits
from realm_core.living.scope import Scope, ScopedSearch
from realm_core.living.state import BASE, LivingState
from realm_core.living.store import Store
from realm_core.model.checkpoint import Model
from realm_core.text.spelling import Spelling

_SCOPES = 8  # scopes whose masks are kept, one byte a row each; askers with the same rights share one


@dataclass(frozen=True)
class LivingCorpus:
    """A state of a living corpus and the store of its segments, for an engine to open."""

    store: Store
    state: LivingState


@dataclass(frozen=True, eq=False)  # equal only if identical
class ServedCorpus:
    """Texts and their search, of one corpus state. A question is answered from one of these from start to end.

    id: NAME@SNAPSHOT, with +STATE if documents were edited, as in answers. origin: `Snapshot.origin`.
    """

    index: LivingIndex
    id: str
    origin: str
    spelling: Spelling
    _scoped: LRUCache[tuple[Scope, float], ScopedSearch] = field(
        default_factory=lambda: LRUCache(_SCOPES), repr=False, compare=False
    )

    @classmethod
    def of_index(cls, index: LivingIndex) -> ServedCorpus:
        """One state of a living corpus."""
        view = index.corpus
        base = next(layer for layer in view.layers if layer.name == BASE).snapshot
        edits = f"+{view.state.id}" if view.state.has_edits else ""
        name = f"{base.manifest['name']}@{base.snapshot_id}{edits}"
        spelling = Spelling([layer.snapshot.title_words for layer in view.layers])
        return cls(index, name, base.origin, spelling)

    def search_in(self, scope: Scope | None, temperature: float) -> LivingIndex | ScopedSearch:
        """Search in a scope; None: in everything. For one thread. temperature: of the prior."""
        if scope is None:
            return self.index
        key = (scope, temperature)
        if key not in self._scoped:
            self._scoped[key] = ScopedSearch(self.index, scope, temperature)
        return self._scoped[key]

    def collection_of(self, block: Block) -> str:
        """The collection of a block's document."""
        return self.index.corpus.collection_of(block.article_row)


@dataclass(frozen=True)
class Wanted:
    """One search: the k best blocks in a scope, without those with the ids `exclude`."""

    k: int
    exclude: Collection[str] = ()
    scope: Scope | None = None


def nearest(
    corpus: ServedCorpus,
    queries_BD: torch.Tensor,
    wanted: Sequence[Wanted],
    temperature: float,
    lexical: LexicalPart | None = None,
) -> list[tuple[list[Block], list[float]]]:
    """The nearest blocks of each query with their scores: f(x, z), in a scope + temperature × log weight.

    lexical: the part to add to the scores, if the index `adds_lexical`.
    """
    texts = corpus.index.corpus
    found: dict[int, tuple[list[Block], list[float]]] = {}
    for scope in dict.fromkeys(one.scope for one in wanted):
        places = [place for place, one in enumerate(wanted) if one.scope == scope]
        excluded = [
            {row for block_id in wanted[place].exclude for row in texts.rows_with(block_id)} for place in places
        ]
        own = None if lexical is None else lexical.at(places)
        search = partial(corpus.search_in(scope, temperature).search, lexical=own)
        ks = [wanted[place].k for place in places]
        for place, (rows, scores) in zip(places, search_without(search, queries_BD[places], ks, excluded), strict=True):
            found[place] = ([texts.block(row) for row in rows], scores)
    return [found[place] for place in range(len(wanted))]


def best(
    corpus: ServedCorpus,
    questions: Sequence[str],
    queries_BD: torch.Tensor,
    wanted: Sequence[Wanted],
    temperature: float,
    lexical_weight: float,
) -> list[tuple[list[Block], list[float]]]:
    """The best blocks of each question with their scores: those of `nearest` + the lexical part."""
    if corpus.index.adds_lexical:
        lexical = LexicalPart.of(questions, lexical_weight)
        if not lexical_weight:
            return nearest(corpus, queries_BD, wanted, temperature, lexical)

        def so_many(places: list[int], counts: list[int]) -> list[tuple[list[Block], list[float]]]:
            more = [replace(wanted[place], k=count) for place, count in zip(places, counts, strict=True)]
            own = lexical if len(places) == len(wanted) else lexical.at(places)
            return nearest(corpus, queries_BD[places], more, temperature, own)

        return best_with_proximity(questions, [one.k for one in wanted], so_many, lambda block: block)
    found = []
    more = [replace(one, k=candidates(one.k)) for one in wanted]
    near = nearest(corpus, queries_BD, more, temperature)
    for question, one, (blocks, scores) in zip(questions, wanted, near, strict=True):
        order, sums = ranked_again(question, blocks, scores, lexical_weight)
        found.append(([blocks[place] for place in order[: one.k]], sums[: one.k]))
    return found


def open_corpus(
    model: Model, index: Path, corpus: Path, living: LivingCorpus | None, device: torch.device, wanted: WantedSearch
) -> tuple[ServedCorpus, str]:
    """A state of a living corpus, or else the corpus as it was ingested, and the name of the base's index.

    wanted: see `open_base`. `RealmError` unless they fit the model.
    """
    if living is None:
        check_manifest_fits(model, read_manifest(index), Snapshot.open(corpus))
        opened = LivingIndex.of_base(corpus, index, device=device, search=wanted)
    else:
        check_fits(model, living.state)
        opened = LivingIndex.open(living.store, living.state, device=device, search=wanted)
    base = next(layer for layer in opened.corpus.layers if layer.name == BASE)
    return ServedCorpus.of_index(opened), str(base.vectors.manifest["generation"])
