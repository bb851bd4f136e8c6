"""How a block's spans become candidate answers, with logits set by hand."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from realm_core.corpus.records import Block
from realm_core.serving.reading import ReadBlock, unconcluded
from realm_core.serving.wording import displayed
from realm_core.text.wordpieces import Wordpieces


@pytest.mark.parametrize(
    ("text", "marked", "shown"),
    [
        ("He died of a heart attack.", "a heart attack", "heart attack"),
        ("He lives in The Hague now.", "The Hague", "The Hague"),
        ("It was the longest day.", "the longest day", "longest day"),
        ("They sang a cappella.", "a cappella", "a cappella"),
        ("Its first letter is a, too.", "a", "a"),
        ('Melvin Jerome "Mel" Blanc spoke.', 'Mel" Blanc', '"Mel" Blanc'),
        ('Melvin Jerome "Mel" Blanc spoke.', 'Jerome "Mel', 'Jerome "Mel"'),
        ('Melvin Jerome "Mel" Blanc spoke.', '" Blanc', "Blanc"),
        ('Melvin Jerome "Mel" Blanc spoke.', 'Jerome "Mel" Blanc', 'Jerome "Mel" Blanc'),
        ("It joined the alliance (NATO) early.", "the alliance (NATO", "alliance (NATO)"),
        ("It joined the alliance (NATO) early.", "NATO)", "(NATO)"),
        ('He said "yes" and "no', '"yes" and "', '"yes" and'),
        ("It has parts (a) and b) only.", "(a) and b)", "(a) and b"),
        ("It is in Washington, D.C. today.", "Washington, D.C", "Washington, D.C."),
        ("It is rich in vitamin K. So is kale.", "vitamin K", "vitamin K"),
        ("He wrote “War and Peace” then.", "War and Peace”", "“War and Peace”"),
    ],
)
def test_an_answer_has_no_article_and_no_mark_without_its_partner(text: str, marked: str, shown: str) -> None:
    body = Wordpieces.default().encode([text])[0]
    start = text.rindex(marked) if marked == "a" else text.index(marked)
    first = next(i for i, (begin, _) in enumerate(body.offsets) if begin == start)
    last = next(i for i, (_, end) in enumerate(body.offsets) if end == start + len(marked))
    length = len(body.ids)
    logits_LM = torch.full((length, length), -torch.inf)
    for at in range(length):
        logits_LM[at, : length - at] = -20.0
    logits_LM[first, last - first] = 5.0
    block = Block(0, "1", "Title", text, 0, 0, len(text), "", "")
    (read,) = unconcluded("?", [ReadBlock(block, body, 1.0, logits_LM)], "block+null").evidence
    best = read.candidates[0]
    assert (best.text, read.text[best.start : best.end]) == (shown, shown)


@given(st.text('ab "().', min_size=1, max_size=12), st.data())
def test_what_is_displayed_is_within_the_text_and_has_the_span_s_words(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    first, last = displayed(text, start, end)
    assert 0 <= first <= last <= len(text)
    words = [character for character in text[start:end] if character in "ab"]
    shown = [character for character in text[first:last] if character in "ab"]
    article = text[start:end].lstrip().startswith("a ")
    assert shown == words or (article and shown == words[1:])
