"""A block that has none of a question's unknown words answers it not at all, or with doubt."""

from __future__ import annotations

import pytest

from realm_core.corpus.records import Block
from realm_core.serving.engine import Engine
from realm_core.serving.english.rules import PENALTY
from realm_core.serving.english.unknown_words import DOUBT, UnknownWords
from tests.core.engines import check_sums


def block(text: str) -> Block:
    return Block(0, "0" * 32, "Ibn Rushd", text, 0, 0, len(text), "", "")


@pytest.mark.parametrize(
    ("question", "words", "alone"),
    [
        ("asdf", {"asdf"}, True),
        ("Hjkl, hjkl!", {"hjkl"}, True),
        ("asdf river", set(), False),  # short
        ("Who discovered brandonium?", {"brandonium"}, False),
        ("who discoverd oxygen", set(), False),  # misspelt
        ("Who wrote Romeo and Juliet?", set(), False),
        ("quelle est la capitale de la Valdoria", set(), False),  # in French most words are unknown
        ("42", set(), True),
        ("谁写了哈姆雷特", set(), False),
        ("", set(), True),
    ],
)
def test_unknown_words(question: str, words: set[str], alone: bool) -> None:
    assert UnknownWords.of(question) == UnknownWords(frozenset(words), alone)


def test_a_block_needs_one_of_them() -> None:
    averroes = block("Also called Averroes.")
    for word in ("averroes", "hjkl", "rush"):
        alone = UnknownWords(frozenset({word}), alone=True)
        assert alone.against(averroes, PENALTY) == (PENALTY if word == "hjkl" else 0.0)
    assert UnknownWords(frozenset({"averroes", "hjkl"}), alone=True).against(averroes, PENALTY) == 0.0
    assert UnknownWords().against(averroes, PENALTY) == 0.0


@pytest.mark.parametrize(
    ("word", "text", "named"),
    [
        ("brandonium", "Selenium was discovered by Berzelius.", False),
        ("brandonium", "Brandonium was discovered by nobody.", True),
        ("sejuk", "The Seljuk Empire.", True),  # misspelt
        ("utilitarism", "The founder of utilitarianism.", True),  # another ending
        ("lightbulb", "He made a light bulb.", True),
        ("lightbulb", "He made a lamp.", False),
    ],
)
def test_among_known_words_forms_of_it_count(word: str, text: str, named: bool) -> None:
    assert UnknownWords(frozenset({word})).against(block(text), PENALTY) == (0.0 if named else DOUBT)


def test_only_a_block_with_the_word_answers(engine: Engine) -> None:
    for question, answers in (("asdf", False), ("brazi", True)):
        answer = engine.ask(question, k=3, normalisation="block+null", as_typed=True)
        nulls = [one.no_answer_likelihood for one in answer.evidence]
        has = [question in f"{one.title} {one.text}".casefold() for one in answer.evidence]
        assert [null is not None and null > 0.999 for null in nulls] == [not one for one in has]
        assert any(has) is answers
        check_sums(answer)


def test_an_unknown_word_among_others_raises_not_here(engine: Engine) -> None:
    known, unknown = (
        engine.ask(f"When did the Suez Canal {verb}?", k=3, normalisation="block+null", as_typed=True)
        for verb in ("open", "zxqvopen")
    )
    assert known.no_answer_probability is not None and unknown.no_answer_probability is not None
    assert known.no_answer_probability < unknown.no_answer_probability
    check_sums(unknown)
