"""Which stored answers read some blocks, and which of them change without these.

A stored answer has everything that `Answer.without` needs, so both are computed from stored data: without the model and
the corpus. The database counts the answers that read the blocks; the number of recomputed ones is limited.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from django.db.models import Prefetch, QuerySet, Sum

from webapp.models import AskedAnswer, EvidenceBlock

if TYPE_CHECKING:
    from realm_core.serving.provenance import Answer

MOST_RECOMPUTED: Final = 200  # for one summary; some 2 ms each


class Outcome(StrEnum):
    """The effect on an answer of leaving the blocks out, or of what is in their place."""

    SAME = "same"
    OTHER_BLOCK = "other_block"  # the same answer, best explained by another block
    OTHER_ANSWER = "other_answer"
    NONE = "no_answer"  # there was an answer, now there is none
    GIVEN = "answer_given"  # there was no answer, now there is one


@dataclass(frozen=True)
class TouchedAnswer:
    """A stored answer that read some of the blocks. posterior: of these blocks together, when it was stored.

    anew: the answer to its question, asked anew of a corpus without them (`anew.py`); None: it was not asked.
    """

    asked: AskedAnswer
    posterior: float
    full: Answer
    without: Answer
    anew: Answer | None = None

    @property
    def later(self) -> Answer:
        """The answer asked anew, or, if it was not, the stored one without the blocks."""
        return self.without if self.anew is None else self.anew

    @cached_property
    def outcome(self) -> Outcome:
        """How `later` differs from the stored answer."""
        full, later = self.full.answer, self.later.answer
        if full is None:
            return Outcome.SAME if later is None else Outcome.GIVEN
        if later is None:
            return Outcome.NONE
        if full.text != later.text:
            return Outcome.OTHER_ANSWER
        same_block = self.full.evidence[0].block_id == self.later.evidence[0].block_id
        return Outcome.SAME if same_block else Outcome.OTHER_BLOCK

    @property
    def asked_again(self) -> AskedAnswer | None:
        """The latest answer to the same question asked again."""
        return next(iter(self.asked.asked_again.all()), None)

    @property
    def explained_by(self) -> str:
        """The title of the block that explains `later` best; empty if there is no answer."""
        return self.later.evidence[0].title if self.later.answer else ""


@dataclass(frozen=True)
class Summary:
    """reading: the exact number of stored answers that read the blocks. looked_at: how many of them were recomputed,
    those with the highest posterior first. outcomes: the number of these by outcome.
    """

    reading: int
    looked_at: int
    outcomes: dict[str, int] = field(default_factory=dict)

    @property
    def differing(self) -> int:
        """How many of the recomputed ones change."""
        return self.looked_at - self.outcomes.get(Outcome.SAME, 0)

    @property
    def complete(self) -> bool:
        """Whether all were recomputed."""
        return self.looked_at == self.reading


@dataclass(frozen=True)
class Touched:
    """The stored answers that read any of some blocks. among: only these answers; None: all."""

    block_ids: Collection[str]
    among: QuerySet[AskedAnswer] | None = None

    @property
    def rows(self) -> QuerySet[EvidenceBlock, Any]:
        """The ids of the answers (`answer`), with the `total` of these blocks' posteriors, highest total first."""
        blocks = EvidenceBlock.objects.filter(block_id__in=self.block_ids)
        if self.among is not None:
            blocks = blocks.filter(answer__in=self.among)
        # Grouping by the answers themselves would make SQLite compare their payloads.
        return blocks.order_by().values("answer").annotate(total=Sum("posterior")).order_by("-total", "answer")

    def recomputed(self, rows: Iterable[Any]) -> list[TouchedAnswer]:
        """Some of the `rows`, each with its answer as stored and without the blocks."""
        from realm_core.serving.provenance import Answer

        totals = {row["answer"]: row["total"] for row in rows}
        again = Prefetch("asked_again", AskedAnswer.objects.defer("payload").order_by("-created_at"))
        answers = AskedAnswer.objects.prefetch_related(again).in_bulk(list(totals))
        removed = frozenset(self.block_ids)
        touched = []
        for answer_id, total in totals.items():
            if (asked := answers.get(answer_id)) is not None:  # retention may have removed it
                full = Answer.from_dict(asked.payload)
                touched.append(TouchedAnswer(asked, total, full, full.without(removed)))
        return touched

    def summary(self, most: int = MOST_RECOMPUTED) -> Summary:
        """How many answers there are, and what becomes of up to `most` of them."""
        touched = self.recomputed(self.rows[:most])
        outcomes = Counter(one.outcome.value for one in touched)
        return Summary(self.rows.count(), len(touched), dict(outcomes))
