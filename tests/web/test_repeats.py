"""Exact repeats: kept for a while, and not too many."""

from __future__ import annotations

import pytest

from webapp.serving import repeats
from webapp.serving.repeats import Repeats


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr(repeats.time, "monotonic", lambda: now[0])
    return now


def test_what_is_old_is_forgotten(clock: list[float]) -> None:
    kept: Repeats[str] = Repeats(60)
    kept.put("a", "1")
    clock[0] += 59
    assert kept.get("a") == "1"
    clock[0] += 1
    assert kept.get("a") is None and kept.get("b") is None


def test_the_least_recently_used_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeats, "MOST", 3)
    kept: Repeats[int] = Repeats(60)
    for number in range(5):
        kept.put(number, number)
        kept.get(0)
    assert [kept.get(number) for number in range(5)] == [0, None, None, 3, 4]


def test_with_0_seconds_nothing_is_kept() -> None:
    kept: Repeats[int] = Repeats(0)
    kept.put("a", 1)
    assert kept.get("a") is None
