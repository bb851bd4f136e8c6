"""Questions that name their answers: which are, and that nothing else answers them."""

from __future__ import annotations

import pytest
import torch

from realm_core.corpus.records import Block
from realm_core.serving.english.choices import Choices
from realm_core.serving.english.rules import PENALTY, Rules
from realm_core.serving.english.whole_answers import WholeAnswer
from realm_core.text.wordpieces import Wordpieces


@pytest.mark.parametrize(
    ("question", "options"),
    [
        ("Is a bat a bird or a mammal?", ("bird", "mammal")),
        ("is pluto a planet or a dwarf planet", ("planet", "dwarf planet")),
        ("Which is longer, the Nile or the Danube?", ("nile", "danube")),
        ("which is older rome or athens", ("rome", "athens")),
        ("Which sea did he explore: the Red Sea, the Black Sea or the Aral Sea?", ("red sea", "black sea", "aral sea")),
        ("nobel prize for what, peace or physics", ("peace", "physics")),
        ("barentsz dutch or german", ("dutch", "german")),
        ("bertrand russell was he english or scottish", ("english", "scottish")),
    ],
)
def test_choices(question: str, options: tuple[str, ...]) -> None:
    assert Choices.of(question).options == options


@pytest.mark.parametrize(
    "question",
    [
        "",
        "Where is the Nile?",
        "What are birds kept for meat, eggs or feathers called?",
        "What is the word for birds kept for meat, eggs or feathers?",
        "Which device tracks particles from cosmic rays or an accelerator?",
        "What is it called when a person has only one spouse or partner?",
        "Should I study law or medicine?",
        "are adders poisonous or what",
        "What is a shrimp: a fish, an insect or something else?",
        "is my flight booked or not",
        'Who said "to be or not to be"?',
        "ghana empire also called wagadu or",
    ],
)
def test_other_questions(question: str) -> None:
    assert Choices.of(question).options == ()


@pytest.mark.parametrize("before", ["", "½ of it … "])  # which become longer where accents go
def test_only_spans_with_one_option_answer(before: str) -> None:
    text = f"{before}The White Nile joins the Blue Nile, not the Danube."
    block = Block(0, "0" * 32, "Nile", text, 0, 0, len(text), "", "")
    [body] = Wordpieces.default().encode([text])
    longest = 16
    lowered_LM = Rules.of("Which is longer, the Nile or the Danube?").applied(
        torch.zeros(len(body.offsets), longest), block, body
    )
    free = {
        text[start : body.offsets[first + extent][1]]
        for first, (start, _) in enumerate(body.offsets)
        for extent in range(min(longest, len(body.offsets) - first))
        if lowered_LM[first, extent] == 0
    }
    assert {"Nile", "White Nile", "The White Nile joins", "Danube", "the Danube"} <= free
    assert not {"White", "Blue", "Nile, not the Danube"} & free
    assert set(lowered_LM.unique().tolist()) == {0.0, -PENALTY}


@pytest.mark.parametrize(
    ("question", "marked", "shown"),
    [
        ("Which is longer, the Nile or the Danube?", "White Nile", "Nile"),
        ("Is a bat a bird or a mammal?", "winged mammals", "mammals"),
        ("is pluto a planet or a dwarf planet", "dwarf planet", "dwarf planet"),
        ("Is it a planet or a star?", "dwarf planet", "planet"),
        ("What is Pluto?", "dwarf planet", "dwarf planet"),
        ("Is a bat a bird or a mammal?", "neither mammal nor bird", "neither mammal nor bird"),
        # Characters that become several or none without accents and capitals.
        ("Which is longer, the Nile or the Danube?", "½ … of the Nile’s", "Nile"),
        ("Is it Malmö or Lund?", "Cafe\u0301s of Malmo\u0308", "Malmo\u0308"),
        ("Which is older, Rome or İzmir?", "İİ of ﬁne Rome", "Rome"),
    ],
)
def test_the_option_is_displayed(question: str, marked: str, shown: str) -> None:
    text = f"It is one of the {marked} there."
    start = text.index(marked)
    first, last = WholeAnswer.of(question).around(text, start, start + len(marked), None)
    assert text[first:last] == shown
