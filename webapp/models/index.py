"""Index generations: the block vectors of one model over one corpus snapshot."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from django.db import models

from webapp.models.present import Present

if TYPE_CHECKING:
    from webapp.models.document import CorpusState


class IndexGeneration(models.Model):
    """One published, immutable generation of block vectors.

    One that was folded into another is never deployed again: its documents and their edits go on above that one.

    A generation whose files were removed keeps its row, because deployments and evaluations name it; lists and choices
    do not show it. The manager `every` finds it, and so do foreign keys.
    """

    generation = models.CharField(max_length=100, unique=True)
    model = models.ForeignKey("webapp.ModelVersion", on_delete=models.PROTECT, related_name="indexes")
    corpus = models.ForeignKey("webapp.CorpusSnapshot", on_delete=models.PROTECT, related_name="indexes")
    path = models.CharField(max_length=1000, help_text="Folder, absolute or relative to the data folder.")
    rows = models.PositiveIntegerField()
    dim = models.PositiveIntegerField()
    job = models.ForeignKey(
        "webapp.Job", on_delete=models.SET_NULL, null=True, blank=True, related_name="indexes", help_text="Built by."
    )
    pinned = models.BooleanField(default=False, help_text="Never removed by retention.")
    folded_into = models.ForeignKey(
        "self",
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        related_name="folded_from",
        help_text="The index that has this one's documents, and all that was edited above it.",
    )
    removed_at = models.DateTimeField(null=True, blank=True, help_text="When its files were removed.")
    created_at = models.DateTimeField(auto_now_add=True)

    objects = Present["IndexGeneration"]()
    every = models.Manager["IndexGeneration"]()

    class Meta:
        ordering = ["-created_at", "-pk"]

    def __str__(self) -> str:
        return f"{self.generation} ({self.rows:,} blocks of {self.corpus.name}, {self.model})"

    def state_now(self) -> CorpusState | None:
        """The corpus state above it, read at every call; None: no document was edited."""
        return self.states.filter(is_current=True).first()

    @cached_property
    def current_state(self) -> CorpusState | None:
        """`state_now` when this row was read."""
        return self.state_now()

    def states_folded(self) -> tuple[CorpusState, CorpusState] | None:
        """Its last state, and the equal one that the index began with into which it was folded; None: it was not."""
        last = self.states.first()
        first = None if self.folded_into is None else self.folded_into.states.last()
        return None if last is None or first is None else (last, first)

    def states_before_folds(self) -> Iterator[CorpusState]:
        """The states above indexes that were folded into this one which equal the state that it began with."""
        for earlier in IndexGeneration.every.filter(folded_into=self).select_related("folded_into"):
            if (folded := earlier.states_folded()) is not None:
                yield folded[0]
                if folded[0] == earlier.states.last():  # without an edit between the two folds
                    yield from earlier.states_before_folds()

    def state_after_folds(self, state_id: str) -> tuple[IndexGeneration, str]:
        """A state of this index (`measured_as`), or the equal one above another index that folds made of it since."""
        index = self
        while (folded := index.states_folded()) is not None and folded[0].measured_as == state_id:
            index, state_id = folded[1].index, folded[1].measured_as
        return index, state_id

    @property
    def latest(self) -> IndexGeneration:
        """The index that has its documents now: this one, or the one into which it was folded."""
        last = self
        while last.folded_into is not None:
            last = last.folded_into
        return last

    @property
    def folded_away(self) -> str:
        """Why it cannot be deployed again, where it was folded; else nothing."""
        last = self.latest
        if last == self:
            return ""
        return (
            f"{self.generation} was folded into {last.generation}, which has its documents and every later edit; "
            "deploy that one."
        )
