"""Which questions of small sets a model reads right, before it is trained on them and after: were they learnt?

Corrections are few, and a training at the default rates may change nothing about them, which neither the loss nor the
held-out questions show. Sets of thousands are not asked: that would take as long as a good part of the training.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final

from realm_core.runs.activity import Activity
from realm_core.training.finetune_step import FinetuneStep, Supervised

_MOST: Final = 200  # questions of a set that is asked
_NAMED: Final = 5  # questions in a sentence of the log


class LearntRight:
    """The distinct questions that are learnt, by set, and what became of those of small sets.

    learnt: with repetitions. given, held_out: of each set, how many questions.
    """

    def __init__(self, learnt: Sequence[Supervised], given: dict[str, int], held_out: Iterable[Supervised]) -> None:
        self._learnt: dict[str, list[Supervised]] = {name: [] for name in given}
        for one in {id(one): one for one in learnt}.values():
            self._learnt[one.group].append(one)
        self._given, self._held_out = given, defaultdict[str, int](int)
        for one in held_out:
            self._held_out[one.group] += 1
        self._right: list[dict[str, list[bool]]] = []

    def ask(self, step: FinetuneStep, at_once: int, activity: Activity) -> None:
        """Ask the questions of small sets: once before the training, once after it. `step` is left evaluating."""
        step.eval()
        right: dict[str, list[bool]] = {}
        for name, questions in self._learnt.items():
            if 0 < len(questions) <= _MOST:
                right[name] = []
                for start in range(0, len(questions), at_once):
                    activity.check()
                    right[name] += [one["span"] for one in step.figures(questions[start : start + at_once])]
        self._right.append(right)

    def tell(self, activity: Activity) -> None:
        """Print how many were right before and are now, and name some that are not."""
        before, after = self._right
        for name, now in after.items():
            wrong = [one.text for one, right in zip(self._learnt[name], now, strict=True) if not right]
            named = ", ".join(f"“{text}”" for text in wrong[:_NAMED])
            more = f" and {len(wrong) - _NAMED:,} more" if len(wrong) > _NAMED else ""
            activity.say(
                f"Of {len(now):,} learnt from {name}, right before: {sum(before[name]):,}, now: {sum(now):,}."
                f"{f' Not right now: {named}{more}.' if wrong else ''}"
            )

    def counts(self) -> dict[str, dict[str, Any]]:
        """By set: given, learnt and held_out, and of a small set right_before and right_after."""
        before, after = self._right
        return {
            name: {"given": self._given[name], "learnt": len(questions), "held_out": self._held_out[name]}
            | ({"right_before": sum(before[name]), "right_after": sum(after[name])} if name in after else {})
            for name, questions in self._learnt.items()
        }
