"""The addresses of an edit are fetched a few at a time, each within its own time, and all within a longest one."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from uuid import UUID

import pytest

from webapp.documents import fetching
from webapp.documents.inputs import Address, DocumentInput, File
from webapp.models import Fetch, FetchState
from webapp.serving.engine import EngineUnavailable
from webapp.storage.places import fetched_dir

pytestmark = pytest.mark.django_db


class SlowWorker:
    """Fetches every address in `takes_s` of its own clock, all of them at once; never those in `stuck`.

    most: how many addresses were out at a time.
    """

    def __init__(self, takes_s: float, stuck: Sequence[str] = ()) -> None:
        self._now, self._takes_s, self._stuck = 0.0, takes_s, stuck
        self._due: dict[UUID, float] = {}
        self.most = 0

    def send(self, fetch_id: UUID) -> None:
        self._due[fetch_id] = self._now + self._takes_s
        self.most = max(self.most, len(self._due))

    def monotonic(self) -> float:
        return self._now

    def sleep(self, _seconds: float) -> None:
        self._now += 0.5
        for pk in [pk for pk, due in self._due.items() if due <= self._now]:
            if Fetch.objects.get(pk=pk).url not in self._stuck:
                (fetched_dir() / str(pk)).write_bytes(b"Turku is a city.")
                Fetch.objects.filter(pk=pk).update(state=FetchState.FETCHED)
                del self._due[pk]


def fetch(monkeypatch: pytest.MonkeyPatch, worker: SlowWorker, count: int) -> list[DocumentInput]:
    monkeypatch.setattr(fetching, "_send", worker.send)
    monkeypatch.setattr(fetching, "time", SimpleNamespace(monotonic=worker.monotonic, sleep=worker.sleep))
    fetched_dir().mkdir(parents=True, exist_ok=True)
    try:
        return fetching.fetched([DocumentInput(Address(f"https://a.example/{number}")) for number in range(count)])
    finally:
        assert not Fetch.objects.exists() and not list(fetched_dir().iterdir())


def test_each_address_has_its_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = SlowWorker(19)
    found = fetch(monkeypatch, worker, 16)
    assert {one.source.content for one in found if isinstance(one.source, File)} == {b"Turku is a city."}
    assert worker.most == 4 and fetching.WAIT_S < worker.monotonic() < fetching.LONGEST_S


def test_the_one_that_no_worker_has_fetched_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EngineUnavailable, match=r"^No worker has fetched https://a\.example/5 within 30 s"):
        fetch(monkeypatch, SlowWorker(5, stuck=["https://a.example/5"]), 9)


def test_all_together_have_a_longest_time(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EngineUnavailable, match=r"^25 of 900 addresses were fetched within 120 s.*fewer at once"):
        fetch(monkeypatch, SlowWorker(19), 900)
