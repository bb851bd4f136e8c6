"""The questions of touched answers, asked anew of the corpus as an edit would make it, before the edit is made.

    tried state, in memory (`Engine.tried`) ──► the engine that serves ──► compared with the kept answers

Nothing is stored or counted as answered, and no other request is answered from the tried state. At most four of these
questions are at the engine at once, so that other requests wait behind few. Those that are not answered within the time
limit are left out.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Final, TypeVar

from realm_core.errors import EngineUnavailable, RealmError
from webapp.asking import service as asking
from webapp.asking.places import batch_place
from webapp.ledger.service import request_again
from webapp.ledger.touched import Summary, Touched, TouchedAnswer
from webapp.metrics.middleware import listens
from webapp.models import IndexGeneration
from webapp.serving.embedding import embedding_of
from webapp.serving.engine import Serving, serving

if TYPE_CHECKING:
    from realm_core.living.documents import Changes
    from realm_core.serving.provenance import Answer

log = logging.getLogger(__name__)

MOST_ANEW: Final = 20
LIMIT_S: Final = 5.0  # of embedding and answering together; realm-base takes 0.25 to 0.6 s a question on two cores
_AT_ONCE: Final = 4

Result = TypeVar("Result")


@dataclass(frozen=True)
class AskedAnew:
    """rows: the touched answers with the highest posterior, of which those that were asked have `anew`.

    reading: the exact number of touched answers. why_not: why not all of `rows` were asked; empty: all were.
    """

    rows: list[TouchedAnswer]
    reading: int
    why_not: str = ""

    @cached_property
    def asked(self) -> list[TouchedAnswer]:
        """Those that were asked."""
        return [one for one in self.rows if one.asked_anew]

    @property
    def summary(self) -> Summary:
        """What becomes of those that were asked."""
        return Summary(self.reading, len(self.asked), Counter(one.outcome.value for one in self.asked))


def ask_anew(
    touched: Touched, changes: Changes, index: IndexGeneration, granted: Callable[[int], int] = lambda number: number
) -> AskedAnew:
    """Ask the questions of up to `MOST_ANEW` touched answers, each where its asker may look.

    index: above which the edit would be. granted: how many of so many questions are allowed; it may raise RealmError.
    """
    rows, reading = touched.recomputed(touched.rows[:MOST_ANEW]), touched.rows.count()
    if not rows:
        return AskedAnew([], reading)
    until, connected = time.monotonic() + LIMIT_S, listens()

    def wanted() -> bool:
        return time.monotonic() < until and (connected is None or connected())

    try:
        number = granted(len(rows))
        requests = [request_again(one.asked) for one in rows[:number]]
        with batch_place(), serving() as service:
            if service.deployment.index_id != index.pk:
                raise EngineUnavailable("The engine does not answer from this index yet.")
            results = _asked(service, requests, changes, until, wanted)
    except RealmError as error:
        return AskedAnew(rows, reading, str(error))
    results += [EngineUnavailable("More questions are not allowed at this moment.")] * (len(rows) - number)
    failed = [one for one in results if isinstance(one, Exception)]
    anew = [
        row if isinstance(one, Exception) else replace(row, anew=one) for row, one in zip(rows, results, strict=True)
    ]
    return AskedAnew(anew, reading, str(failed[0]) if failed else "")


def _asked(
    service: Serving,
    requests: Sequence[asking.AskRequest | Exception],
    changes: Changes,
    until: float,
    wanted: Callable[[], bool],
) -> list[Answer | Exception]:
    """The answers to some questions, equal ones asked once, or why there is none.

    A call that is under way at the end of the time is left to end in its thread.
    """
    late = EngineUnavailable(f"There was no time for more within {LIMIT_S:g} seconds.")

    def within(future: Future[Result]) -> Result | RealmError:
        wait([future], max(0.0, until - time.monotonic()))
        if future.cancel() or not future.done():
            return late
        try:
            return future.result()
        except RealmError as error:
            return error if wanted() else late
        except Exception:
            log.exception("A question could not be asked anew")
            return EngineUnavailable("There was an internal error, see the log.")

    embed = embedding_of(service.deployment.model, wanted)
    corpus = within(_lanes().submit(service.engine.tried, changes, embed))
    if isinstance(corpus, RealmError):
        raise corpus
    distinct = dict.fromkeys(one for one in requests if not isinstance(one, Exception))
    futures = {one: _lanes().submit(asking.ask_of, service, corpus, one, wanted) for one in distinct}
    answers: dict[asking.AskRequest, Answer | RealmError] = {}
    for one, future in futures.items():
        result = within(future)
        answers[one] = result
    return [one if isinstance(one, Exception) else answers[one] for one in requests]


@cache
def _lanes() -> ThreadPoolExecutor:
    """The threads of all previews, which wait at the engine."""
    return ThreadPoolExecutor(max_workers=_AT_ONCE, thread_name_prefix="ask-anew")
