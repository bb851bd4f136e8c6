"""Edits of a living corpus: adding, changing and removing documents. An edit is one segment and some tombstones.

    checked → rescued → packed → vectors, known ones reused → segment published → new state returned

The segment is published before a state names it, and a state is plain data until its caller makes it the current one,
so an edit that dies at any time has not happened.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from realm_core.corpus.packing import Packer
from realm_core.corpus.records import Span, block_id
from realm_core.errors import RealmError
from realm_core.files import disk_errors
from realm_core.index.embedding import embed
from realm_core.living.documents import Changes, DocumentRefused, LivingDocument, cleaned
from realm_core.living.layer import Layer
from realm_core.living.state import BASE, CorpusState
from realm_core.living.store import Store
from realm_core.living.view import CorpusView
from realm_core.living.writing import segment_blocks, segment_id, write_segment
from realm_core.model.checkpoint import Model, load_model
from realm_core.text.joins import join_block
from realm_core.text.wordpieces import Wordpieces

# Vectors [B, D] of blocks, each given as title and text; from one block embedder.
Embed = Callable[[Sequence[tuple[str, str]]], Tensor]


def embedding_of(model: Model) -> Embed:
    """The embedding function of a model, for `edit`, ready for inference."""
    wordpieces = Wordpieces.default()

    def embed_blocks(blocks: Sequence[tuple[str, str]]) -> Tensor:
        titles, texts = [title for title, _ in blocks], [text for _, text in blocks]
        return embed(model.block, join_block(wordpieces, titles, texts, model.config.block_wordpieces))

    return embed_blocks


def embedding_in(model: Path) -> Embed:
    """That of the model in a folder, which is loaded when a block is to be embedded and not before."""

    def embed_blocks(blocks: Sequence[tuple[str, str]]) -> Tensor:
        return embedding_of(load_model(model, only="block"))(blocks)

    return embed_blocks


def edit(store: Store, state: CorpusState, changes: Changes, embed: Embed) -> CorpusState:
    """The state after an edit of `state`, for the caller to make current; `state` itself if nothing changes.

    A document with a known id replaces that one. `DocumentRefused` names a document that cannot be added or removed;
    then nothing of the edit happens.
    """
    with store.lock():
        return edit_locked(store, state, changes, embed)


def edit_locked(store: Store, state: CorpusState, changes: Changes, embed: Embed) -> CorpusState:
    """`edit`, with the editing lock held."""
    store.sweep_half_written()
    view = store.view(state)
    plan = plan_of(view, changes)
    return without(store, view, plan.dying, plan.documents, embed)


@dataclass(frozen=True)
class Plan:
    """documents: cleaned, to be written. dying: article rows of removed or replaced documents."""

    documents: tuple[LivingDocument, ...]
    dying: frozenset[int]


def plan_of(view: CorpusView, changes: Changes) -> Plan:
    """The effect of an edit; raises `DocumentRefused` as `edit` does."""
    given = {document.id: document for document in map(cleaned, changes.documents)}
    named = Counter([document.id for document in changes.documents]), Counter(changes.removed)
    if twice := [document_id for counts in named for document_id, times in counts.items() if times > 1]:
        raise DocumentRefused(twice[0], f"The document {twice[0]!r} is given twice.")
    places = view.with_ids([*given, *changes.removed])
    for document_id in changes.removed:
        if document_id in given:
            raise DocumentRefused(document_id, f"The document {document_id!r} is to be changed and removed at once.")
        if document_id not in places:
            raise DocumentRefused(document_id, f"The corpus has no document {document_id!r}.")
    unchanged = {one.id for one in given.values() if one.id in places and view.document(places[one.id]) == one}
    documents = tuple(document for document in given.values() if document.id not in unchanged)
    dying = frozenset(row for document_id, row in places.items() if document_id not in unchanged)
    _refuse_equal(view, documents, dying)
    return Plan(documents, dying)


def _refuse_equal(view: CorpusView, documents: Sequence[LivingDocument], dying: frozenset[int]) -> None:
    """`DocumentRefused` for a document with the same title and text as one that stays, or another one of the edit."""
    known: dict[tuple[str, str], str] = {}
    for row in view.titled({document.title for document in documents}):
        if row not in dying:
            article = view.article(row)
            known[article.title, article.text] = article.id
    reasons = {}
    for document in documents:
        twin = known.setdefault((document.title, document.text), document.id)
        if twin != document.id:
            reasons[document.id] = f"The document {document.id!r} has the same title and text as {twin!r}."
    if reasons:
        first, *others = reasons
        raise DocumentRefused(first, reasons[first], {one: reasons[one] for one in others})


@dataclass(frozen=True)
class Effect:
    """Ids of blocks: those that an edit would take out of the corpus, and those that it would bring in."""

    gone: tuple[str, ...]
    new: tuple[str, ...]


def effect(view: CorpusView, changes: Changes) -> Effect:
    """What an edit would do to the blocks of a state, without embedding or writing; raises as `edit` does."""
    plan = plan_of(view, changes)
    dying, rescued = _rescued(view, plan.dying)
    documents = [*rescued, *plan.documents]
    titles = {view.article(row).title for row in dying}
    others = [view.document(row) for row in view.titled(titles) if row not in dying]
    packed = zip([*documents, *others], _packed([*documents, *others]), strict=True)
    ids = [_ids(document, spans) for document, spans in packed]
    stay = {one for own in ids for one in own}
    gone = [block.block_id for row in sorted(dying) for block in view.blocks_of_article(row)]
    new = dict.fromkeys(one for own in ids[: len(documents)] for one in own if view.row_of(one) is None)
    return Effect(tuple(one for one in dict.fromkeys(gone) if one not in stay), tuple(new))


def without(
    store: Store, view: CorpusView, dying: frozenset[int], documents: Sequence[LivingDocument], embed: Embed
) -> CorpusState:
    """The state without some documents (article rows) and with others; the editing lock is held."""
    dying, rescued = _rescued(view, dying)
    written = [*rescued, *documents]
    if not written and not dying:
        return view.state
    added = [_segment(store, view, written, embed)] if written else []
    dead: dict[str, list[int]] = {}
    for row in sorted(dying):
        layer, own_row = view.place_of(row)
        dead.setdefault(layer.name, []).append(own_row)
    return view.state.changed(dead, {layer.name: layer.articles for layer in view.layers}, *added)


def _rescued(view: CorpusView, dying: frozenset[int]) -> tuple[frozenset[int], list[LivingDocument]]:
    """Documents of the base that would lose a passage, because the base stores it with a document that is removed.

    A base stores a passage once, with the first document that has it. Such a document is written again, unchanged, into
    the edit's segment, and its row in the base is masked, too. Only documents with the same title can share a passage.
    """
    rescued: dict[int, LivingDocument] = {}
    base = next((layer for layer in view.layers if layer.name == BASE), None)
    latest = {row for row in dying if view.place_of(row)[0] is base}
    while base is not None and latest:
        lost: dict[str, set[str]] = {}
        for row in latest:
            ids = base.block_ids(base.blocks_of(row))
            lost.setdefault(view.article(row).title, set()).update(ids)
        others = [row for row in view.titled(lost) if view.place_of(row)[0] is base and row not in dying]
        documents = [view.document(row) for row in others]
        latest = set()
        for row, document, spans in zip(others, documents, _packed(documents), strict=True):
            if not lost[document.title].isdisjoint(_ids(document, spans)):
                rescued[row] = document
                latest.add(row)
        dying |= latest
    return dying, [rescued[row] for row in sorted(rescued)]


def _segment(store: Store, view: CorpusView, documents: Sequence[LivingDocument], embed: Embed) -> str:
    """Publish a segment of these documents, unless it exists; returns its id."""
    state = view.state
    spans = _packed(documents)
    ids = [_ids(document, own) for document, own in zip(documents, spans, strict=True)]
    name = segment_id(documents, ids, state.block_hash)
    if not store.taken(name):
        texts = [
            (document.title, document.text[start:end])
            for document, own in zip(documents, spans, strict=True)
            for start, end in own
        ]
        vectors_ND = _vectors(view.layers, [one for own in ids for one in own], texts, embed)
        with disk_errors(store.segments):
            write_segment(
                store.segments / name,
                documents,
                segment_blocks(documents, spans),
                vectors_ND,
                name=state.name,
                block_hash=state.block_hash,
            )
    return name


def _vectors(layers: Sequence[Layer], ids: Sequence[str], texts: Sequence[tuple[str, str]], embed: Embed) -> Tensor:
    """Vectors of the blocks, float16 [N, D]: reused for known ids, also of dead documents, otherwise embedded."""
    places: dict[str, tuple[int, int]] = {}
    unknown: dict[str, tuple[str, str]] = {}
    for one, text in zip(ids, texts, strict=True):
        if one not in places and one not in unknown:
            found = ((number, layer.row_of(one)) for number, layer in enumerate(layers))
            place = next(((number, row) for number, row in found if row is not None), None)
            if place is None:
                unknown[one] = text
            else:
                places[one] = place
    vector_of: dict[str, Tensor] = {}
    for number, layer in enumerate(layers):
        own = {one: row for one, (at, row) in places.items() if at == number}
        if own:
            vector_of.update(zip(own, layer.vectors.at(np.array(list(own.values()), np.int64)), strict=True))
    if unknown:
        made = embed(list(unknown.values()))
        dimension = layers[0].vectors.dimension if layers else made.shape[-1]
        if tuple(made.shape) != (len(unknown), dimension) or not bool(torch.isfinite(made.half()).all()):
            raise RealmError(f"The block embedder did not give {len(unknown):,} finite vectors of {dimension} numbers.")
        vector_of.update(zip(unknown, made.cpu().half(), strict=True))
    return torch.stack([vector_of[one] for one in ids])


def _packed(documents: Sequence[LivingDocument]) -> list[list[Span]]:
    """The blocks of each document, as ingesting packs them."""
    return Packer(Wordpieces.default()).pack([document.article() for document in documents]) if documents else []


def _ids(document: LivingDocument, spans: Iterable[Span]) -> list[str]:
    return [block_id(document.title, document.text[start:end]) for start, end in spans]
