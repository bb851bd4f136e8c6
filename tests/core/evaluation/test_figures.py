"""Figures of many predictions, what a probability is worth, and the diagram of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from realm_core.errors import RealmError
from realm_core.evaluation.calibration import Bin, Reliability
from realm_core.evaluation.chart import reliability_diagram
from realm_core.evaluation.figures import summarise
from tests.core.evaluation.material import prediction


def reliability(probabilities: Sequence[float], right: Sequence[bool], bins: int = 10) -> tuple[list[Bin], float]:
    """The bins that are not empty, and the expected calibration error."""
    counts = Reliability(bins)
    for probability, is_right in zip(probabilities, right, strict=True):
        counts.add(probability, is_right)
    return counts.bins(), counts.error()


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=50), st.integers(1, 12))
def test_calibration_error_is_the_weighted_distance_of_the_bins(pairs: list[tuple[float, bool]], bins: int) -> None:
    table, error = reliability([p for p, _ in pairs], [right for _, right in pairs], bins)
    assert sum(row.count for row in table) == len(pairs)
    wanted = 0.0
    for number in range(bins):
        inside = [
            (p, right)
            for p, right in pairs
            if number / bins <= p < (number + 1) / bins or (p == 1.0 and number == bins - 1)
        ]
        # len(inside) / n · |mean p − mean right|, with the means' denominators cancelled
        wanted += abs(math.fsum(p for p, _ in inside) - sum(right for _, right in inside)) / len(pairs)
    assert error == pytest.approx(wanted, abs=1e-9)


@given(st.lists(st.tuples(st.sampled_from([0.05, 0.35, 0.65, 0.95]), st.booleans()), min_size=1, max_size=40))
def test_auc_is_the_share_of_pairs_told_apart(pairs: list[tuple[float, bool]]) -> None:
    counts = Reliability()
    for probability, is_right in pairs:
        counts.add(probability, is_right)
    both = [(p > q) + (p == q) / 2 for p, right in pairs if right for q, other in pairs if not other]
    assert counts.auc() == (pytest.approx(sum(both) / len(both)) if both else None)
    assert counts.selective(1.0) == pytest.approx(sum(right for _, right in pairs) / len(pairs))


def test_silence_is_right_where_there_is_no_answer() -> None:
    """As in SQuAD 2.0; the confidence in the candidate is wrong there, whether it was given or not."""
    asked = [
        prediction(True, 0.9, rank=1),
        prediction(True, 0.2, given_answer=False, rank=7),
        prediction(True, 0.1, given_answer=False, rank=None, answers=()),
        prediction(False, 0.8, rank=None, answers=()),
        prediction(True, 0.1, given_answer=False, rank=None, answers=()),
    ]
    figures = summarise(asked)
    assert (figures.n, figures.unanswerable, figures.answered_unanswerable) == (5, 3, pytest.approx(1 / 3))
    assert (figures.exact_match, figures.exact_match_given) == (pytest.approx(4 / 5), pytest.approx(3 / 5))
    assert (figures.withheld, figures.recall[1], figures.recall[20]) == (0.5, 0.5, 1.0)  # of the two with an answer
    assert figures.auc == pytest.approx((3 + 2) / 6)  # .9 is above all three that are wrong, .2 above two
    assert figures.selective[0.8] == pytest.approx(2 / 4)
    of_the_others = summarise(asked[:2])
    assert (of_the_others.unanswerable, of_the_others.answered_unanswerable) == (0, None)
    assert "unanswerable" not in of_the_others.as_dict()
    silent_alone = summarise(asked[2:3])
    assert (silent_alone.exact_match, silent_alone.answered_unanswerable) == (1.0, 0.0)
    assert not any(name.startswith(("recall", "withheld", "exact_match@")) for name in silent_alone.as_dict())


def test_an_answer_within_a_longer_candidate_is_told_apart() -> None:
    """CuratedTREC's expressions match from the first word; other answers match as a whole."""
    asked = [
        replace(prediction(False, 0.9, rank=1, answers=("Everest",)), prediction="Mount Everest", answer_type="regex"),
        replace(prediction(False, 0.9, rank=1, answers=("Rome",)), prediction="Rome, Italy"),
        replace(prediction(False, 0.9, rank=1, answers=("York",)), prediction="Yorkshire"),
        prediction(True, 0.9, rank=1),
    ]
    figures = summarise(asked)
    assert (figures.exact_match, figures.contains_answer) == (0.25, 0.75)
    assert figures.as_dict()["contains_answer"] == 0.75


