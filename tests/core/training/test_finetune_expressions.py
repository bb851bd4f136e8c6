"""Answers that are regular expressions: a block is right or wrong only once they were matched in it."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from realm_core.errors import Stopped
from realm_core.questions.question_file import Question
from realm_core.training import finetune
from realm_core.training.finetune_step import Supervised
from realm_core.training.occurrences import Expressions, ExpressionSearch
from tests.core.conftest import Deployment
from tests.core.model import formulas
from tests.core.running import activity_of
from tests.core.training.finetune_scene import K, World, by_score, log, read_by_hand
from tests.core.training.material import finetune_arguments

pytestmark = pytest.mark.usefixtures("in_float32")


def with_expressions(world: World, number: int, candidates: int) -> tuple[Supervised, list[int]]:
    """A question whose expression matches every block that holds "the", known of the worst ones so far, and its ranks.

    candidates: how many blocks have been looked at, from the worst upwards.
    """
    question, _ = world.asked[number]
    ranked = by_score(read_by_hand(world, number, supply=False).scores_N)
    expressions = Expressions(Question(question, (r"\bthe\b",), "regex"), ExpressionSearch(world.snapshot))
    known = expressions.within(ranked[len(ranked) - candidates :])
    return replace(world.questions[number], occurrences=known, expressions=expressions), ranked


def test_blocks_in_which_expressions_were_not_looked_for_are_not_wrong(world: World) -> None:
    texts = world.snapshot.titles_texts(0, len(world.snapshot))[1]
    right_outside = 0
    for number in range(5):
        one, ranked = with_expressions(world, number, 3)
        matching = [row for row in ranked if " the " in f" {texts[row].lower()} "]
        right_outside += sum(row in ranked[:5] for row in matching)
        scores = read_by_hand(world, number, supply=False).scores_N
        for beam in (0, 4):
            best = ranked[: min(5, beam or 5)]
            shares = formulas.softmax([scores[row] for row in best])
            wanted = -log(math.fsum(share for share, row in zip(shares, best, strict=True) if row in matching))
            figures = world.step(beam=beam, examined=5, supply=False)([one])[1]
            assert figures["retriever_loss"] == pytest.approx(wanted, rel=1e-4, abs=1e-6)
            assert bool(figures["answerable"]) == any(row in matching for row in ranked[:K])
        (figures_of,) = world.step().figures([one])
        assert [figures_of[f"recall@{k}"] for k in (1, 5)] == [any(r in matching for r in ranked[:k]) for k in (1, 5)]
    assert right_outside > 2


def test_excluded_blocks_match_nothing(world: World) -> None:
    one, ranked = with_expressions(world, 0, 0)
    matching = one.within(np.array(ranked), np.zeros(len(ranked), np.bool_)).blocks().tolist()
    assert len(matching) > 1
    (figures,) = world.step(excluded=matching).figures([one])
    assert not figures["recall@20"]


def test_a_setting_says_in_how_many_blocks_they_are_looked_for(
    deployment: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At first, and in every step."""
    find, seen = finetune.find_all, []

    def finding(asked: Any, snapshot: Any, tokens: Any, candidates: Any, activity: Any) -> Any:
        seen.extend(len(rows) for rows in candidates(["Who?"]))
        return find(asked, snapshot, tokens, candidates, activity)

    def step(*parts: Any) -> None:
        seen.append(parts[-1].examined)
        raise Stopped

    monkeypatch.setattr(finetune, "find_all", finding)
    monkeypatch.setattr(finetune, "FinetuneStep", step)
    with pytest.raises(Stopped):
        activity_of("finetune", finetune_arguments(deployment, tmp_path, {"examined": 3}), run=tmp_path / "run")
    assert seen == [3, 3]
