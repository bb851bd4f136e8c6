"""Masked sentences: splitting at the masks, and filling them."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from realm_core.text.masked import between_masks, fill_masks, filled_words, without_repetition

PLAIN = st.text(st.characters(exclude_characters="[]#", exclude_categories=["Cs"]), max_size=8)


@given(st.lists(PLAIN, min_size=1, max_size=5), st.sampled_from(["[MASK]", "[mask]", "[Mask]"]))
def test_a_sentence_is_split_at_its_masks(texts: list[str], mask: str) -> None:
    assert between_masks(mask.join(texts)) == texts


@given(st.lists(PLAIN, min_size=2, max_size=5), st.data())
def test_filled_sentence_is_the_sentence_with_its_words(texts: list[str], data: st.DataObject) -> None:
    words = [data.draw(PLAIN.filter(bool)) for _ in texts[1:]]
    parts = fill_masks("[MASK]".join(texts), words)
    expected = texts[0] + "".join(word + text for word, text in zip(words, texts[1:], strict=True))
    assert "".join(text for text, _ in parts) == expected
    assert all(one != other for (_, one), (_, other) in pairwise(parts))  # runs are put together


@pytest.mark.parametrize(
    ("sentence", "words", "parts", "alone"),
    [
        ("3 is a [MASK] [MASK] prime.", ["fe", "##rmat"], ["3 is a ", "fermat", " prime."], "fermat"),
        ("3 is a [MASK][MASK] prime.", ["fe", "##rmat"], ["3 is a ", "fermat", " prime."], "fermat"),
        ("[MASK] [MASK] wrote it", ["leo", "tolstoy"], ["leo tolstoy", " wrote it"], "leo tolstoy"),
        ("[MASK] wrote [MASK]", ["tolstoy", "novels"], ["tolstoy", " wrote ", "novels"], "tolstoy … novels"),
        ("He is play [MASK] .", ["##ing"], ["He is play", "ing", " ."], "ing"),
        ("[MASK]", ["##s"], ["s"], "s"),
        (" [MASK] ", ["x"], [" ", "x", " "], "x"),
    ],
)
def test_wordpieces_become_words(sentence: str, words: list[str], parts: list[str], alone: str) -> None:
    assert [text for text, _ in fill_masks(sentence, words)] == parts
    assert filled_words(sentence, words) == alone


def test_there_must_be_a_word_for_each_mask() -> None:
    with pytest.raises(ValueError, match="zip"):
        fill_masks("[MASK] [MASK]", ["one"])


@pytest.mark.parametrize(
    ("sentence", "words", "left"),
    [
        ("into the [MASK] Sea.", "Mediterranean Sea", "Mediterranean"),
        ("into the [MASK].", "the Mediterranean Sea", "Mediterranean Sea"),
        ("on 9 November [MASK].", "9 November 1989", "1989"),
        ("The [MASK] Prejudice", "the Pride and Prejudice", "Pride and"),
        ("3 is a [MASK] prime.", "Prime", "Prime"),
        ("Sea of [MASK] Sea.", "Marmara", "Marmara"),
        ("at [MASK]", "No. 10", "No. 10"),
    ],
)
def test_what_stands_beside_the_gap_is_left_out(sentence: str, words: str, left: str) -> None:
    assert without_repetition(sentence, words) == left
