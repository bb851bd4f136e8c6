"""The rows of corpus states: which is current, and what becomes of two edits at once.

Of two that start from one state the first to commit wins; the other is `Overtaken`, and made again on the resulting
state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from django.contrib.auth.models import User

from webapp.models import CorpusState, IndexGeneration
from webapp.refusals import StateConflict

if TYPE_CHECKING:
    from realm_core.living.state import LivingState

ATTEMPTS: Final = 5  # of one edit or purge


class Overtaken(Exception):
    """Another edit was committed meanwhile."""


class EditConflict(StateConflict):
    """Others kept editing the corpus at the same moment."""

    retry_after_s = 1

    def __init__(self) -> None:
        super().__init__("Others are editing the corpus at this moment; nothing of this edit has happened.")


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
        if not current.exists():
            raise Overtaken
        return row, row
    if not current.update(is_current=False):
        raise Overtaken
    return row, state_row(index, after, by)
