"""Did questions take longer in the windows in which something was changed than in the others?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.askers import percentile
from benchmarks.rounds import Summary

Window = np.ndarray[Any, np.dtype[np.float64]]  # what each question took that was under way in it


@dataclass(frozen=True)
class Windows:
    """Those of one round, all of one length: in which nothing changed, and those that began with a change."""

    usual: Sequence[Window]
    changed: Sequence[Window]

    @property
    def p99_ms(self) -> float:
        """Which the usual questions do not exceed."""
        return percentile(np.concatenate(self.usual).tolist(), 0.99)

    @property
    def longer(self) -> list[int]:
        """Of each change, how many questions took longer than usual ones but for one in a hundred."""
        p99_ms = self.p99_ms
        return [int((window > p99_ms).sum()) for window in self.changed]

    def drawn_anew(self, random: np.random.Generator) -> Windows:
        """As many windows of each, drawn from these."""
        usual, changed = (random.integers(len(one), size=len(one)) for one in (self.usual, self.changed))
        return Windows([self.usual[i] for i in usual], [self.changed[i] for i in changed])

    def mixed(self, random: np.random.Generator) -> Windows:
        """As many of each, whichever they are."""
        both, changes = [*self.usual, *self.changed], len(self.changed)
        order = random.permutation(len(both))
        return Windows([both[i] for i in order[changes:]], [both[i] for i in order[:changes]])


def longer(rounds: Sequence[Windows]) -> float:
    """The share of all changes' questions that took longer than the usual 99th percentile of their round."""
    return sum(sum(one.longer) for one in rounds) / sum(len(window) for one in rounds for window in one.changed)


def share_longer(rounds: Sequence[Windows], draws: int = 4_000) -> Summary:
    """`longer` with its 95 % interval.

    Bootstrap interval; correlated samples in a window count once. by_chance: permutation p-value.
    """
    random = np.random.default_rng(0)
    share = longer(rounds)
    low, high = np.percentile([longer([one.drawn_anew(random) for one in rounds]) for _ in range(draws)], (2.5, 97.5))
    by_chance = np.mean([longer([one.mixed(random) for one in rounds]) >= share for _ in range(draws)])
    return {"share": share, "low": float(low), "high": float(high), "by_chance": float(by_chance)}
