"""When the client tries again, when it does not, and that nothing is done twice by it. The server is made up."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from realm_client import (
    ApiError,
    AsyncClient,
    ChangedMeanwhile,
    Client,
    Conflict,
    InvalidRequest,
    NewDocument,
    NotFound,
    TooManyRequests,
    Unavailable,
    Unreachable,
)
from webapp.asking import examples

Handler = Callable[[httpx.Request], httpx.Response]


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that the client would have slept."""
    seconds: list[float] = []

    async def sleep(wait_s: float) -> None:
        seconds.append(wait_s)

    monkeypatch.setattr("time.sleep", seconds.append)
    monkeypatch.setattr("asyncio.sleep", sleep)
    return seconds


def busy(status: int, wait: str | None = "7") -> httpx.Response:
    problem = {"type": "about:blank", "title": "x", "status": status, "detail": "Busy."}
    return httpx.Response(status, json=problem, headers={} if wait is None else {"Retry-After": wait})


def client(handler: Handler, **more: Any) -> Client:
    return Client("http://realm", transport=httpx.MockTransport(handler), **more)


def in_turn(*responses: httpx.Response | Exception) -> tuple[Handler, list[httpx.Request]]:
    """A server that gives these responses one after another, and the requests that it got."""
    left, seen = list(responses), []

    def handle(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        response = left.pop(0)
        if isinstance(response, Exception):
            raise response
        return response

    return handle, seen


def answered() -> httpx.Response:
    return httpx.Response(201, json=examples.ANSWER)


def test_retry_after_is_kept_to_and_the_key_stays_the_same(slept: list[float]) -> None:
    handler, seen = in_turn(busy(503), busy(429, "3"), httpx.ReadError("lost"), busy(409, "1"), answered())
    assert client(handler).ask("Who?").text == "Stanley Kubrick"
    assert slept[:2] == [7, 3] and 1 < slept[2] <= 2 and slept[3] > 1  # of its own accord it comes less and less often
    keys = {request.headers["Idempotency-Key"] for request in seen}
    assert len(seen) == 5 and len(keys) == 1


def test_another_question_has_another_key(slept: list[float]) -> None:
    handler, seen = in_turn(answered(), answered())
    with client(handler) as realm:
        realm.ask("Who?")
        realm.ask("Who?")
    assert seen[0].headers["Idempotency-Key"] != seen[1].headers["Idempotency-Key"]


@pytest.mark.parametrize(("status", "kind"), [(429, TooManyRequests), (503, Unavailable)])
def test_the_client_gives_up_after_its_retries(slept: list[float], status: int, kind: type[ApiError]) -> None:
    handler, seen = in_turn(*(busy(status) for _ in range(3)))
    with pytest.raises(kind) as refused:
        client(handler, retries=2).ask("Who?")
    assert len(seen) == 3 and slept == [7, 7] and refused.value.retry_after_s == 7


def test_who_asks_for_more_patience_than_there_is_is_not_waited_for(slept: list[float]) -> None:
    handler, seen = in_turn(busy(429, "3600"))
    with pytest.raises(TooManyRequests):
        client(handler, patience_s=60).ask("Who?")
    assert len(seen) == 1 and slept == []


@pytest.mark.parametrize(
    ("away_s", "fault"),
    [
        (60, busy(409, "1")),  # the question of a server that died of it
        (40, httpx.ConnectError("refused")),
        (40, httpx.Response(502, text="<h1>Bad Gateway</h1>")),
        (40, busy(503, "1")),
    ],
    ids=["under way", "away", "away behind a proxy", "busy"],
)
def test_faults_are_waited_for(slept: list[float], away_s: float, fault: httpx.Response | Exception) -> None:
    def handle(_request: httpx.Request) -> httpx.Response:
        if sum(slept) >= away_s:
            return answered()
        if isinstance(fault, Exception):
            raise fault
        return fault

    assert client(handle).ask("Who?").text == "Stanley Kubrick"
    assert max(slept) <= 10 and len(slept) <= 15 and sum(slept) < away_s + 10
    slept.clear()
    with pytest.raises((ApiError, Unreachable)):  # in vain, and to the end
        client(handle, patience_s=30).ask("Who?")
    assert sum(slept) == pytest.approx(30)


def test_a_question_under_way_is_no_retry(slept: list[float]) -> None:
    handler, seen = in_turn(*(busy(409, "1") for _ in range(3)), answered())
    assert client(handler, retries=0).ask("Who?").text and len(seen) == 4


def test_what_is_wrong_is_not_sent_again(slept: list[float]) -> None:
    handler, seen = in_turn(busy(422, None), busy(409, None))
    for _ in range(2):
        with pytest.raises(ApiError):
            client(handler).ask("Who?")
    assert len(seen) == 2 and slept == []


def test_what_may_have_been_done_is_not_done_again(slept: list[float]) -> None:
    handler, seen = in_turn(httpx.ReadError("lost"), httpx.ConnectError("away"), httpx.ReadError("lost"))
    with pytest.raises(Unreachable):
        client(handler).start_job("index", {})
    with pytest.raises(Unreachable):  # it was not there, so nothing was done; the second time nobody knows
        client(handler).start_job("index", {})
    assert len(seen) == 3 and len(slept) == 1


def test_what_a_lost_request_removed_is_removed(slept: list[float]) -> None:
    handler, seen = in_turn(httpx.ReadTimeout(""), busy(404, None))
    client(handler).remove_collection("board")
    assert len(seen) == 2
    for first in (httpx.ConnectError(""), busy(503)):  # nothing was done by these
        handler, _ = in_turn(first, busy(404, None))
        with pytest.raises(NotFound):
            client(handler).remove_collection("board")


def test_edits_that_are_sent_again_have_the_same_key(slept: list[float]) -> None:
    about = NewDocument(licence="CC0")
    for edit in (
        lambda realm: realm.add_files([("a.txt", b"A")], about),
        lambda realm: realm.change_document("a", NewDocument("A text.", title="A")),
        lambda realm: realm.describe_document("a", about),
        lambda realm: realm.remove_document("a"),
        lambda realm: realm.remove_documents(["a", "b"]),
        lambda realm: realm.restore_document("a"),
    ):
        handler, seen = in_turn(httpx.ReadTimeout(""), busy(404, None))
        with contextlib.suppress(NotFound):
            edit(client(handler))
        first, again = (request.headers["Idempotency-Key"] for request in seen)
        assert first == again
    handler, seen = in_turn(httpx.ReadTimeout(""))
    with pytest.raises(Unreachable):  # a second receipt would say that there was nothing to purge
        client(handler).purge_documents(["a"])


def test_a_conflict_has_the_doubts_and_the_confirmation(slept: list[float]) -> None:
    problem = {**busy(409, None).json(), "doubts": ["It measures worse."], "confirm": "abc"}
    handler, _ = in_turn(httpx.Response(409, json=problem))
    with pytest.raises(Conflict) as doubted:
        client(handler).deploy(3)
    assert (doubted.value.doubts, doubted.value.confirm) == (("It measures worse.",), "abc")


def test_an_edit_names_the_version_that_it_is_for(slept: list[float]) -> None:
    problem = {**busy(412, None).json(), "version": "9b2e6d07c4f1a385"}
    handler, seen = in_turn(*(httpx.Response(412, json=problem) for _ in range(3)), httpx.Response(204))
    realm, about = client(handler), NewDocument("A text.", title="A title")
    for edit in (realm.change_document, realm.describe_document):
        with pytest.raises(ChangedMeanwhile) as refused:
            edit("d-1", about, if_match="0f6c3d9c4be1f2a3")
        assert refused.value.version == "9b2e6d07c4f1a385"
    with pytest.raises(ChangedMeanwhile):
        realm.remove_document("d-1", if_match="0f6c3d9c4be1f2a3")
    assert [one.headers["If-Match"] for one in seen] == ['"0f6c3d9c4be1f2a3"'] * 3
    realm.remove_document("d-1")
    assert "If-Match" not in seen[-1].headers and not slept


def test_a_proxy_that_says_nothing_of_ours(slept: list[float]) -> None:
    handler, _ = in_turn(httpx.Response(502, text="<h1>Bad Gateway</h1>"))
    with pytest.raises(ApiError, match="Bad Gateway") as refused:
        client(handler).stop_job("1")  # it may have been done
    assert refused.value.status == 502


def test_only_the_parameters_of_a_following_page_are_used(slept: list[float]) -> None:
    """A server behind a proxy may name itself wrongly, and a token must not go to another host."""
    page = {"next": "http://elsewhere/api/v1/jobs?cursor=abc&state=queued", "previous": None, "results": []}
    handler, seen = in_turn(httpx.Response(200, json=page), httpx.Response(200, json={**page, "next": None}))
    assert list(client(handler, token="realm_secret").jobs(state="queued")) == []
    assert str(seen[1].url) == "http://realm/api/v1/jobs?cursor=abc&state=queued"


# ---- batches


class Batches:
    """A server that answers batches: `refuse` of the questions once, and breaks off after `breaks` lines once."""

    def __init__(self, *, refuse: set[str] | None = None, breaks: int | None = None) -> None:
        self.refuse, self.breaks = refuse or set(), breaks
        self.asked: list[list[str]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        questions = json.loads(request.content)["questions"]
        self.asked.append(questions)
        lines = [json.dumps(self._result(*one)) + "\n" for one in enumerate(questions)]
        self.refuse = set()
        end, self.breaks = self.breaks, None
        return httpx.Response(200, content="".join(lines[:end]))

    def _result(self, index: int, question: str) -> dict[str, Any]:
        if question in self.refuse:
            return {"index": index, "problem": {"status": 429, "detail": "Too many.", "retry_after_s": 9}}
        return {"index": index, "answer": {**examples.ANSWER, "question": question}}


QUESTIONS = [f"{number}?" for number in range(5)]


def test_refused_questions_are_sent_again_when_they_may_be(slept: list[float]) -> None:
    server = Batches(refuse={"1?", "3?"})
    results = list(client(server).ask_many(QUESTIONS))
    assert [result.index for result in results] == [0, 2, 4, 1, 3] and slept[0] == 9
    assert server.asked == [QUESTIONS, ["1?", "3?"]]
    assert {(r.index, r.answer.question) for r in results if r.answer} == set(enumerate(QUESTIONS))


def test_without_patience_a_refusal_is_a_result(slept: list[float]) -> None:
    results = list(client(Batches(refuse={"1?"}), patience_s=5).ask_many(QUESTIONS))
    assert isinstance(results[1].error, TooManyRequests) and len(results) == 5


def test_a_broken_batch_goes_on_where_it_broke(slept: list[float]) -> None:
    server = Batches(breaks=2)
    results = list(client(server).ask_many(QUESTIONS))
    assert [result.index for result in results] == [0, 1, 2, 3, 4]
    assert server.asked == [QUESTIONS, QUESTIONS[2:]]


def test_a_batch_that_is_refused_as_a_whole(slept: list[float]) -> None:
    handler, _ = in_turn(*(busy(503) for _ in range(3)))
    with pytest.raises(Unavailable):
        list(client(handler, retries=2).ask_many(QUESTIONS))
    assert slept == [7, 7]


def test_long_batches_are_cut(slept: list[float]) -> None:
    server = Batches()
    results = list(client(server).ask_many([f"{number:0900}?" for number in range(2000)]))
    assert [result.index for result in results] == list(range(2000))
    assert [len(questions) for questions in server.asked] == [995, 995, 10]
    assert list(client(server).ask_many([])) == [] and len(server.asked) == 3


def test_a_question_that_no_request_can_hold_stops_no_other(slept: list[float]) -> None:
    server = Batches()

    def limited(request: httpx.Request) -> httpx.Response:
        if len(request.content) > 1 << 20:
            return httpx.Response(413, json={"status": 413, "detail": "Too large."})
        return server(request)

    results = list(client(limited).ask_many(["0?", "x" * (1 << 20), "2?"]))
    assert [result.index for result in results] == [0, 1, 2] and slept == [0.0, 0.0]
    assert isinstance(results[1].error, InvalidRequest) and results[2].answer


def test_only_a_line_feed_ends_a_line(slept: list[float]) -> None:
    """Other characters that end lines of text may stand in a block, and JSON writes them as they are."""
    text = "one\u0085two\u2028three"
    line = json.dumps({"index": 0, "answer": {**examples.ANSWER, "question": text}}, ensure_ascii=False).encode()
    handler, _ = in_turn(httpx.Response(200, content=iter([line[:500], line[500:] + b"\n"])))
    assert [result.answer and result.answer.question for result in client(handler).ask_many(["Who?"])] == [text]


def test_awaited_likewise(slept: list[float]) -> None:
    server = Batches(refuse={"1?"}, breaks=4)

    async def work() -> list[int]:
        async with AsyncClient("http://realm", transport=httpx.MockTransport(server)) as realm:
            return [result.index async for result in realm.ask_many(QUESTIONS)]

    assert asyncio.run(work()) == [0, 2, 3, 1, 4]
