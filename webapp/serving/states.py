"""The rows of corpus states: which is current, and what becomes of two edits at once.

Of two that start from one state the first to commit wins; the other is `Overtaken`, and made again on the resulting
state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from django.contrib.auth.models import User
from django.db import IntegrityError

from realm_core.errors import RealmError
from webapp.models import CorpusState, IndexGeneration, ModelVersion
from webapp.refusals import StateConflict
from webapp.serving.living import active

if TYPE_CHECKING:
    from realm_core.living.state import LivingState

T = TypeVar("T")
_ATTEMPTS: Final = 5


class Overtaken(Exception):
    """Another edit was committed meanwhile."""


class EditConflict(StateConflict):
    """Others kept editing the corpus at the same moment."""

    retry_after_s = 1

    def __init__(self) -> None:
        super().__init__("Others are editing the corpus at this moment; nothing of this edit has happened.")


def repeated(
    attempt: Callable[[IndexGeneration, ModelVersion, CorpusState | None], T], above: IndexGeneration | None = None
) -> T:
    """Make an edit, and again each time that another one overtakes it. EditConflict; EngineUnavailable.

    attempt: given an index, a model that embeds its blocks, and the row of its state; Overtaken and IntegrityError (two
    first edits at once, or two that add the same document) repeat it. above: an index; None: the one that answers.
    """
    for _ in range(_ATTEMPTS):
        if above is not None:
            index, model = above, above.model
        else:
            deployment = active()  # a fold or a deployment that overtakes an edit changes the index
            index, model = deployment.index, deployment.model
        row = index.state_now()
        try:
            return attempt(index, model, row)
        except (Overtaken, IntegrityError):
            continue
        except RealmError:  # a purge has removed the segments of the state that was read
            if index.state_now() == row:
                raise
    raise EditConflict


def state_row(index: IndexGeneration, state: LivingState, by: User | None) -> CorpusState:
    """Write the row of a new current state."""
    return CorpusState.objects.create(
        index=index, state_id=state.id, state=state.to_json(), has_edits=state.has_edits, created_by=by
    )


def advanced(
    index: IndexGeneration, row: CorpusState | None, before: LivingState, after: LivingState, by: User | None
) -> tuple[CorpusState, CorpusState]:
    """Make a state above an index the current one; the rows of the one before and of this one. Overtaken.

    row: of the state before; None: nothing was edited.
    """
    if row is None:
        row = state_row(index, before, None)
    current = CorpusState.objects.filter(pk=row.pk, is_current=True)
    if after == before:
        if current.select_for_update().first() is None:  # no edit is committed before this one
            raise Overtaken
        return row, row
    if not current.update(is_current=False):
        raise Overtaken
    return row, state_row(index, after, by)
