"""Answers in a text: normalising with positions, and matching spans."""

from __future__ import annotations

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from realm_core.questions.answers import normalise_answer, regex_match
from realm_core.questions.matching import NormalText, answer_spans, word_edges
from realm_core.text.wordpieces import Wordpieces

WORDPIECES = Wordpieces.default()
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
# Texts in which words, articles, marks and unusual spaces meet often.
WORDS = st.sampled_from(
    (
        "the The a an Nile nile NILE café cafe\u0301 İstanbul ΟΔΟΣ Σ ﬁ 東京 3,422 U.S. 's - ( ) . , “ ” °C ate them ' "
        "\u0323\u0301 \u0301"
    ).split()
)
GAPS = st.sampled_from([" ", "", "  ", "\n", "\u00a0", "\u200b", "\x1c", "\t"])
WORDY_TEXT = st.lists(st.tuples(WORDS, GAPS), max_size=14).map(lambda parts: "".join(w + gap for w, gap in parts))


def spans(text: str, answers: list[str], answer_type: str = "string", widest: int = 16) -> list[str]:
    """The texts of the spans in order."""
    encoded = WORDPIECES.encode([text])[0]
    found = answer_spans(text, NormalText.of(text), encoded, answers, answer_type, widest)
    return [text[encoded.offsets[first][0] : encoded.offsets[last][1]] for first, last in sorted(found)]


# ── Normalising with places kept ────────────────────────────────────────────────────────────────────────────────────


@settings(max_examples=300)
@given(ANY_TEXT | WORDY_TEXT)
@example("a\u0301\u0323")  # marks in another than the canonical order
@example("ΟΔΟΣ ΣΑΣ")  # the last sigma of a word is another letter in lower case
@example("\u1100\u1161\u11a8 각")
@example("\u037e\u1fef")  # decompose into ASCII punctuation
def test_normal_text_is_the_normalised_answer(text: str) -> None:
    assert NormalText.of(text).normal == normalise_answer(text)


@settings(max_examples=200)
@given(ANY_TEXT | WORDY_TEXT)
def test_every_character_has_its_original_position(text: str) -> None:
    normal = NormalText.of(text)
    assert len(normal.places) == len(normal.normal)
    for character, place in zip(normal.normal, normal.places, strict=True):
        own = normalise_answer(f"x{text[place]}x")[1:-1]  # in the middle of a word, where no article is
        assert character == " " or character in own.replace("σ", "σς")


# ── Spans ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "answer", "expected"),
    [
        ("It flows, the Nile, to the sea.", "Nile", ["the Nile", "Nile"]),
        ("the Nile and THE NILE and Niles", "nile", ["the Nile", "Nile", "THE NILE", "NILE"]),
        ("in the U.S. and the US.", "US", ["the U.S.", "the U.S", "U.S.", "U.S", "the US", "US"]),
        ("at 3,422 °C today", "3422 °C", ["3,422 °C"]),
        ("The café closed", "CAFÉ", ["The café", "café"]),
        ('called "The Mousetrap" in 1952', "mousetrap", ["The Mousetrap", "Mousetrap"]),
        ("The Mass (in B minor)", "B minor", ["B minor"]),
        ("(B minor)", "B minor", ["(B minor)", "B minor"]),
        ("2001: A Space Odyssey", "2001 Space Odyssey", ["2001: A Space Odyssey"]),
        ("東京タワー", "東京", []),  # a part of a word is no answer
        ("東京 タワー", "東京", ["東京"]),
        ("a an the", "the", []),  # nothing is left of it to look for
        ("Nothing of it", "Nile", []),
    ],
)
def test_known_texts(text: str, answer: str, expected: list[str]) -> None:
    assert sorted(spans(text, [answer])) == sorted(expected)


def test_spans_of_every_answer_are_found_and_none_is_too_long() -> None:
    text = "Stanley Kubrick, or Kubrick for short"
    assert sorted(spans(text, ["Kubrick", "Stanley Kubrick"])) == ["Kubrick", "Kubrick", "Stanley Kubrick"]
    widest = len(WORDPIECES.encode(["Kubrick"])[0].ids)
    assert spans(text, ["Kubrick", "Stanley Kubrick"], widest=widest) == ["Kubrick", "Kubrick"]
    assert spans(text, ["Kubrick"], widest=widest - 1) == []


@settings(max_examples=300)
@given(text=WORDY_TEXT | ANY_TEXT, data=st.data())
def test_a_span_matches_the_answer(text: str, data: st.DataObject) -> None:
    words = text.split()
    assume(words)
    first = data.draw(st.integers(0, len(words) - 1))
    answer = " ".join(words[first : data.draw(st.integers(first + 1, len(words)))])
    for said in spans(text, [answer]):
        assert normalise_answer(said) == normalise_answer(answer)


@settings(max_examples=150)
@given(
    before=st.lists(st.sampled_from(["Ada", "wrote,", "of", "it."]), max_size=4),
    answer=st.lists(st.sampled_from(["Charles", "Babbage", "1843", "Nile"]), min_size=1, max_size=3),
    after=st.lists(st.sampled_from(["and", "(then)", "so."]), max_size=4),
)
def test_an_answer_in_whole_words_is_found(before: list[str], answer: list[str], after: list[str]) -> None:
    text = " ".join([*before, *answer, *after])
    assert " ".join(answer) in spans(text, [" ".join(answer)])


@settings(max_examples=100)
@given(text=WORDY_TEXT, expression=st.sampled_from(["nile", r"ni\w", r"\d+", "the nile|cafe", "(ni)?le", "x*", "s"]))
def test_a_span_matches_its_expression(text: str, expression: str) -> None:
    for said in spans(text, [expression], "regex"):
        assert regex_match(said, [expression])


@pytest.mark.parametrize(
    ("text", "expression", "expected"),
    [
        ("It opened on 17 November 1869.", r"(17 )?Nov\w* 1869", ["17 November 1869"]),
        ("It opened on 17 November 1869.", "Novem", ["November"]),  # a word is taken whole
        ("It opened on 17 November 1869.", "vember", []),  # but must begin where the expression does
        ("PHOBOS and Deimos", "phobos|deimos", ["PHOBOS", "Deimos"]),
        ("anything", "z*", []),
    ],
)
def test_known_expressions(text: str, expression: str, expected: list[str]) -> None:
    assert spans(text, [expression], "regex") == expected


@given(ANY_TEXT)
def test_words_begin_and_end_as_often_and_cover_the_text(text: str) -> None:
    encoded = WORDPIECES.encode([text])[0]
    starts, ends = word_edges(encoded)
    assert sum(starts) == sum(ends) == len(set(encoded.words))
    inside = 0
    for start, end in zip(starts, ends, strict=True):
        inside += start
        assert inside == 1
        inside -= end
    assert not inside


def test_every_occurrence_is_found_once() -> None:
    assert spans("Nile, or " * 400, ["Nile"]) == ["Nile"] * 400
