"""Edits of a living corpus: adding, changing and removing documents. An edit is one segment and some tombstones.

    checked → packed → vectors, known ones reused → segment published → new state returned

The segment is published before a state names it, and a state is plain data until its caller makes it the current one,
so an edit that dies at any time has not happened.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from realm_core.corpus.packing import Packer
from realm_core.corpus.records import Span, block_id
from realm_core.errors import RealmError
from realm_core.files import disk_errors
from realm_core.index.embedding import embed
from realm_core.living.documents import Changes, DocumentRefused, LivingDocument, cleaned
from realm_core.living.layer import Layer
from realm_core.living.state import LivingState
from realm_core.living.store import Store
from realm_core.living.view import CorpusView
from realm_core.living.writing import segment_blocks, segment_id, segment_in_memory, write_segment
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
    """The block embedder of the model in a folder, loaded when the first block is embedded."""

    def embed_blocks(blocks: Sequence[tuple[str, str]]) -> Tensor:
        return embedding_of(load_model(model, only="block"))(blocks)

    return embed_blocks


def edit(store: Store, state: LivingState, changes: Changes, embed: Embed) -> LivingState:
    """The state after an edit of `state`, for the caller to make current; `state` itself if nothing changes.

    A document with a known id replaces that one. `DocumentRefused` names a document that cannot be added or removed;
    then nothing of the edit happens.
    """
    with store.lock():
        return edit_locked(store, state, changes, embed)


def edit_locked(store: Store, state: LivingState, changes: Changes, embed: Embed) -> LivingState:
    """`edit`, with the editing lock held."""
    store.sweep_half_written()
    view = store.view(state)
    plan = plan_of(view, changes)
    return without(store, view, plan.dying, plan.documents, embed)


@dataclass(frozen=True)
class EditPlan:
    """documents: cleaned, to be written. dying: article rows of removed or replaced documents."""

    documents: tuple[LivingDocument, ...]
    dying: frozenset[int]


def plan_of(view: CorpusView, changes: Changes) -> EditPlan:
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
    refuse_equal(view, documents, dying)
    return EditPlan(documents, dying)


def refuse_equal(view: CorpusView, documents: Sequence[LivingDocument], dying: frozenset[int]) -> None:
    """`DocumentRefused` for one with title and text of one in its collection that stays, or of another of the edit."""
    known: dict[tuple[str, str, str], str] = {}
    for row in view.titled({document.title for document in documents}):
        if row not in dying:
            article = view.article(row)
            known[article.title, article.text, view.collection_of(row)] = article.id
    there = set(known.values())
    reasons: dict[str, str] = {}
    present: dict[str, str] = {}
    for document in documents:
        twin = known.setdefault((document.title, document.text, document.collection), document.id)
        if twin == document.id:
            continue
        if twin in there:
            where = f"the collection {document.collection}" if document.collection else "the corpus"
            reasons[document.id] = f"“{document.title}” is in {where} already, with the same text (id {twin})."
            present[twin] = document.title
        else:  # the ids of both may be generated, and mean nothing to a person
            reasons[document.id] = f"“{document.title}” is given twice, with the same text."
    if reasons:
        first, *others = reasons
        raise DocumentRefused(first, reasons[first], {one: reasons[one] for one in others}, present=present)


@dataclass(frozen=True)
class NewBlock:
    """A block that an edit would bring in. section: its heading."""

    block_id: str
    section: str
    text: str


@dataclass(frozen=True)
class Effect:
    """gone: ids of the blocks that an edit would take out of the corpus. new: the blocks that it would bring in."""

    gone: tuple[str, ...]
    new: tuple[NewBlock, ...]


def effect(view: CorpusView, changes: Changes) -> Effect:
    """What an edit would do to the blocks of a state, without embedding or writing; raises as `edit` does."""
    plan = plan_of(view, changes)
    packed = zip(plan.documents, _packed(plan.documents), strict=True)
    coming = {one.block_id: one for document, spans in packed for one in _new_blocks(document, spans)}
    going = [block.block_id for row in sorted(plan.dying) for block in view.blocks_of_article(row)]

    def stays(one: str) -> bool:
        return any(block.article_row not in plan.dying for block in view.blocks_with(one))

    gone = dict.fromkeys(one for one in going if one not in coming and not stays(one))
    return Effect(tuple(gone), tuple(block for one, block in coming.items() if not view.rows_with(one)))


def tried(view: CorpusView, changes: Changes, embed: Embed) -> CorpusView:
    """The texts after an edit that is only tried: its segment is in memory alone. Raises as `edit` does."""
    plan = plan_of(view, changes)
    if not plan.documents and not plan.dying:
        return view
    layers = {layer.name: layer for layer in view.layers}
    added = []
    if plan.documents:
        segment = _NewSegment.of(plan.documents, view.state.block_hash)
        vectors_ND = segment.vectors(view.layers, embed)
        made = segment_in_memory(segment.name, segment.documents, segment.blocks(), vectors_ND, **_names(view.state))
        layers[made.name] = made
        added.append(made.name)
    state = _state_after(view, plan.dying, *added)
    return CorpusView(state, [layers[name] for name in state.layers])


def without(
    store: Store, view: CorpusView, dying: frozenset[int], documents: Sequence[LivingDocument], embed: Embed
) -> LivingState:
    """The state without some documents (article rows) and with others; the editing lock is held."""
    if not documents and not dying:
        return view.state
    return _state_after(view, dying, *([_published(store, view, documents, embed)] if documents else []))


def _state_after(view: CorpusView, dying: frozenset[int], *added: str) -> LivingState:
    """The state of a view without some documents (article rows), and with more segments."""
    dead: dict[str, list[int]] = {}
    for row in sorted(dying):
        layer, own_row = view.place_of(row)
        dead.setdefault(layer.name, []).append(own_row)
    return view.state.changed(dead, {layer.name: layer.articles for layer in view.layers}, *added)


@dataclass(frozen=True)
class _NewSegment:
    """The documents of an edit, divided into blocks. name: the segment's id."""

    name: str
    documents: Sequence[LivingDocument]
    spans: list[list[Span]]
    ids: list[str]

    @classmethod
    def of(cls, documents: Sequence[LivingDocument], block_hash: str) -> _NewSegment:
        spans = _packed(documents)
        ids = [_ids(document, own) for document, own in zip(documents, spans, strict=True)]
        return cls(segment_id(documents, ids, block_hash), documents, spans, [one for own in ids for one in own])

    def blocks(self) -> pa.RecordBatch:
        return segment_blocks(self.documents, self.spans)

    def vectors(self, layers: Sequence[Layer], embed: Embed) -> Tensor:
        texts = [
            (document.title, document.text[start:end])
            for document, own in zip(self.documents, self.spans, strict=True)
            for start, end in own
        ]
        return _vectors(layers, self.ids, texts, embed)