def test_the_surest_half_is_looked_at_alone() -> None:
    counts = Reliability()
    for probability, is_right in ((0.95, True), (0.85, True), (0.25, False), (0.15, True)):
        counts.add(probability, is_right)
    assert counts.selective(0.5) == 1.0 and counts.selective(0.75) == pytest.approx(2 / 3)


def test_the_calibration_error_is_0_where_confidence_equals_accuracy() -> None:
    _, error = reliability([0.25] * 4 + [0.85] * 20, [True] + [False] * 3 + [True] * 17 + [False] * 3)
    assert error == pytest.approx(0.0, abs=1e-9)
    _, error = reliability([1.0] * 4, [True, False, False, False])
    assert error == pytest.approx(0.75)


def test_nothing_has_no_error() -> None:
    assert (Reliability().bins(), Reliability().error()) == ([], 0.0)


def test_a_summary_counts_what_was_right_given_and_found() -> None:
    figures = summarise(
        iter(
            [
                prediction(True, 0.9, rank=1, ms=1.0),
                prediction(True, 0.2, given_answer=False, rank=4, ms=2.0),
                prediction(False, 0.7, rank=None, ms=3.0),
                prediction(False, 0.1, given_answer=False, rank=100, ms=6.0),
            ]
        )
    )
    assert (figures.n, figures.exact_match, figures.exact_match_given, figures.withheld) == (4, 0.5, 0.25, 0.5)
    assert figures.recall == {1: 0.25, 5: 0.5, 20: 0.5, 100: 0.75}
    assert figures.ece == pytest.approx((0.1 + 0.8 + 0.7 + 0.1) / 4)
    assert figures.ms == 3.0
    shown = figures.as_dict()
    assert (shown["recall@100"], shown["ms_per_question"]) == (0.75, 3.0)
    assert shown["reliability"] == [
        {"low": 0.1, "high": 0.2, "count": 1, "mean_probability": 0.1, "share_right": 0.0},
        {"low": 0.2, "high": 0.3, "count": 1, "mean_probability": 0.2, "share_right": 1.0},
        {"low": 0.7, "high": 0.8, "count": 1, "mean_probability": 0.7, "share_right": 0.0},
        {"low": 0.9, "high": 1.0, "count": 1, "mean_probability": 0.9, "share_right": 1.0},
    ]


def test_nothing_cannot_be_summarised() -> None:
    with pytest.raises(RealmError, match="no predictions"):
        summarise([])


def test_the_diagram_shows_every_bin_once(tmp_path: Path) -> None:
    bins, error = reliability([0.05, 0.31, 0.33, 0.97, 1.0], [False, True, False, True, True])
    assert len(bins) == 3
    drawing, again = tmp_path / "drawing.svg", tmp_path / "again.svg"
    for path in (drawing, again):
        reliability_diagram(path, bins, title="mini on <dev> & test", error=error)
    root = ElementTree.parse(drawing).getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    ids = [element.get("id", "") for element in root.iter()]
    for kind in ("right", "dot", "count"):
        assert sorted(i for i in ids if i.startswith(f"{kind}-")) == [f"{kind}-{number}" for number in range(3)]
    texts = "".join(root.itertext())
    assert "mini on <dev> & test" in texts and "5 answers" in texts and f"{error:.3f}" in texts
    assert "confidence in the answer" in texts and "probability" not in texts
    assert drawing.read_bytes() == again.read_bytes()  # the same figures are the same file


def test_a_diagram_that_cannot_be_written_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", full)
    with pytest.raises(RealmError, match="is full"):
        reliability_diagram(tmp_path / "x.svg", [], title="x", error=0.0)
