"""A question of unknown words alone is answered from no block that has none of them."""

from __future__ import annotations

import pytest

from realm_core.corpus.records import Block
from realm_core.serving.engine import Engine
from realm_core.serving.english.unknown_words import names_one, unknown_words
from tests.core.engines import check_sums


@pytest.mark.parametrize(
    ("question", "unknown"),
    [
        ("asdf", {"asdf"}),
        ("Hjkl, hjkl!", {"hjkl"}),
        ("asdf river", set()),
        ("Who wrote Qzxv?", set()),
        ("42", set()),
        ("谁写了哈姆雷特", set()),
        ("", set()),
    ],
)
def test_words_are_unknown_if_all_are(question: str, unknown: set[str]) -> None:
    assert unknown_words(question) == unknown


def test_a_block_needs_one_of_them() -> None:
    block = Block(0, "0" * 32, "Ibn Rushd", "Also called Averroes.", 0, 0, 21, "", "")
    assert names_one({"averroes", "hjkl"}, block) and names_one({"rush"}, block) and names_one((), block)
    assert not names_one({"hjkl"}, block)


def test_only_a_block_with_the_word_answers(engine: Engine) -> None:
    for question, answers in (("asdf", False), ("brazi", True)):
        answer = engine.ask(question, k=3, normalisation="block+null", as_typed=True)
        nulls = [one.no_answer_likelihood for one in answer.evidence]
        has = [question in f"{one.title} {one.text}".casefold() for one in answer.evidence]
        assert [null is not None and null > 0.999 for null in nulls] == [not one for one in has]
        assert any(has) is answers
        check_sums(answer)
