"""The reading of a question is chosen by the blocks that a search finds for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from realm_core.corpus.wordnet import ADDRESS
from realm_core.serving import retrieval
from realm_core.serving.corpus import Wanted
from realm_core.serving.engine import Engine
from realm_core.text.spelling import QuestionReading
from tests.core.engines import block_of


@pytest.mark.parametrize("typed", ["Amazon", "Amazn"])
def test_a_word_of_any_near_block_is_right(engine: Engine, monkeypatch: pytest.MonkeyPatch, typed: str) -> None:
    """The second nearest block of the question as it was typed has the word."""
    blocks = engine.retrieve("Which river is in Brazil?", k=12, as_typed=True).blocks
    [amazon] = [block_of(engine, one.block_id) for one in blocks if one.title == "Amazon River"]
    other = next(block_of(engine, one.block_id) for one in blocks if "Amazon" not in one.title + one.text)

    def nearest(_corpus: Any, _vectors: Any, wanted: Sequence[Wanted], _temperature: float) -> list[Any]:
        found = [([other, amazon], [1.0, 0.5]), ([other], [9.0])]
        return [(own[: one.k], scores[: one.k]) for (own, scores), one in zip(found, wanted, strict=True)]

    monkeypatch.setattr(retrieval, "nearest", nearest)
    readings = [QuestionReading(typed), QuestionReading("corrected", {typed.lower(): "corrected"})]
    place = retrieval.meant_in(engine._corpus, readings, torch.zeros(2, 4), Wanted(5), 1.0)
    assert place == (0 if typed == "Amazon" else 1)


@pytest.mark.parametrize(("as_typed", "meant"), [(7.3, 1), (7.6, 0)])
def test_a_dictionarys_entry_counts_for_less_than_the_article_behind_it(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, as_typed: float, meant: int
) -> None:
    """The entry would be worth 9 − 1, the article is worth 8.5, and the error a point less."""
    found = engine.retrieve("Which river is in Brazil?", k=1, as_typed=True).blocks
    article = block_of(engine, found[0].block_id)
    entry = replace(article, url=f"{ADDRESS}Morrow")

    def nearest(_corpus: Any, _vectors: Any, wanted: Sequence[Wanted], _temperature: float) -> list[Any]:
        blocks = [([article], [as_typed]), ([entry, article], [9.0, 8.5])]
        return [(own[: one.k], scores[: one.k]) for (own, scores), one in zip(blocks, wanted, strict=True)]

    monkeypatch.setattr(retrieval, "nearest", nearest)
    readings = [
        QuestionReading("capital of morroco"),
        QuestionReading("capital of morrow", {"morroco": "morrow"}, worth=-1.0),
    ]
    assert retrieval.meant_in(engine._corpus, readings, torch.zeros(2, 4), Wanted(5), 1.0) == meant
