"""The benchmark of approximate search runs at a tiny size, and goes on with what is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import any_size


@pytest.mark.nightly  # core/index/test_approximate.py has the search itself
def test_it_measures_and_goes_on(tmp_path: Path) -> None:
    figures = any_size.measure(3_000, tmp_path, 1)
    assert figures["recall"] >= 0.98 and figures["questions"] > 100 and figures["p50_ms"] > 0
    assert figures["bytes"]["vectors"] > 3_000 * 512 and figures["resident_mib"] > 0
    before = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    again = any_size.measure(3_000, tmp_path, 1)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before
    assert (again["recall"], again["build_s"]) == (figures["recall"], figures["build_s"])


@pytest.mark.nightly
def test_it_measures_among_some_of_the_blocks(tmp_path: Path) -> None:
    figures = any_size.measure(3_000, tmp_path, 1, allowed=0.1)
    assert figures["recall"] >= 0.98 and figures["allowed"] == 0.1
