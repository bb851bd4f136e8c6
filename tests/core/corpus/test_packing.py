"""Blocks: at most 288 wordpieces, in order, nothing dropped, sentences whole where they can be."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from realm_core.corpus.packing import MAX_BLOCK_CHARACTERS, MAX_TITLE_WORDPIECES, MAX_WORDPIECES, Packer
from realm_core.corpus.records import Article, Section
from realm_core.text.wordpieces import Wordpieces
from tests.nightly import examples

WORDPIECES = Wordpieces.default()
PACKER = Packer(WORDPIECES)

words = st.sampled_from(
    ["realm", "Retrieval-augmented", "x", "1990.", "U.S.", "A", "naïve", "東京", "antidisestablishmentarianism", "(see",
     "q" * 130, "𝔘nicode", "don't", "\n", "!", "…", "a-" * 200, "e\u0301", "😀", "\u200d"]
)  # fmt: skip
texts = st.lists(words, max_size=700).map(" ".join) | st.text(max_size=300)


def blocks(title: str, text: str, sections: tuple[Section, ...] = ()) -> list[str]:
    spans = PACKER.pack([Article("1", title, "", text, sections)])[0]
    return [text[start:end] for start, end in spans]


def visible(text: str) -> str:
    return re.sub(r"\s", "", text)


def joined_length(title: str, body: str) -> int:
    title_count, body_count = WORDPIECES.count([title, body])
    return 3 + min(title_count, MAX_TITLE_WORDPIECES) + body_count


@settings(max_examples=examples(120), deadline=None)
@given(
    title=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40) | st.just("word " * 90), text=texts
)
def test_blocks_cover_the_text_in_order_and_fit(title: str, text: str) -> None:
    text = text.encode("utf-8", "ignore").decode()
    spans = PACKER.pack([Article("1", title, "", text)])[0]
    assert visible("".join(text[start:end] for start, end in spans)) == visible(text)
    assert all(first[1] <= second[0] for first, second in pairwise(spans))
    for start, end in spans:
        body = text[start:end]
        assert body == body.strip() != ""
        assert joined_length(title, body) <= MAX_WORDPIECES
        assert len(body) <= MAX_BLOCK_CHARACTERS


def test_packing_is_greedy() -> None:
    text = " ".join(f"Sentence number {i} is here." for i in range(200))
    parts = blocks("Title", text)
    assert len(parts) > 2
    for part, following in pairwise(parts):
        next_sentence = re.match(r"[^.]*\.", following)
        assert next_sentence is not None and part.endswith(".")
        assert joined_length("Title", f"{part} {next_sentence[0]}") > MAX_WORDPIECES


def test_a_sentence_longer_than_a_block_is_split_at_spaces() -> None:
    parts = blocks("Title", "unbelievable " * 400 + "end.")
    assert len(parts) > 1
    assert {word for part in parts for word in part.split()} == {"unbelievable", "end."}


def test_an_overlong_word_is_split() -> None:
    text = "x" * 20_000
    parts = blocks("Title", text)
    assert "".join(parts) == text and all(len(part) <= MAX_BLOCK_CHARACTERS for part in parts)


def test_a_long_title_leaves_room_for_the_body() -> None:
    parts = blocks("long title " * 60, "A sentence of the body. " * 100)
    assert all(WORDPIECES.count([part])[0] >= 100 for part in parts[:-1])


def test_a_new_section_opens_a_block_once_the_block_is_half_full() -> None:
    lead, early, late = ("Words of the lead. " * 40).strip(), "A short section.", "Another short one."
    text = f"{lead}\n{early}\n{late}"
    sections = (Section("Early", text.index(early)), Section("Late", text.index(late)))
    assert blocks("Title", text, sections) == [lead, f"{early}\n{late}"]


def test_a_section_that_says_its_heading_soon_has_a_block_of_its_own() -> None:
    """Whether the heading is followed by its page or not; one that is hardly begun is still filled up."""
    lead, leave = "One line.", "Annual leave\n" + ("Words of leave. " * 12).strip()
    sick, page = "Sick leave\n" + ("Words on it. " * 12).strip(), ("The next page of it. " * 5).strip()
    text = f"{lead}\n{leave}\n{sick}\n{page}"
    sections = tuple(
        Section(heading, text.index(own))
        for heading, own in (("Annual leave", leave), ("Sick leave (page 1)", sick), ("Sick leave (page 2)", page))
    )
    assert blocks("Title", text, sections) == [f"{lead}\n{leave}", f"{sick}\n{page}"]
    unsaid = tuple(Section(f"On {section.heading}", section.start) for section in sections)
    assert len(blocks("Title", text, unsaid)) == 1


def test_articles_packed_together_and_alone_agree() -> None:
    articles = [Article(str(i), f"T{i}", "", "One sentence. " * (i * 40)) for i in range(4)]
    assert PACKER.pack(articles) == [PACKER.pack([article])[0] for article in articles]


def test_a_limit_without_room_is_refused() -> None:
    with pytest.raises(ValueError, match="no room"):
        Packer(WORDPIECES, 60)
