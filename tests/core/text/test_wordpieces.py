"""Wordpieces: offsets in the original text, and text that looks like special tokens."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from realm_core.errors import RealmError
from realm_core.text.wordpieces import Wordpieces

WORDPIECES = Wordpieces.default()


def test_offsets_point_into_the_original_casing_and_accents() -> None:
    text = "Gödel’s THEOREM, 1931"
    encoded = WORDPIECES.encode([text])[0]
    words: dict[int, str] = {}
    for word, (start, end) in zip(encoded.words, encoded.offsets, strict=True):
        words[word] = words.get(word, "") + text[start:end]
    assert list(words.values()) == ["Gödel", "’", "s", "THEOREM", ",", "1931"]


def test_special_tokens_in_a_text_are_only_text() -> None:
    encoded = WORDPIECES.encode(["[SEP] [MASK]"])[0]
    assert not {WORDPIECES.sep_id, WORDPIECES.mask_id, WORDPIECES.cls_id} & set(encoded.ids)
    assert WORDPIECES.pieces(encoded.ids) == ["[", "sep", "]", "[", "mask", "]"]


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=8))
def test_counts_are_the_lengths_of_encoded_texts(texts: list[str]) -> None:
    assert WORDPIECES.count(texts) == [len(encoded.ids) for encoded in WORDPIECES.encode(texts)]


def test_long_texts_are_neither_truncated_nor_padded() -> None:
    assert WORDPIECES.count(["word " * 1000, "word"]) == [1000, 1]


def test_a_file_that_is_no_tokenizer_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(RealmError, match=r"tokenizer\.json"):
        Wordpieces(tmp_path / "tokenizer.json")
