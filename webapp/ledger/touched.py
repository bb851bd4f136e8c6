"""Which kept answers read some blocks, and which of them change without these.

A kept answer has everything that `Answer.without` needs, so both are computed from stored data: without the model and
the corpus. The answers are read in slices, the highest posterior first, and what became of each is remembered for a
while: a kept answer does not change, so the pages of a list, and a request after one that ran out of time, go on from
there.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from django.core.cache import cache
from django.db.models import Prefetch, QuerySet, Sum
from redis.exceptions import RedisError

from webapp.models import AskedAnswer, EvidenceBlock, Purge

if TYPE_CHECKING:
    from realm_core.serving.provenance import Answer

log = logging.getLogger(__name__)

LIMIT_S: Final = 10.0  # for outcomes in one request; each answer takes some 2 ms
AT_A_GLANCE: Final = 200  # answers, for a page that only links to those that list them
_SLICE: Final = 200  # answers in memory at once: some 20 KB each
_KEPT_S: Final = 600


class Outcome(StrEnum):
    """The effect on an answer of leaving the blocks out, or of what is in their place."""

    SAME = "same"
    OTHER_BLOCK = "other_block"  # the same answer, best explained by another block
    OTHER_ANSWER = "other_answer"
    NONE = "no_answer"  # there was an answer, now there is none
    GIVEN = "answer_given"  # there was no answer, now there is one


@dataclass(frozen=True)
class TouchedAnswer:
    """A kept answer that read some of the blocks. posterior: of these blocks together, when it was stored.

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

    @property
    def asked_anew(self) -> bool:
        """Whether its question was asked anew."""
        return self.anew is not None

    @cached_property
    def outcome(self) -> Outcome:
        """How `later` differs from the kept answer."""
        return _outcome(self.full, self.later)

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
    """reading: the exact number of kept answers that read the blocks. looked_at: how many of them were recomputed,
    those with the highest posterior first; fewer where time ran out. outcomes: of these by outcome, 0 where none came.
    """

    reading: int
    looked_at: int
    outcomes: Counter[str] = field(default_factory=Counter)

    @property
    def differing(self) -> int:
        """How many of the recomputed ones change."""
        return self.looked_at - self.outcomes[Outcome.SAME]

    @property
    def left(self) -> int:
        """How many were not recomputed."""
        return self.reading - self.looked_at


@dataclass(frozen=True)
class WorkedOut:
    """What becomes of touched answers. differing: the `Touched.rows` of those that change."""

    summary: Summary
    differing: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class Touched:
    """The kept answers that read any of some blocks. among: only these answers; None: all."""

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

    def worked_out(self, most: int | None = None, limit_s: float = LIMIT_S) -> WorkedOut:
        """How many answers there are, what becomes of them, and which change.

        most: answers to recompute, beside those whose outcome is remembered; None: all, as far as `limit_s` allows.
        """
        if not self.block_ids:
            return WorkedOut(Summary(0, 0))
        until = time.monotonic() + limit_s
        known = self._remembered()
        remembered = len(known)
        rows = self.rows if most is None else self.rows[: max(most, remembered)]
        following = rows.iterator(chunk_size=_SLICE)
        size = _SLICE if most is None else min(most, _SLICE)
        outcomes: Counter[str] = Counter()
        differing = []
        while part := list(islice(following, size)):
            if missing := [row["answer"] for row in part if row["answer"].hex not in known]:
                no_time = len(known) > remembered and time.monotonic() > until  # one part at least, to end at some time
                if no_time or (most is not None and outcomes.total() >= most):
                    break
                known |= self._outcomes(missing)
            there = [(row, known[row["answer"].hex]) for row in part if row["answer"].hex in known]
            outcomes.update(outcome for _, outcome in there)
            differing += [row for row, outcome in there if outcome != Outcome.SAME]
        if len(known) > remembered:
            self._remember(known)
        looked_at = outcomes.total()
        return WorkedOut(Summary(max(self.rows.count(), looked_at), looked_at, outcomes), differing)

    def _outcomes(self, answer_ids: Collection[Any]) -> dict[str, str]:
        """Outcome by the answer's id in hexadecimal; of those that retention has left."""
        from realm_core.serving.provenance import Answer

        removed = frozenset(self.block_ids)
        payloads = AskedAnswer.objects.filter(pk__in=answer_ids).values_list("pk", "payload")
        answers = ((answer_id, Answer.from_dict(payload)) for answer_id, payload in payloads)
        return {answer_id.hex: _outcome(full, full.without(removed)).value for answer_id, full in answers}

    @cached_property
    def _key(self) -> str:
        """Of the blocks, whichever answers are meant, and of all purges: one changes kept answers."""
        blocks = hashlib.sha256("\n".join(sorted(self.block_ids)).encode()).hexdigest()
        return f"ledger.outcomes:{Purge.objects.count()}:{blocks}"

    def _remembered(self) -> dict[str, str]:
        try:
            return dict(cache.get(self._key) or {})
        except RedisError:  # without the cache the outcomes are computed again
            return {}

    def _remember(self, known: dict[str, str]) -> None:
        try:
            cache.set(self._key, known, _KEPT_S)
        except RedisError:
            log.warning("What becomes of %d kept answers could not be remembered", len(known))


def _outcome(full: Answer, later: Answer) -> Outcome:
    """How a later answer differs from the stored one."""
    if full.answer is None:
        return Outcome.SAME if later.answer is None else Outcome.GIVEN
    if later.answer is None:
        return Outcome.NONE
    if full.answer.text != later.answer.text:
        return Outcome.OTHER_ANSWER
    same_block = full.evidence[0].block_id == later.evidence[0].block_id
    return Outcome.SAME if same_block else Outcome.OTHER_BLOCK
