"""Restoring: removed documents return to their places, so that a corpus answers as if they had never been removed.

    state before the removal → layer and row, if the files are there → tombstone taken back, or segment put back

A segment is in no state any more when all its documents were removed. Its place among the others decides which of equal
blocks and of equal scores comes first, and the history of the corpus tells it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from realm_core.errors import RealmError
from realm_core.living.documents import DocumentRefused, LivingDocument
from realm_core.living.editing import refuse_equal
from realm_core.living.layer import Layer
from realm_core.living.state import BASE, LivingState
from realm_core.living.store import Store


class TextLost(RealmError):
    """What a removed document was is not kept any more, or not where it stood."""

    def __init__(self, document_id: str) -> None:
        super().__init__(f"The text of the document {document_id!r} is not kept any more: add it as a new one.")
        self.document_id = document_id


@dataclass(frozen=True)
class Step:
    """A state in the history of a corpus. segments, purges: as of the state. restoring: whether that led to it."""

    segments: tuple[str, ...]
    purges: int = 0
    restoring: bool = False


@dataclass(frozen=True)
class _Place:
    layer: Layer
    row: int


def restore(
    store: Store,
    state: LivingState,
    removed_from: Mapping[str, LivingState],
    history: Callable[[], Iterable[Step]],
) -> LivingState:
    """The state with removed documents in their places again, for the caller to make current; all or none.

    removed_from: by id, the state before the removal. history: all states above this base, from the first to `state`.
    `DocumentRefused` for one that is there, or whose title and text another one has by now; `TextLost`.
    """
    with store.lock():
        view = store.view(state)
        if there := view.with_ids(removed_from):
            raise DocumentRefused(min(there), f"The document {min(there)!r} is in the corpus.")
        places = {one: _place(store, state, before, one) for one, before in removed_from.items()}
        refuse_equal(view, [place.layer.document(place.row) for place in places.values()], frozenset())
        order = list(state.segments)
        back = {place.layer.name for place in places.values()} - {*state.layers}
        if back:
            order = order_of(history())
            for document_id, place in places.items():
                # Used anew under the editing lock, so that no sweep removes it before a state names it.
                if place.layer.name in back and not (place.layer.name in order and store.taken(place.layer.name)):
                    raise TextLost(document_id)
        rows: dict[str, set[int]] = {}
        for place in places.values():
            rows.setdefault(place.layer.name, set()).add(place.row)
        return state.with_again(rows, {place.layer.name: place.layer.articles for place in places.values()}, order)


def kept(store: Store, state: LivingState, before: LivingState, document_id: str) -> LivingDocument | None:
    """A document as it was before it was removed; None: no file that `restore` could take it from has it."""
    try:
        place = _place(store, state, before, document_id)
    except TextLost:
        return None
    return place.layer.document(place.row)


def _place(store: Store, state: LivingState, before: LivingState, document_id: str) -> _Place:
    """Where a document stood before it was removed; TextLost."""
    for name in reversed(before.layers):
        there = before.base == state.base if name == BASE else (store.segments / name).exists()
        if not there:
            continue
        layer = store.layer(before, name)
        row = layer.with_ids([document_id]).get(document_id)
        if row is not None and row not in before.tombstones.get(name, ()):
            return _Place(layer, row)
    raise TextLost(document_id)


def order_of(history: Iterable[Step]) -> list[str]:
    """The segments of all states in the order in which they would stand if none had ever left.

    Left out are those whose place a purge has made unclear.
    """
    order: list[str] = []
    before = Step(())
    for step in history:
        new = [name for name in step.segments if name not in before.segments]
        if step.purges != before.purges and before.segments:
            gone = [name for name in before.segments if name not in step.segments]
            order = [name for name in order if name not in new]
            copies = dict(zip(gone, new, strict=False))
            if len(gone) == len(new):
                order = [copies.get(name, name) for name in order]
            elif new:  # a copy takes the place of a segment, and which one's is not told
                order = list(step.segments)
        elif not step.restoring:
            order = [*(name for name in order if name not in new), *new]
        before = step
    return order
