"""Tables of several runs, and whether they differ by more than chance, against sums written out here."""

from __future__ import annotations

import itertools
import json
import math
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from realm_core.errors import RealmError
from realm_core.evaluation.compare import Run, labels, markdown
from realm_core.evaluation.figures import COVERAGE
from realm_core.evaluation.predictions import Header
from realm_core.evaluation.significance import mcnemar, paired_difference
from realm_core.evaluation.why import CAUSES, Why
from tests.core.evaluation.material import header, prediction, prediction_file
from tests.core.running import activity_of


@pytest.mark.parametrize(("first_only", "second_only"), list(itertools.product(range(8), repeat=2)))
def test_mcnemar_counts_the_throws_that_are_as_uneven(first_only: int, second_only: int) -> None:
    """By enumerating all throws of the coins."""
    throws = first_only + second_only
    uneven = abs(first_only - second_only)
    as_uneven = sum(abs(2 * sum(heads) - throws) >= uneven for heads in itertools.product((0, 1), repeat=throws))
    assert mcnemar(first_only, second_only) == pytest.approx(as_uneven / 2**throws)


def test_mcnemar_holds_for_many_questions() -> None:
    # the normal approximation, with the correction for continuity: z = (|b − c| − 1) / √(b + c) = 1.958
    assert mcnemar(2450, 2590) == pytest.approx(0.0502, abs=3e-4)
    assert mcnemar(5000, 5000) == 1.0
    assert mcnemar(0, 5000) == 0.0  # less than a float can tell


def test_the_interval_is_that_of_drawing_questions_again() -> None:
    draw = random.Random(1)
    outcomes = [(draw.random() < 0.4, draw.random() < 0.5) for _ in range(353)]
    difference = paired_difference(outcomes)
    steps = np.array([second - first for first, second in np.array(outcomes, dtype=int)])
    assert difference.difference == pytest.approx(steps.mean())
    assert (difference.first_only, difference.second_only) == (sum(steps == -1), sum(steps == 1))
    again = np.random.default_rng(5).choice(steps, (10_000, len(steps))).mean(axis=1)
    assert [difference.low, difference.high] == pytest.approx(np.percentile(again, [2.5, 97.5]), abs=4e-3)
    # and nearly the normal one
    assert difference.high - difference.low == pytest.approx(2 * 1.96 * steps.std() / len(steps) ** 0.5, rel=0.05)
    assert paired_difference(outcomes) == difference  # no chance in it
    swapped = paired_difference((second, first) for first, second in outcomes)
    assert (swapped.difference, swapped.p) == (-difference.difference, difference.p)


def test_a_difference_of_few_questions_may_be_chance() -> None:
    same = [(True, True)] * 20 + [(False, False)] * 20
    assert paired_difference([*same, (True, False), (False, True), (False, True)]).may_be_chance
    assert paired_difference([*same, *[(False, True)] * 5]).may_be_chance, "though the interval is above 0"
    assert not paired_difference([*same, *[(False, True)] * 6]).may_be_chance
    assert not paired_difference([*same, *[(True, False)] * 15]).may_be_chance


def test_runs_that_are_alike_do_not_differ() -> None:
    same = paired_difference([(True, True), (False, False)] * 50)
    assert (same.difference, same.low, same.high, same.p) == (0.0, 0.0, 0.0, 1.0)
    with pytest.raises(RealmError, match="no questions"):
        paired_difference([])


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Two runs on dev, of which the second is better, and the first's on another set."""
    dev = [prediction(number % 2 == 0, 0.5, rank=(1, 3, 30, None)[number % 4], ms=7.25) for number in range(40)]
    better = [prediction(number % 4 != 3, 0.75, rank=1, ms=9.0) for number in range(40)]
    sparse = header(40, retriever="bm25", index="bm25", score_scale=0.5)
    other = header(20, of="test|set", questions="hash-of-test")
    return [
        prediction_file(tmp_path / "dev.jsonl", header(40), dev),
        prediction_file(tmp_path / "bm25.jsonl", sparse, better),
        prediction_file(tmp_path / "test.jsonl", other, dev[:20]),
    ]


