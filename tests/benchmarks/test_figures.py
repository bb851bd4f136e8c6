"""What the benchmark's figures are made of: rounds, ratios, percentiles."""

from __future__ import annotations

import pytest

from benchmarks.rounds import latencies, ratios, run_rounds, summary


def test_every_contestant_works_once_a_round_and_the_order_turns() -> None:
    order: list[str] = []
    results = run_rounds({name: lambda name=name: order.append(name) or len(order) for name in "ab"}, 3)  # type: ignore[misc]
    assert "".join(order) == "abbaab"
    assert results == {"a": [1, 4, 5], "b": [2, 3, 6]}


def test_a_ratio_is_taken_within_its_round() -> None:
    assert ratios([4.0, 9.0, 10.0], [2.0, 3.0, 10.0]) == {"median": 2.0, "low": 1.0, "high": 3.0}
    assert summary([3.0, 1.0]) == {"median": 2.0, "low": 1.0, "high": 3.0}


@pytest.mark.parametrize(("count", "p50", "p95"), [(1, 1.0, 1.0), (20, 10.0, 19.0), (100, 50.0, 95.0)])
def test_percentiles_are_times_that_were_measured(count: int, p50: float, p95: float) -> None:
    times_ms = [float(number) for number in range(count, 0, -1)]
    assert latencies(times_ms) == {"p50_ms": p50, "p95_ms": p95}
