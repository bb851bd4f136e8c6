"""Which of the nearest blocks count as right, and which are unclear."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from realm_core.corpus.store import Snapshot
from realm_core.errors import Stopped
from realm_core.questions.question_file import Question
from realm_core.runs.activity import Activity
from realm_core.training.nearest import Nearest, NearestBlocks
from tests.core.running import Stopping
from tests.tiny import tiny_snapshot

ARTICLES = {
    "Mars": "Mars has two moons.",
    "Moons": "Two moons are few; Jupiter has 95.",
    "Venus": "Venus has no moon.",
    "Twins": "Castor and Pollux are two.",
}


class _InOrder:
    """Finds the blocks in their order, whatever is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def search(self, questions: Sequence[str], k: int) -> tuple[list[list[int]], list[list[float]]]:
        return self.rows(questions, k), [[0.0] * k for _ in questions]

    def rows(self, questions: Sequence[str], k: int) -> list[list[int]]:
        self.asked += len(questions)
        return [list(range(k)) for _ in questions]


@pytest.fixture
def snapshot(tmp_path: Path) -> Snapshot:
    return Snapshot.open(tiny_snapshot(tmp_path, ARTICLES))


def nearest(
    snapshot: Snapshot, question: Question, folder: Path, *, excluded: str = "", right_within: int = 3
) -> tuple[list[str], list[str]]:
    """Titles of the right and of the unclear blocks."""
    blocks = NearestBlocks(_InOrder(), snapshot, frozenset({excluded} - {""}), right_within=right_within, competing=100)
    found = blocks.of([question], folder / "kept", Activity(quiet=True), "blocks")
    titles = [snapshot.block(row).title for row in found.rows_QC[0].tolist()]
    assert sorted(titles) == sorted(ARTICLES)  # no more than there are
    chosen = [
        [title for title, flag in zip(titles, flags, strict=True) if flag]
        for flags in (found.right_QC[0].tolist(), found.unclear_QC[0].tolist())
    ]
    return chosen[0], chosen[1]


def test_a_match_is_right_among_the_very_nearest_alone(snapshot: Snapshot, tmp_path: Path) -> None:
    question = Question("how many?", ("Two!",))
    assert nearest(snapshot, question, tmp_path) == (["Mars", "Moons"], ["Twins"])


def test_a_match_in_another_article_than_the_named_is_unclear(snapshot: Snapshot, tmp_path: Path) -> None:
    question = Question("how many?", ("two", "95"), title="mars")
    assert nearest(snapshot, question, tmp_path) == (["Mars"], ["Moons", "Twins"])


def test_an_excluded_article_is_neither_right_nor_wrong(snapshot: Snapshot, tmp_path: Path) -> None:
    question = Question("how many?", ("two",))
    assert nearest(snapshot, question, tmp_path, excluded="venus") == (["Mars", "Moons"], ["Venus", "Twins"])
    other = tmp_path / "other"
    other.mkdir()
    assert nearest(snapshot, question, other, excluded="moons") == (["Mars"], ["Moons", "Twins"])


def test_an_expression_is_searched_for(snapshot: Snapshot, tmp_path: Path) -> None:
    question = Question("how many?", (r"\d+|no\b",), answer_type="regex")
    assert nearest(snapshot, question, tmp_path) == (["Moons", "Venus"], [])


def test_a_part_of_a_word_is_no_match(snapshot: Snapshot, tmp_path: Path) -> None:
    assert nearest(snapshot, Question("what?", ("moon",)), tmp_path) == (["Venus"], [])


def test_what_was_found_before_a_stop_is_not_searched_for_again(
    snapshot: Snapshot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("realm_core.training.nearest._QUESTIONS_A_FILE", 4)
    monkeypatch.setattr("realm_core.training.nearest._QUESTIONS_AT_ONCE", 2)
    questions = [Question(f"how many {number}?", ("two", str(number))) for number in range(10)]
    stopping, retriever = Stopping(4), _InOrder()

    def found(activity: Activity, kept: str) -> Nearest:
        blocks = NearestBlocks(retriever, snapshot, frozenset(), right_within=3, competing=4)
        return blocks.of(questions, tmp_path / kept, activity, "blocks")

    with pytest.raises(Stopped):
        found(stopping, "kept")
    assert retriever.asked == 8
    again = found(Activity(quiet=True), "kept")
    assert retriever.asked == 8 + 2  # two whole files of four were kept
    whole = found(Activity(quiet=True), "other")
    for name in ("rows_QC", "right_QC", "unclear_QC"):
        assert getattr(again, name).equal(getattr(whole, name))
    assert len(again) == len(questions) and again.of([3]).rows_QC.equal(whole.rows_QC[3:4])
