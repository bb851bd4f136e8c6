"""What the benchmark's figures are made of: rounds, ratios, percentiles."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.askers import Asked, Askers, Change
from benchmarks.deploy import Round, _figures, _windows
from benchmarks.load import figures, growth, report
from benchmarks.load import ratios as load_ratios
from benchmarks.rounds import latencies, ratios, run_rounds, summary
from benchmarks.windows import Window, Windows, share_longer


def test_every_contestant_works_once_a_round_and_the_order_turns() -> None:
    order: list[str] = []
    results = run_rounds({name: lambda name=name: order.append(name) or len(order) for name in "ab"}, 3)  # type: ignore[misc]
    assert "".join(order) == "abbaab"
    assert results == {"a": [1, 4, 5], "b": [2, 3, 6]}


def test_a_ratio_is_taken_within_its_round() -> None:
    assert ratios([4.0, 9.0, 10.0], [2.0, 3.0, 10.0]) == {"median": 2.0, "low": 1.0, "high": 3.0}
    assert summary([3.0, 1.0]) == {"median": 2.0, "low": 1.0, "high": 3.0}


def a_round(random: np.random.Generator, *, windows: int, slow_of_changes: float = 0.0) -> Windows:
    """Rests and a fifth as many changes, ten questions each; some windows are slow as a whole."""

    def window(slow: float) -> Window:
        return random.exponential(100.0, 10) + 500.0 * (random.random() < slow)

    return Windows(
        [window(0.02) for _ in range(windows)], [window(0.02 + slow_of_changes) for _ in range(windows // 5)]
    )


@pytest.mark.nightly
def test_changes_that_change_nothing_are_told_from_those_that_do() -> None:
    random = np.random.default_rng(1)
    told = [share_longer([a_round(random, windows=60) for _ in range(3)], draws=100) for _ in range(30)]
    assert sum(one["low"] <= 0.01 <= one["high"] for one in told) >= 24  # an interval of 95 % of few windows is narrow
    assert 0.3 < np.mean([one["by_chance"] for one in told]) < 0.7
    told = [
        share_longer([a_round(random, windows=60, slow_of_changes=0.3) for _ in range(3)], draws=100) for _ in range(10)
    ]
    assert all(one["low"] > 0.01 and one["by_chance"] < 0.05 for one in told)


def test_chance_takes_windows_for_changes_whatever_they_are() -> None:
    random = np.random.default_rng(1)
    told = a_round(random, windows=60)
    mixed = told.mixed(random)
    assert (len(mixed.usual), len(mixed.changed)) == (len(told.usual), len(told.changed))
    assert {id(one) for one in [*mixed.usual, *mixed.changed]} == {id(one) for one in [*told.usual, *told.changed]}
    assert {id(one) for one in mixed.changed} != {id(one) for one in told.changed}


def test_windows_of_rests_and_of_changes_are_as_long_as_each_other() -> None:
    askers = Askers(lambda question: (201, "x"), [], 0)
    for second in range(20):
        askers._asked.append(Asked(at=second + 0.5, took_ms=float(second), status=201, answered_by="x"))
    changes = [Change(at, 1.0, until_all_s, (), 0) for at, until_all_s in ((6.0, 1.0), (15.0, 3.0))]
    told = _windows(askers, [(0.0, 6.0), (9.0, 15.0)], changes, 3.0)
    assert [window.tolist() for window in told.usual] == [[0, 1, 2], [3, 4, 5], [9, 10, 11], [12, 13, 14]]
    assert [window.tolist() for window in told.changed] == [[6, 7, 8], [15, 16, 17]]


def test_who_waited_because_of_a_deployment_is_told_by_the_rests_of_the_same_round() -> None:
    def one(usual_ms: float, *meanwhile_ms: float) -> Round:
        usual = np.array([usual_ms] * 99 + [2 * usual_ms])
        return Round([Change(0.0, 1.0, 2.0, (), 0)], Windows([usual], [np.array(meanwhile_ms)]))

    told = _figures([one(100.0, 150.0, 201.0), one(300.0, 201.0, 599.0, 601.0, 700.0)])
    assert [row["changes"][0]["longer_than_usual_p99"] for row in told["rounds"]] == [1, 2]
    assert told["meanwhile"]["longer_than_usual_p99"] == 3 and told["meanwhile"]["share"]["share"] == 0.5
    assert told["meanwhile"]["share_of_rounds"] == {"median": 0.5, "low": 0.5, "high": 0.5}


def test_windows_hold_who_was_under_way_in_them() -> None:
    askers = Askers(lambda question: (201, "x"), [], 0)
    for at, took_s in [(0.0, 0.5), (0.9, 0.2), (1.5, 0.1), (2.9, 0.3), (3.5, 0.1)]:
        askers._asked.append(Asked(at=at, took_ms=took_s * 1e3, status=201, answered_by="x"))

    def told(start: float, end: float, length_s: float) -> list[list[float]]:
        return [[one.at for one in window] for window in askers.windows(start, end, length_s)]

    assert told(0.2, 3.2, 1.0) == [[0.0, 0.9], [1.5], [2.9]]
    assert told(0.0, 3.0, 1.0) == [[0.0, 0.9], [0.9, 1.5], [2.9]]  # 0.9 is under way across 1.0
    assert told(0.0, 3.3, 2.0) == [[0.0, 0.9, 1.5]]
    assert told(1.0, 3.3, 9.0) == []


@pytest.mark.parametrize(("count", "p50", "p95"), [(1, 1.0, 1.0), (20, 10.0, 19.0), (100, 50.0, 95.0)])
def test_percentiles_are_times_that_were_measured(count: int, p50: float, p95: float) -> None:
    times_ms = [float(number) for number in range(count, 0, -1)]
    assert latencies(times_ms) == {"p50_ms": p50, "p95_ms": p95}


def asked(times: list[float], took_ms: float = 100.0, status: int = 201) -> list[Asked]:
    """Questions that ended at these times."""
    return [Asked(at=end - took_ms / 1e3, took_ms=took_ms, status=status, answered_by="x") for end in times]


def test_the_rate_is_of_answers_alone_and_refusals_are_told_apart() -> None:
    first = asked([1.0, 2.0, 3.0]) + asked([1.5], status=503) + asked([1.7], status=500)
    second = asked([1.0, 1.5, 2.0, 2.5, 3.0], took_ms=300.0)
    told = figures(first + second, [first, second])
    assert (told["questions"], told["refused"], told["failed"]) == (10, 1, 1)
    assert told["questions_per_s"] == {"median": 1.5, "low": 1.0, "high": 2.0}
    assert (told["p50_ms"], told["p99_ms"]) == (300.0, 300.0) and told["mean_ms"] == 225.0


def test_ratios_are_of_what_was_measured() -> None:
    def rate(value: float) -> dict[str, object]:
        return figures(asked([0.0, 1 / value]), [asked([0.0, 1 / value])])

    results = {"askers": {"1": rate(10.0), "8": rate(12.0), "32": rate(14.0)}, "peer": None, "memory": []}
    assert load_ratios(results) == {"32 to 1": pytest.approx(1.4)}
    results["peer"] = rate(4.0)
    assert load_ratios(results) == {"32 to 1": pytest.approx(1.4), "to the peer": pytest.approx(3.0)}
    table = report({**results, "repeats": rate(50.0), "ratios": load_ratios(results), "memory_growth": 0.07})
    assert "to the peer: 3.00 times (target 2.0, reached)" in table and "8, Haystack" in table
    assert "+7.0% (target at most 5%, missed)" in table


def test_memory_grows_from_a_fifth_of_the_questions_on() -> None:
    used = {500: 400.0, 1000: 500.0, 2000: 600.0, 5000: 630.0}
    told = [{"questions": n, "memory_mib": {"answering_process": mib}} for n, mib in used.items()]
    assert growth(told) == pytest.approx(630 / 500 - 1)
    assert growth([{"questions": 5, "memory_mib": None}]) is None


@pytest.mark.parametrize("shift", [0.0, 0.3, 0.7, 0.95])
def test_a_rate_does_not_depend_on_where_among_the_batches_one_begins_to_look(shift: float) -> None:
    """Sixteen answers a second, all of a second at once; looked at for thirty seconds and some."""
    run = asked([float(batch) for batch in range(60) for _ in range(16) if 10 + shift <= batch <= 40.5 + shift])
    assert figures(run, [run])["questions_per_s"]["median"] == pytest.approx(16, rel=0.005)