def test_the_tables_hold_every_run_once(files: list[Path]) -> None:
    assert (
        markdown([Run.of(path) for path in files])
        == """\
Exact match, %

| run | dev (40) | test\\|set (20) |
| --- | ---: | ---: |
| mini, dense | 50.0 | 50.0 |
| mini, bm25, score scale 0.5 | 75.0 |  |

dev, 40 questions

| run | EM % | R@1 % | R@5 % | R@20 % | R@100 % | ECE | ms | EM − first [95 %] | p | R@5 − first [95 %] | p |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
| mini, dense | 50.0 | 25.0 | 50.0 | 50.0 | 75.0 | 0.000 | 7.2 |  |  |  |  |
| mini, bm25, score scale 0.5 | 75.0 | 100.0 | 100.0 | 100.0 | 100.0 | 0.000 | 9.0 \
| +25.0 [+12.5, +40.0] | 0.002 | +50.0 [+35.0, +65.0] | 1.9e-06 |

test|set, 20 questions

| run | EM % | R@1 % | R@5 % | R@20 % | R@100 % | ECE | ms |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
| mini, dense | 50.0 | 25.0 | 50.0 | 50.0 | 75.0 | 0.000 | 7.2 |"""
    )


def test_compare_prints_the_tables_and_keeps_the_numbers(
    files: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    activity_of("compare", files, run=tmp_path / "run")
    assert capsys.readouterr().out.startswith("Exact match, %\n\n| run | dev (40) |")
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert [run["exact_match"] for run in result["runs"]] == [0.5, 0.75, 0.5]
    answered, found = result["differences"]
    assert {(one["first"], one["second"], one["n"]) for one in (answered, found)} == {
        (str(files[0]), str(files[1]), 40)
    }
    assert [one["figure"] for one in (answered, found)] == ["exact_match", "recall@5"]
    assert (answered["first_only"], answered["second_only"]) == (0, 10)
    assert answered["p"] == pytest.approx(2 / 2**10)


def test_recall_is_compared_as_exact_match_is(tmp_path: Path) -> None:
    """By drawing questions again, and by an exact binomial test; ranks of six and more count as not found."""
    draw = random.Random(3)
    ranks = [[draw.choice((1, 5, 6, 60, None)) for _ in range(211)] for _ in range(2)]
    first, second = (
        Run.of(prediction_file(tmp_path / f"{number}.jsonl", header(211), [prediction(rank=rank) for rank in own]))
        for number, own in enumerate(ranks)
    )
    difference = second.against(first, "recall@5")
    found = np.array([[rank in (1, 2, 3, 4, 5) for rank in own] for own in ranks], dtype=int)
    steps = found[1] - found[0]
    assert difference.difference == pytest.approx(second.figures.recall[5] - first.figures.recall[5])
    again = np.random.default_rng(7).choice(steps, (10_000, len(steps))).mean(axis=1)
    assert [difference.low, difference.high] == pytest.approx(np.percentile(again, [2.5, 97.5]), abs=6e-3)
    lost, won = int((steps == -1).sum()), int((steps == 1).sum())
    ways = sum(math.comb(lost + won, count) for count in range(min(lost, won) + 1))
    assert difference.p == pytest.approx(min(1.0, 2 * ways / 2 ** (lost + won)))
    assert second.against(first, "exact_match").difference == 0.0  # all are right


def explained(path: Path, causes: Sequence[str], **identity: Any) -> Path:
    """A run of which only why its answers are right or wrong matters."""
    predictions = [replace(prediction(cause in ("right", "withheld")), why=Why(cause)) for cause in causes]
    return prediction_file(path, header(len(causes), why=True, **identity), predictions)


def test_causes_are_counted_and_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = explained(tmp_path / "1.jsonl", ["right", "right", "misread", "not_in_corpus"])
    second = explained(tmp_path / "2.jsonl", ["right", "withheld", "outweighed", "not_retrieved"], k=8)
    silent = prediction_file(tmp_path / "3.jsonl", header(4, k=9), [prediction()] * 4)
    activity_of("compare", [first, second, silent], run=tmp_path / "run")
    assert capsys.readouterr().out.endswith(
        """
Why, %

| run | right | withheld | outweighed | misread | not retrieved | not in corpus |
| --- | ---: | ---: | ---: | ---: | ---: | ---: |
| mini, k 5 | 50.0 | 0.0 | 0.0 | 25.0 | 0.0 | 25.0 |
| mini, k 8 | 25.0 | 25.0 | 25.0 | 0.0 | 25.0 | 0.0 |
"""
    )
    counted = json.loads((tmp_path / "run" / "result.json").read_text())["runs"]
    assert counted[0]["why"] == dict.fromkeys(CAUSES, 0) | {"right": 2, "misread": 1, "not_in_corpus": 1}
    assert "why" not in counted[2]
    drawing = tmp_path / "why.svg"
    activity_of("compare", [first, second, first, "--why-plot", drawing])
    ids = [element.get("id", "") for element in ElementTree.parse(drawing).iter()]
    shares = [i for i in ids if i.startswith("share-")]
    assert shares == [f"share-{number}-{cause}" for number in range(3) for cause in CAUSES]
    text = drawing.read_text()
    assert "mini, k 8" in text and "not in corpus" in text and text.count("50%") >= 2
    with pytest.raises(RealmError, match=r"3\.jsonl has no causes"):
        activity_of("compare", [first, silent, "--why-plot", drawing])
    with pytest.raises(RealmError, match=r"must end in \.svg"):
        activity_of("compare", [first, "--why-plot", tmp_path / "why.png"])


def test_one_run_needs_no_more_than_its_models_name(files: list[Path]) -> None:
    assert labels([Run.of(files[0])]) == ["mini"]


def test_models_of_one_name_are_told_apart(tmp_path: Path) -> None:
    """By their hashes; of other names, the name says enough."""

    def called(*headers: object) -> list[str]:
        runs = []
        for number, head in enumerate(headers):
            path = prediction_file(tmp_path / f"{number}.jsonl", head, [prediction()])  # type: ignore[arg-type]
            runs.append(Run.of(path))
            path.unlink()
        return labels(runs)

    assert called(header(1), header(1, model="f" * 16)) == ["mini, model 0123456789abcdef", f"mini, model {'f' * 16}"]
    assert called(header(1), header(1, called="large", model="f" * 16)) == ["mini", "large"]
    assert called(header(1, k=5), header(1, k=8)) == ["mini, k 5", "mini, k 8"]


def test_options_are_named_where_a_run_has_them(tmp_path: Path) -> None:
    def called(*headers: Header) -> list[str]:
        runs = []
        for head in headers:
            path = prediction_file(tmp_path / "p.jsonl", head, [prediction()])
            runs.append(Run.of(path))
            path.unlink()
        return labels(runs)

    dense, typed = header(1, lexical_weight=0.5, spelling=True), header(1)
    bm25 = header(1, retriever="bm25", score_scale=0.5)
    assert called(dense, typed) == ["mini, lexical weight 0.5", "mini, lexical weight 0, as typed"]
    assert called(typed, dense) == ["mini, lexical weight 0, as typed", "mini, lexical weight 0.5"]
    assert called(dense, bm25) == ["mini, dense, lexical weight 0.5", "mini, bm25, score scale 0.5"]


def test_an_unfinished_run_is_refused(tmp_path: Path) -> None:
    path = prediction_file(tmp_path / "p.jsonl", header(3), [prediction()])
    with pytest.raises(RealmError, match="holds 1 of 3 predictions"):
        Run.of(path)


def test_samples_of_different_sizes_are_not_compared(tmp_path: Path) -> None:
    paths = [prediction_file(tmp_path / f"{n}.jsonl", header(n, sample=n), [prediction()] * n) for n in (2, 3)]
    text = markdown([Run.of(path) for path in paths])
    assert "dev, 2 questions" in text and "dev, 3 questions" in text and "EM − first" not in text


def test_curves_of_risk_and_coverage_have_a_panel_for_each_question_set(tmp_path: Path) -> None:
    """Of ten answers the five most confident are right: half of the questions are answered without a mistake."""
    answers = [prediction(number < 5, 0.95 - number / 20) for number in range(10)]
    run = Run.of(prediction_file(tmp_path / "1.jsonl", header(10), answers))
    assert dict(zip(COVERAGE, run.figures.covered, strict=True))[0.5] == 1.0
    assert (run.figures.covered[-1], run.figures.covered[0]) == (0.5, 1.0)
    assert list(run.figures.covered) == sorted(run.figures.covered, reverse=True)
    drawing = tmp_path / "coverage.svg"
    activity_of("compare", [run.path, "--coverage-plot", drawing])
    text = drawing.read_text()
    assert "(10), % right" in text and "the most confident first" in text
    with pytest.raises(RealmError, match=r"must end in \.svg"):
        activity_of("compare", [run.path, "--coverage-plot", tmp_path / "coverage.png"])
