"""When an answer is correct: normalising against an independent implementation, and expressions."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from realm_core.errors import RealmError
from realm_core.questions import answers as answers_module
from realm_core.questions.answers import (
    AnswerPattern,
    answer_pattern,
    exact_match,
    holds_answer,
    is_correct,
    normalise_answer,
    regex_match,
)

PUNCTUATION = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=60) | st.lists(
    st.sampled_from(["a", "an", "the", "The", "A", " ", "\n", "Nile", "é", "'s", "-", "_", ".", "1869", "an\u0301"])
).map("".join)


def by_hand(text: str) -> str:
    """NFD, lower case, no ASCII punctuation, no articles, one space between words; character by character."""
    lower = unicodedata.normalize("NFD", text).lower()
    bare = "".join(character for character in lower if character not in PUNCTUATION)
    words: list[str] = []  # runs of letters and digits, and what stands between them
    for character in bare:
        letter = character.isalnum()
        if words and (words[-1][-1].isalnum() == letter):
            words[-1] += character
        else:
            words.append(character)
    return " ".join("".join(" " if word in ("a", "an", "the") else word for word in words).split())


@settings(max_examples=300)
@given(TEXTS)
def test_normalising_equals_an_independent_implementation(text: str) -> None:
    assert normalise_answer(text) == by_hand(text)


@given(TEXTS)
def test_casing_spacing_and_an_article_change_nothing(text: str) -> None:
    assert normalise_answer(f"  The {text}\n") == normalise_answer(text)


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("The Beatles", "beatles"),
        ("  a  man,\n an  apple ", "man apple"),
        ("U.S.", "us"),
        ("3,422 °C", "3422 °c"),
        ("Gödel’s", "go\u0308del’s"),  # only ASCII's apostrophe is punctuation here
        ("theatre", "theatre"),
        ("the", ""),
        ("...", ""),
    ],
)
def test_known_texts(text: str, normal: str) -> None:
    assert normalise_answer(text) == normal


def test_exact_match_requires_a_whole_answer() -> None:
    assert exact_match("the Nile.", ["Amazon", "Nile"])
    assert not exact_match("River Nile", ["Nile"])
    assert not exact_match("", ["", "the"]) and not exact_match("The", ["a"])  # nothing equals nothing


@pytest.mark.parametrize(
    ("prediction", "expression", "right"),
    [
        ("1869", "18", True),  # the rest of the prediction does not matter
        ("in 1869", "1869", False),  # but its start does
        ("in 1869", ".*1869", True),
        ("NILE", "nile", True),
        ("in\n1869", "^1869", False),
        ("in\n1869", "in$", True),  # a line may end within
        ("ÀÉ", r"\w+$", True),
        ("", "x?", True),
    ],
)
def test_expressions_match_from_the_start(prediction: str, expression: str, right: bool) -> None:
    assert regex_match(prediction, ["no such thing", expression]) == right
    assert is_correct(prediction, [expression], "regex") == right


def test_a_text_is_taken_literally_unless_it_is_an_expression() -> None:
    assert is_correct("18..", ["18.."]) and not is_correct("1869", ["18.."])
    assert is_correct("1869", ["18.."], "regex")


def test_an_invalid_expression_is_named() -> None:
    with pytest.raises(RealmError, match=r"regular expression '\(' is not valid"):
        answer_pattern("(")


@pytest.mark.parametrize("look", [AnswerPattern.begins, AnswerPattern.occurs_in, AnswerPattern.spans])
def test_an_expression_that_times_out_is_named(
    look: Callable[[AnswerPattern, str], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers_module, "_MATCH_TIMEOUT_S", 0.05)
    with pytest.raises(RealmError, match=r"'\(a\|aa\)\+\$' takes more than 0.05 s"):
        look(AnswerPattern("(a|aa)+$"), "a" * 80 + "b")


@given(
    st.from_regex(r"(\w|\.|\d\d|[a-d]|\w\?|a\+|\(b\|c\)|, ){1,6}", fullmatch=True),
    st.text("abcd12, .B\nC", max_size=40),
)
def test_expressions_match_like_the_released_code(expression: str, text: str) -> None:
    release = re.compile(expression, re.IGNORECASE | re.UNICODE | re.MULTILINE)
    pattern = answer_pattern(expression)
    assert pattern.spans(text) == [match.span() for match in release.finditer(text) if match.group()]
    assert pattern.begins(text) == (release.match(text) is not None)
    assert pattern.occurs_in(text) == (release.search(text) is not None)


@pytest.mark.parametrize(
    ("text", "answers", "answer_type", "holds"),
    [
        ("It flows into the Nile.", ["nile"], "string", True),
        ("It flows into the Niles.", ["nile"], "string", False),
        ("the the", ["the"], "string", False),
        ("opened in 1869", [r"18\d\d"], "regex", True),  # anywhere
        ("opened in 1969", [r"18\d\d"], "regex", False),
    ],
)
def test_a_text_contains_an_answer_as_whole_words(text: str, answers: list[str], answer_type: str, holds: bool) -> None:
    assert holds_answer(text, answers, answer_type) == holds
