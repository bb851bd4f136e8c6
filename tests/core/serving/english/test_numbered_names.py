"""A block whose title has a name of the question with another number counts for less."""

from __future__ import annotations

import pytest
import torch

from realm_core.corpus.records import Block
from realm_core.serving.english.numbered_names import NumberedNames
from realm_core.serving.english.rules import Rules
from realm_core.serving.english.unknown_words import DOUBT
from realm_core.text.wordpieces import Wordpieces


@pytest.mark.parametrize(
    ("question", "title", "differs"),
    [
        ("In which year did Nicholas I become Emperor of Russia?", "Nicholas II", True),
        ("In which year did Nicholas I become Emperor of Russia?", "Nicholas I of Russia", False),
        ("In which year did Nicholas I become Emperor of Russia?", "Alexander II of Russia", False),
        ("In which year did Nicholas become Emperor?", "Nicholas II", False),
        ("when did henry viii marry", "Henry IV of France", True),
        ("when did henry 8 marry", "Henry VIII of England", False),
        ("Who commanded Apollo 13?", "Apollo 11", True),
        ("What came between World War I and World War II?", "World War II", False),
        ("Did World War I follow?", "Eastern Front (World War II)", True),
        ("Who was pope in the year 1000?", "Year 2000", False),
        ("Which king ruled?", "Louis XIV", False),
    ],
)
def test_titles_with_another_number(question: str, title: str, differs: bool) -> None:
    assert NumberedNames.of(question).differ_from(title) is differs


def test_such_a_block_is_doubted() -> None:
    text = "He became emperor in 1894."
    [body] = Wordpieces.default().encode([text])
    logits_LM = torch.zeros(len(body.offsets), 3)
    rules = Rules.of("When did Nicholas I become emperor?")
    blocks = [Block(0, "0" * 32, title, text, 0, 0, len(text), "", "") for title in ("Nicholas II", "Nicholas I")]
    other, own = (rules.applied(logits_LM, block, body) for block in blocks)
    assert own.equal(logits_LM) and other.equal(logits_LM - DOUBT)
