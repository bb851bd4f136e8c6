"""Which kept answers read some blocks, and which of them turn out differently without these.

A kept answer stores everything that `Answer.without` needs, so both follow from what is stored: no model runs, and no
corpus is opened. How many answers read the blocks is counted by the database; those that are recomputed are bounded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from django.db.models import Prefetch, QuerySet, Sum

from webapp.models import AskedAnswer, EvidenceBlock

if TYPE_CHECKING:
    from realm_core.serving.provenance import Answer

MOST_RECOMPUTED: Final = 200  # for one summary; some 2 ms each


class Outcome(StrEnum):
    """What becomes of an answer without the blocks."""

    SAME = "same"
    OTHER_BLOCK = "other block"  # the same answer, but another block explains it best
    OTHER_ANSWER = "other answer"
    NONE = "no answer"  # one was given, and is not any more
    GIVEN = "answer given"  # none was given, and now one is


@dataclass(frozen=True)
class TouchedAnswer:
    """A kept answer that read some of the blocks. posterior: of these blocks together, as the answer was kept."""

    asked: AskedAnswer
    posterior: float
    full: Answer
    without: Answer

    @cached_property
    def outcome(self) -> Outcome:
        """How the answer without the blocks differs from the one that was kept."""
        return outcome(self.full, self.without)

    @property
    def differs(self) -> bool:
        """Whether it turns out differently."""
        return self.outcome != Outcome.SAME

    @property
    def asked_again(self) -> AskedAnswer | None:
        """What the same question gave when it was last asked again."""
        return next(iter(self.asked.asked_again.all()), None)

    @property
    def explained_by(self) -> str:
        """The title of the block that explains the answer best without the blocks; empty where no answer is left."""
        return self.without.evidence[0].title if self.without.answer else ""


@dataclass(frozen=True)
class Summary:
    """reading: how many kept answers read the blocks, exactly. looked_at: how many of them were recomputed, those with
    the highest posterior first. outcomes: how many of these have each outcome.
    """

    reading: int
    looked_at: int
    outcomes: dict[str, int] = field(default_factory=dict)

    @property
    def differing(self) -> int:
        """How many of those looked at turn out differently."""
        return self.looked_at - self.outcomes.get(Outcome.SAME, 0)

    @property
    def other_answer(self) -> int:
        """How many have another answer."""
        return self.outcomes.get(Outcome.OTHER_ANSWER, 0)

    @property
    def other_block(self) -> int:
        """How many have the same answer, explained by another block."""
        return self.outcomes.get(Outcome.OTHER_BLOCK, 0)

    @property
    def none(self) -> int:
        """How many have no answer any more."""
        return self.outcomes.get(Outcome.NONE, 0)

    @property
    def given(self) -> int:
        """How many have an answer where none had been found."""
        return self.outcomes.get(Outcome.GIVEN, 0)

    @property
    def complete(self) -> bool:
        """Whether every one was looked at."""
        return self.looked_at == self.reading


def outcome(full: Answer, without: Answer) -> Outcome:
    """What became of an answer when blocks were taken away from it."""
    if full.answer is None or without.answer is None:
        if full.answer is not None:
            return Outcome.NONE
        return Outcome.SAME if without.answer is None else Outcome.GIVEN
    if full.answer.text != without.answer.text:
        return Outcome.OTHER_ANSWER
    same_block = full.evidence[0].block_id == without.evidence[0].block_id
    return Outcome.SAME if same_block else Outcome.OTHER_BLOCK


def reading(block_ids: Collection[str], until: datetime | None = None) -> QuerySet[EvidenceBlock, Any]:
    """The ids of the answers (`answer`) that read any of the blocks, with the `total` of these blocks' posteriors.

    The highest total comes first. until: only answers that were kept by then.
    """
    blocks = EvidenceBlock.objects.filter(block_id__in=block_ids)
    if until is not None:
        blocks = blocks.filter(answer__created_at__lte=until)
    # Grouping the answers themselves would make SQLite compare their payloads.
    return blocks.order_by().values("answer").annotate(total=Sum("posterior")).order_by("-total", "answer")


def recomputed(rows: Iterable[Any], block_ids: Collection[str]) -> list[TouchedAnswer]:
    """Some rows of `reading`, each with its answer as it was kept and without the blocks."""
    from realm_core.serving.provenance import Answer

    totals = {row["answer"]: row["total"] for row in rows}
    again = Prefetch("asked_again", AskedAnswer.objects.defer("payload").order_by("-created_at"))
    answers = AskedAnswer.objects.prefetch_related(again).in_bulk(list(totals))
    removed = frozenset(block_ids)
    touched = []
    for answer_id, total in totals.items():
        if (asked := answers.get(answer_id)) is not None:  # retention may remove one meanwhile
            full = Answer.from_dict(asked.payload)
            touched.append(TouchedAnswer(asked, total, full, full.without(removed)))
    return touched


def summary(block_ids: Collection[str], until: datetime | None = None, most: int = MOST_RECOMPUTED) -> Summary:
    """How many kept answers read any of the blocks, and what becomes of up to `most` of them."""
    found = reading(block_ids, until)
    touched = recomputed(found[:most], block_ids)
    outcomes = Counter(one.outcome.value for one in touched)
    return Summary(found.count(), len(touched), dict(outcomes))
