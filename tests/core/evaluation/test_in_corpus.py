"""Blocks that hold an answer are found by narrowing articles down, and are those that looking at each finds."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from realm_core.corpus.store import Snapshot
from realm_core.evaluation import in_corpus as module
from realm_core.evaluation.in_corpus import blocks_holding, in_corpus
from realm_core.questions.answers import holds_answer
from tests.tiny import tiny_snapshot

TEXTS = [
    "Antonín Dvořák wrote it – an ‘opera’ in 1999–2000. The U.S.-led tour, however, was a failure.",
    "ANTONI\u0301N DVOR\u030cA\u0301K (decomposed) met Spider-Man: he was \u212aelvin's friend.",
    "W is tungsten. “the Mass, in B-minor” was à la carte. Москва и Ёлка.",
    "W2 is no tungsten; Massinb is no mass. t.h.e end of it_all.",
    "Kelvin was born in 1824, or in 18\u0662\u0664; on Oct. 12 he was not.",
    "Mass\nthe the an B minor, again: in-B minor.",
    "the x á y; Béa Smith",
]


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    articles = {f"Title {number}": text for number, text in enumerate(TEXTS)}
    return Snapshot.open(tiny_snapshot(tmp_path_factory.mktemp("corpus"), articles))


def slowly(snapshot: Snapshot, answers: Sequence[str], answer_type: str = "string") -> list[int]:
    return [row for row in range(len(snapshot)) if holds_answer(snapshot.block(row).text, answers, answer_type)]


@pytest.mark.parametrize(
    "answer",
    [
        *("Dvořák", "Dvor\u030ca\u0301k", "spider man", "Spiderman", "US", "U.S. led", "Kelvin", "kelvins", "W", "w2"),
        *("Mass in B minor", "mass B minor", "the", "", "Москва", "Ёлка", "1999–2000", "à la carte", "la carte"),
        *("x y", "x \u0301 y", "Béa Smith", "be\u0301", "end of itall", "the end", "(", "a", "B-minor", "– opera"),
    ],
)
def test_as_if_every_block_had_been_looked_at(snapshot: Snapshot, answer: str) -> None:
    for answers in ([answer], [answer, "Dvořák wrote"], ["nowhere to be found", answer]):
        rows = [block.row for block in blocks_holding(snapshot, answers)]
        assert rows == slowly(snapshot, answers)
        assert in_corpus(snapshot, answers) == bool(rows)


def test_whatever_stands_in_a_text_is_found_in_it(snapshot: Snapshot) -> None:
    draw = random.Random(3)
    for _ in range(300):
        words = draw.choice(TEXTS).split()
        first = draw.randrange(len(words))
        answer = " ".join(words[first : first + draw.randint(1, 4)])
        assert [block.row for block in blocks_holding(snapshot, [answer])] == slowly(snapshot, [answer]), answer


@pytest.mark.parametrize(
    ("expression", "narrows"),
    [
        (r"18\d\d", True),
        (r"Oct(ober)?\.?\s+12", True),
        ("kelvin|tungsten", True),
        (r"\bW\b", False),
        ("a*+b", False),
        ("[KW]", False),
        ("(?<=is )tungsten", False),
        ("^Kelvin", False),
    ],
)
def test_expressions(snapshot: Snapshot, expression: str, narrows: bool) -> None:
    assert (module._expressions([expression]) is not None) == narrows
    rows = [block.row for block in blocks_holding(snapshot, [expression], "regex")]
    assert rows == slowly(snapshot, [expression], "regex")


def test_only_articles_that_may_hold_it_are_looked_at(snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    monkeypatch.setattr(module, "holds_answer", lambda text, *_: looked.append(text))
    assert not in_corpus(snapshot, ["tungsten"]) and len(looked) == 2
    assert not in_corpus(snapshot, ["nowhere", ""]) and len(looked) == 2
