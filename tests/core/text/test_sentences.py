"""Sentence splitting: what ends a sentence, what does not, and that nothing is lost."""

from __future__ import annotations

import re
import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from realm_core.text.sentences import sentence_spans


def sentences(text: str) -> list[str]:
    return [text[start:end] for start, end in sentence_spans(text)]


@pytest.mark.parametrize(
    "expected",
    [
        ["It rained.", "He left!", "Why?", "Nobody knows."],
        ["Dr. Watson met Mr. Holmes at 221B Baker St. in London.", "They talked."],
        ["J. R. R. Tolkien wrote it.", "It sold well."],
        ["The U.S. Congress met.", "He lives in the U.S.", "The law passed."],
        ["It grew by 3.5 per cent.", "In 1990 it shrank."],
        ['He said "No."', "She left."],
        ["(It was late.)", "They slept."],
        ["It is found in e.g. France, cf. No. 5 and vol. 3 of Smith et al. (1990).", "This is known."],
        ["Apple Inc. Chairman Jobs spoke.", "He works for Apple Inc.", "The firm grew."],
        ["Yahoo! is a firm.", "It was founded in 1994."],
        ["M. Dupont est né en 52 av. J.-C. à Rome.", "Il est mort.", "L'été vint."],
        ["El Sr. García nació en el siglo II a. C. en Roma.", "¿Quién era?", "¡Nadie lo sabe!"],
        ["He asked for the answer, and it was no.", "Then he left."],
        ["東京は首都です。", "人口は多い。"],
        ["Wait...", "Nobody came."],
        ["1. The first item stays whole."],
        ["The date was Jan. 5, 1900.", "It was cold."],
    ],
)
def test_known_boundaries(expected: list[str]) -> None:
    joiner = "" if "。" in expected[0] else " "
    assert sentences(joiner.join(expected)) == expected


def test_a_line_break_ends_a_sentence() -> None:
    assert sentences("Mercury\n  Venus \n\nThe third is Earth") == ["Mercury", "Venus", "The third is Earth"]


@pytest.mark.parametrize("blank", ["", " ", "\n \t\n"])
def test_blank_text_has_none(blank: str) -> None:
    assert sentence_spans(blank) == []


@given(st.text(alphabet=st.sampled_from("aA b.!?\n\"'()5é。…M¿"), max_size=200) | st.text(max_size=100))
def test_spans_hold_every_visible_character_once(text: str) -> None:
    spans = sentence_spans(text)
    assert all(text[start:end] == text[start:end].strip() != "" for start, end in spans)
    assert all(first[1] <= second[0] for first, second in pairwise(spans))
    assert re.sub(r"\s", "", "".join(text[a:b] for a, b in spans)) == re.sub(r"\s", "", text)


@pytest.mark.parametrize("unit", [".", '."', "A.", "a. ", "\n", " " * 50, "(", "“"])
def test_pathological_text_takes_linear_time(unit: str) -> None:
    text = unit * (200_000 // len(unit))
    started = time.perf_counter()
    sentence_spans(text)
    assert time.perf_counter() - started < 5
