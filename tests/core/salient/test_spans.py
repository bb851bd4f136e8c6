"""Trimming, overlapping spans, and joining tagged words to names."""

from __future__ import annotations

import pytest

from realm_core.salient.spans import TaggedSpan as Span
from realm_core.salient.spans import joined_words, longest, trimmed


@pytest.mark.parametrize(
    ("found", "name"),
    [
        ("the Suez Canal", "Suez Canal"),
        ("The Hague", "Hague"),
        ("Thebes", "Thebes"),
        ("Poland's", "Poland"),
        ("Poland’s ", "Poland"),
        ("the Beatles'", "Beatles"),
        ("“The Rebel”,", "Rebel"),
        ("O'Brien", "O'Brien"),
        ("the U.S.", "U.S."),
        ("Apple Inc.", "Apple Inc."),
        ("the Nile River.", "Nile River"),
        ("Boeing 747.", "Boeing 747"),
        ("Wikipedia.", "Wikipedia"),
        ("(Berlin", "Berlin"),
        ("Paris (Texas)", "Paris (Texas)"),
        ("– Mars –", "Mars"),
        ("AT&T", "AT&T"),
    ],
)
def test_a_span_is_cut_to_the_name_itself(found: str, name: str) -> None:
    text = f"x {found} y"
    span = trimmed(text, Span(2, 2 + len(found), "ORG"))
    assert span is not None and (text[span.start : span.end], span.label) == (name, "ORG")


@pytest.mark.parametrize("text", ["", "the", "The ", "'s", "—", "the 's", "...", "a"])
def test_trimming_may_leave_nothing(text: str) -> None:
    assert trimmed(text, Span(0, len(text), "ORG")) is None


def test_of_two_that_overlap_the_longer_wins() -> None:
    spans = [
        Span(0, 4, "DATE"),
        Span(3, 9, "EVENT"),
        Span(9, 12, "GPE"),
        Span(10, 12, "ORG"),
        Span(20, 21, "GPE"),
    ]
    assert longest(spans) == [spans[1], spans[2], spans[4]]
    assert longest(reversed(spans)) == longest(spans)


def test_of_two_as_long_the_earlier_wins_and_of_two_in_one_place_the_first() -> None:
    assert longest([Span(2, 6, "B"), Span(0, 4, "A")]) == [Span(0, 4, "A")]
    assert longest([Span(0, 4, "ORG"), Span(0, 4, "DATE")]) == [Span(0, 4, "ORG")]


def test_a_shorter_span_stays_if_its_rival_is_dropped() -> None:
    chain = [Span(0, 3, "A"), Span(2, 7, "B"), Span(5, 20, "C")]
    assert longest(chain) == [chain[0], chain[2]]


@pytest.mark.parametrize(
    ("tags", "names"),
    [
        ("B-PER I-PER O B-LOC", ["PER 0-2", "LOC 3-4"]),
        ("I-PER I-PER I-LOC", ["PER 0-2", "LOC 2-3"]),
        ("B-PER B-PER O", ["PER 0-1", "PER 1-2"]),
        ("PER PER O PER", ["PER 0-2", "PER 3-4"]),
        ("B-ORG I-ORG E-ORG S-ORG I-ORG", ["ORG 0-3", "ORG 3-4", "ORG 4-5"]),
        ("B-ORG L-ORG U-ORG", ["ORG 0-2", "ORG 2-3"]),
        ("O O", []),
    ],
)
def test_names_out_of_tagged_words(tags: str, names: list[str]) -> None:
    words = []
    for number, tag in enumerate(tags.split()):
        prefix, _, label = tag.rpartition("-")
        words.append((number, number + 1, prefix, label))
    assert [f"{span.label} {span.start}-{span.end}" for span in joined_words(words)] == names
