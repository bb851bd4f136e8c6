"""What a change of a document would do."""

from __future__ import annotations

from dataclasses import dataclass

from realm_client._ledger import TouchedAnswer, TouchedSummary, WithoutBlocks
from realm_client._records import Passage


@dataclass(frozen=True)
class TriedAnswer(TouchedAnswer):
    """A kept answer that read some of the passages that would go. outcome: of anew, if it was asked_anew.

    anew: what its question is answered with then; None: there is no answer, or it was not asked.
    """

    asked_anew: bool
    anew: WithoutBlocks | None


@dataclass(frozen=True)
class AskedAnew:
    """How many questions were asked of the corpus as it would be. outcomes: of these. reason: why not all were."""

    asked: int
    outcomes: dict[str, int]
    reason: str


@dataclass(frozen=True)
class Placing:
    """The collection that a change would put a document into. is_new: it would be made. moved_from: the present one.

    readers_before, readers: who may read it now, and then. more_readers: some may then who may not now, so that the
    change must say `more_readers`.
    """

    moved_from: str
    collection: str
    is_new: bool
    readers_before: str
    readers: str
    more_readers: bool


@dataclass(frozen=True)
class Preview:
    """What a change would do. same: nothing. passages_gone, passages_new: that are searched no more, and then.

    passages_kept: those of today that stay. summary: of the kept answers without the passages that go. results: those
    with the highest posterior. warnings: as of a document. placing: its collection.
    """

    same: bool
    warnings: tuple[str, ...]
    passages_gone: tuple[Passage, ...]
    passages_new: tuple[Passage, ...]
    passages_kept: tuple[Passage, ...]
    summary: TouchedSummary
    anew: AskedAnew
    results: tuple[TriedAnswer, ...]
    placing: Placing | None = None  # servers before it did not say
