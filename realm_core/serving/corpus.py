"""The corpus of an engine: a snapshot as it was ingested, or one state of a living corpus."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path

import torch
from cachetools import LRUCache

from realm_core.corpus.records import Block
from realm_core.corpus.store import Snapshot
from realm_core.errors import RealmError
from realm_core.index.choice import WantedSearch
from realm_core.index.lexical import candidates, ranked_again
from realm_core.index.manifest import read_manifest
from realm_core.index.postings import LexicalPart, Postings
from realm_core.index.proximity import best_with_proximity
from realm_core.index.retriever import check_manifest_fits
from realm_core.index.search import LexicalSearch, Search, SearchWith, search_without
from realm_core.living.index import LivingIndex, check_fits
from realm_core.living.scope import Scope, ScopedSearch
from realm_core.living.search import WholeBase, open_base
from realm_core.living.state import BASE, LivingState
from realm_core.living.store import Store
from realm_core.living.view import CorpusView
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

    texts: Snapshot | CorpusView
    search: LexicalSearch
    id: str
    origin: str
    spelling: Spelling
    adds_lexical: bool
    """Whether the search scores every block, so that it finds the best sums with the lexical part."""
    index: LivingIndex | None = None
    _scoped: LRUCache[tuple[Scope, float], LexicalSearch] = field(
        default_factory=lambda: LRUCache(_SCOPES), repr=False, compare=False
    )

    @classmethod
    def of_snapshot(cls, snapshot: Snapshot, search: WholeBase) -> ServedCorpus:
        """A snapshot without edits."""
        name = f"{snapshot.manifest['name']}@{snapshot.snapshot_id}"
        return cls(snapshot, search, name, snapshot.origin, Spelling([snapshot.title_words]), search.adds_lexical)

    @classmethod
    def of_index(cls, index: LivingIndex) -> ServedCorpus:
        """One state of a living corpus."""
        view = index.corpus
        base = next(layer for layer in view.layers if layer.name == BASE).snapshot
        edits = f"+{view.state.id}" if view.state.has_edits else ""
        name = f"{base.manifest['name']}@{base.snapshot_id}{edits}"
        spelling = Spelling([layer.snapshot.title_words for layer in view.layers])
        return cls(view, index, name, base.origin, spelling, index.adds_lexical, index)

    def search_in(self, scope: Scope | None, temperature: float) -> LexicalSearch:
        """Search in a scope; None: in everything. For one thread. temperature: of the prior.

        `RealmError` for a scope of a corpus that is not living.
        """
        if scope is None:
            return self.search
        if self.index is None:
            raise RealmError("The engine was loaded without a living corpus, so it cannot filter documents.")
        key = (scope, temperature)
        if key not in self._scoped:
            self._scoped[key] = ScopedSearch(self.index, scope, temperature)
        return self._scoped[key]

    def collection_of(self, block: Block) -> str:
        """The collection of a block's document."""
        if isinstance(self.texts, CorpusView):
            return self.texts.collection_of(block.article_row)
        return str(self.texts.manifest["name"])


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

    lexical: the part to add to the scores, if the corpus `adds_lexical`.
    """
    texts = corpus.texts
    found: dict[int, tuple[list[Block], list[float]]] = {}
    for scope in dict.fromkeys(one.scope for one in wanted):
        places = [place for place, one in enumerate(wanted) if one.scope == scope]
        excluded = [
            {row for block_id in wanted[place].exclude for row in texts.rows_with(block_id)} for place in places
        ]
        scoped = corpus.search_in(scope, temperature)
        search: Search = scoped if lexical is None else SearchWith(scoped, lexical.at(places))
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
    if corpus.adds_lexical:
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


def open_snapshot(
    model: Model, index: Path, corpus: Path, device: torch.device, wanted: WantedSearch
) -> tuple[ServedCorpus, str]:
    """A corpus with the index that matches model and corpus, and the index's name. wanted: see `open_base`."""
    manifest, snapshot = read_manifest(index), Snapshot.open(corpus)
    check_manifest_fits(model, manifest, snapshot)
    snapshot.verify()  # memory-mapped, so not verified on reading as model and index are
    search = WholeBase(open_base(index, device, wanted), cache(partial(Postings.of, snapshot)))
    return ServedCorpus.of_snapshot(snapshot, search), str(manifest["generation"])


def open_living(
    model: Model, living: LivingCorpus, device: torch.device, wanted: WantedSearch
) -> tuple[ServedCorpus, str]:
    """A state of a living corpus, and the name of its base's index. wanted: see `open_base`."""
    check_fits(model, living.state)
    index = LivingIndex.open(living.store, living.state, device=device, search=wanted)
    base = next(layer for layer in index.corpus.layers if layer.name == BASE)
    return ServedCorpus.of_index(index), str(base.vectors.manifest["generation"])