def _published(store: Store, view: CorpusView, documents: Sequence[LivingDocument], embed: Embed) -> str:
    """Publish a segment of these documents, unless it exists; returns its id."""
    segment = _NewSegment.of(documents, view.state.block_hash)
    if not store.taken(segment.name):
        vectors_ND = segment.vectors(view.layers, embed)
        with disk_errors(store.segments):
            folder = store.segments / segment.name
            write_segment(folder, documents, segment.blocks(), vectors_ND, **_names(view.state))
    return segment.name


def _names(state: LivingState) -> dict[str, str]:
    """What a segment says of its corpus."""
    return {"name": state.name, "block_hash": state.block_hash}


def _vectors(layers: Sequence[Layer], ids: Sequence[str], texts: Sequence[tuple[str, str]], embed: Embed) -> Tensor:
    """Vectors of the blocks, float16 [N, D]: reused for known ids, also of dead documents, otherwise embedded."""
    places: dict[str, tuple[int, int]] = {}
    unknown: dict[str, tuple[str, str]] = {}
    for one, text in zip(ids, texts, strict=True):
        if one not in places and one not in unknown:
            found = ((number, layer.rows_with(one)) for number, layer in enumerate(layers))
            place = next(((number, rows[0]) for number, rows in found if rows), None)
            if place is None:
                unknown[one] = text
            else:
                places[one] = place
    vector_of: dict[str, Tensor] = {}
    for number, layer in enumerate(layers):
        own = {one: row for one, (at, row) in places.items() if at == number}
        if own:
            vector_of.update(zip(own, layer.vectors_at(np.array(list(own.values()), np.int64)), strict=True))
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


def _new_blocks(document: LivingDocument, spans: Sequence[Span]) -> list[NewBlock]:
    article = document.article()
    return [
        NewBlock(one, article.section_at(start), article.text[start:end])
        for one, (start, end) in zip(_ids(document, spans), spans, strict=True)
    ]
