"""Several askers at once, each asking again as soon as it has an answer: what each question took, and what failed."""

from __future__ import annotations

import itertools
import json
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from types import TracebackType
from typing import Any

from benchmarks.web import request
from realm_core.errors import RealmError

_PATIENCE_S = 300.0


@dataclass(frozen=True)
class Asked:
    """One question: when it was asked (time.perf_counter), how long it took, and what came of it."""

    at: float
    took_ms: float
    status: int
    answered_by: str


class Askers:
    """Threads that ask until they are told to stop.

    ask: asks one question; returns the HTTP status and what tells which pair answered.
    thinks_s: mean of the exponentially distributed time that each lets go by before it asks; 0: it asks at once.
    """

    def __init__(
        self, ask: Callable[[str], tuple[int, str]], questions: list[str], count: int, *, thinks_s: float = 0.0
    ) -> None:
        self._ask = ask
        self._thinks_s = thinks_s
        self._asked: list[Asked] = []
        self._over = threading.Event()
        # One round for all: however many ask, the same questions are asked in the same time, some of which have more
        # to be read than others.
        self._questions = itertools.cycle(questions)
        self._threads = [threading.Thread(target=self._run, args=(Random(number),)) for number in range(count)]

    def __enter__(self) -> Askers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def since(self, start: float, end: float = float("inf")) -> list[Asked]:
        """The questions that were under way at some time from `start` to `end`, in the order of their answers."""
        return [one for one in list(self._asked) if one.at + one.took_ms / 1e3 >= start and one.at <= end]

    def windows(self, start: float, end: float, length_s: float) -> list[list[Asked]]:
        """The questions of each of the windows of a length between `start` and `end`, those that `since` tells of it.

        Requests that overlap a window's edge tend to be slow ones. Windows of one length have as many of these.
        """
        edges = [start + number * length_s for number in range(int((end - start) / length_s + 1e-9) + 1)]
        return [self.since(edge, after) for edge, after in itertools.pairwise(edges)]

    def _run(self, random: Random) -> None:
        for question in self._questions:
            if self._over.wait(random.expovariate(1 / self._thinks_s) if self._thinks_s else 0):
                return
            at = time.perf_counter()
            status, answered_by = self._ask(question)
            self._asked.append(Asked(at, (time.perf_counter() - at) * 1e3, status, answered_by))


@dataclass(frozen=True)
class Change:
    """One deployment under load.

    at: when it was asked for (time.perf_counter). until_new_s, until_all_s: from then to the first answer of the new
    pair, and to the last of the earlier one. took_ms: of the questions that were under way until that last answer.
    failed: how many got none.
    """

    at: float
    until_new_s: float
    until_all_s: float
    took_ms: tuple[float, ...]
    failed: int

    @property
    def questions(self) -> int:
        return len(self.took_ms)

    @property
    def median_ms(self) -> float:
        return statistics.median(self.took_ms)

    @property
    def slowest_ms(self) -> float:
        return max(self.took_ms)


def change_over(askers: Askers, change: Callable[[], object], new: str, *, settle_s: float) -> Change:
    """Make a change, and wait until nobody but `new` has answered for `settle_s` seconds.

    new: what the answers of the new pair name. RealmError when that does not happen within five minutes.
    """
    start = time.perf_counter()
    change()
    while True:
        time.sleep(settle_s)
        if time.perf_counter() - start > _PATIENCE_S:
            raise RealmError(f"{new} does not answer every question {_PATIENCE_S:.0f} seconds after it was deployed.")
        latest = [one for one in askers.since(time.perf_counter() - settle_s) if one.status == 201]
        if latest and all(one.answered_by == new for one in latest):
            break
    answered = askers.since(start)
    good = [one for one in answered if one.status == 201]
    end = max((_end(one) for one in good if one.answered_by != new), default=start)
    meanwhile = [one for one in answered if one.at <= end] or answered
    return Change(
        at=start,
        until_new_s=min(_end(one) for one in good if one.answered_by == new) - start,
        until_all_s=end - start,
        took_ms=tuple(one.took_ms for one in meanwhile),
        failed=sum(one.status != 201 for one in answered),
    )


def asker(port: int, tells: str = "index", **options: Any) -> Callable[[str], tuple[int, str]]:
    """Asks one question over HTTP: the status, and a field of the answer, by which pairs or answers are told apart; or
    when to come back. options: of the question.
    """

    def ask(question: str) -> tuple[int, str]:
        status, headers, content = request(port, "POST", "/api/v1/ask", {"question": question, **options})
        return status, json.loads(content)[tells] if status == 201 else headers.get("retry-after", "")

    return ask


def operate(
    port: int, token: str, address: str, body: dict[str, Any] | None, method: str = "POST", *, confirmed: bool = False
) -> dict[str, Any]:
    """Call the operators' API; RealmError with the problem's detail where it refuses.

    confirmed: deploy whatever is doubted.
    """
    status, _, content = request(port, method, f"/api/v1/{address}", body, token)
    answer: dict[str, Any] = json.loads(content or b"{}")  # a removal answers without a body
    if confirmed and status == 409 and "confirm" in answer:
        return operate(port, token, address, {**(body or {}), "confirm": answer["confirm"]}, method)
    if not 200 <= status < 300:
        raise RealmError(f"{method} /api/v1/{address}: {answer.get('detail')}")
    return answer


def _end(one: Asked) -> float:
    return one.at + one.took_ms / 1e3


def percentile(values: Sequence[float], share: float) -> float:
    """The value that `share` (0 to 1) of the values do not exceed."""
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]
