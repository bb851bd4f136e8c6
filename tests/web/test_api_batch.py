"""Many questions in one request: in order, each with its answer or its problem, streamed on demand."""

from __future__ import annotations

import itertools
import json
import socket
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from django.core import signals
from django.db import OperationalError, close_old_connections
from django.db.models import QuerySet
from django.http import StreamingHttpResponse
from django.test import Client

from realm_core.errors import RealmError
from tests.web.conftest import FakeEngine, Loader, Person
from tests.web.operating import post, problem
from webapp.access.collections import CollectionAccess
from webapp.asking import batch_api as batch
from webapp.asking import places
from webapp.asking import service as asking
from webapp.logs import JSONLines
from webapp.metrics import middleware
from webapp.metrics.middleware import SERVING_MS, Asking
from webapp.models import AskedAnswer, GoneBlock
from webapp.serving.engine import EngineUnavailable

LINES = {"Accept": "application/jsonl"}
CHECKED = partial(asking.checked, access=CollectionAccess())


def questions(number: int) -> list[str]:
    return [f"Question {position}?" for position in range(number)]


def stream(client: Client, body: Any) -> StreamingHttpResponse:
    response = client.post("/api/v1/ask/batch", body, content_type="application/json", headers=LINES)
    assert isinstance(response, StreamingHttpResponse), response.content
    return response


def lines(response: StreamingHttpResponse) -> list[dict[str, Any]]:
    assert response["Content-Type"] == "application/jsonl"
    content = b"".join(response.streaming_content)
    assert content.endswith(b"\n")
    return [json.loads(line) for line in content.splitlines()]


def leave(response: StreamingHttpResponse) -> None:
    """Close it as a server does, without the database's connection, which is the test's."""
    signals.request_finished.disconnect(close_old_connections)
    response.close()
    signals.request_finished.connect(close_old_connections)


def test_a_database_error_after_an_answer_was_stored_does_not_end_the_stream(
    engine: FakeEngine, member: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, asked = GoneBlock.in_evidence, itertools.count()

    def in_evidence(answer: AskedAnswer) -> Any:
        if next(asked) == 1:
            raise OperationalError("terminating connection")
        return real(answer)

    monkeypatch.setattr(GoneBlock, "in_evidence", in_evidence)
    monkeypatch.setattr(batch, "close_old_connections", lambda: None)  # the connection is the test's
    told = lines(stream(member.client, {"questions": questions(4)}))
    assert [one["index"] for one in told] == [0, 1, 2, 3]
    assert [one.get("problem", {}).get("status") for one in told] == [None, 503, None, None]


def test_answers_stand_in_the_order_of_the_questions(engine: FakeEngine, member: Person) -> None:
    wanted: list[Any] = questions(40)
    wanted[7] = {"question": "Seven?", "k": 2, "exclude": ["a" * 32]}
    results = post(member.client, "ask/batch", {"questions": wanted, "k": 4}).json()["results"]
    assert [result["index"] for result in results] == list(range(40))
    told = [result["answer"]["question"] for result in results]
    assert told == [one if isinstance(one, str) else one["question"] for one in wanted]
    assert ("Seven?", 2, ("a" * 32,)) in engine.asked and ("Question 8?", 4, ()) in engine.asked
    assert len(engine.asked) == AskedAnswer.objects.filter(asker=member.user).count() == 40
    kept = member.client.get(f"/api/v1/answers/{results[3]['answer']['id']}").json()
    assert kept == results[3]["answer"]


@pytest.mark.parametrize("streamed", [False, True])
def test_the_log_names_each_answer_of_a_batch(
    client: Client, engine: FakeEngine, caplog: pytest.LogCaptureFixture, streamed: bool
) -> None:
    caplog.set_level("INFO", "webapp.metrics.middleware")
    caplog.handler.setFormatter(JSONLines())
    headers = {"X-Request-ID": "the-batch"} | (LINES if streamed else {})
    sent: Any = client.post(
        "/api/v1/ask/batch", {"questions": questions(3)}, content_type="application/json", headers=headers
    )
    results = lines(sent) if streamed else sent.json()["results"]
    told = [json.loads(line) for line in caplog.text.splitlines() if " took " in line]
    assert [line["answer_id"] for line in told] == [result["answer"]["id"] for result in results]
    assert all(line["latency_ms"] > 0 and line["stages_ms"].keys() > {"read", "store"} for line in told)
    assert {line["request_id"] for line in told} == {"the-batch"}


@pytest.mark.parametrize("streamed", [False, True])
def test_each_answer_of_a_batch_can_be_taken_apart(client: Client, engine: FakeEngine, streamed: bool) -> None:
    """Also before its request is over; the stored answer equals the one that was sent."""
    body = {"questions": [*questions(3), ""]}
    response: Any = stream(client, body) if streamed else post(client, "ask/batch", body)
    results = map(json.loads, response.streaming_content) if streamed else iter(response.json()["results"])
    stored_ms = 0.0
    for result in itertools.islice(results, 3):
        told = result["answer"]
        assert told["serving_ms"].keys() == {"store"} and told["serving_ms"]["store"] > 0
        assert AskedAnswer.objects.get(pk=told["id"]).serving_ms == told["serving_ms"]
        kept = client.get(f"/api/v1/answers/{told['id']}")
        assert kept.json() == told
        again = client.get(f"/api/v1/answers/{told['id']}", headers={"If-None-Match": kept["ETag"]})
        assert again.status_code == 304
        assert "Storing the answer" in client.get(f"/answers/{told['id']}/").content.decode()
        stored_ms += told["serving_ms"]["store"]
    assert len(list(results)) == 1
    serving_ms = response.wsgi_request.META[SERVING_MS]  # of the request's line in the log
    assert serving_ms == {"store": pytest.approx(stored_ms), "render": serving_ms["render"]}
    assert serving_ms["render"] > 0
    assert ("Server-Timing" in response) is not streamed  # a stream's header is gone before the first answer is there


def test_an_answer_stays_one_where_what_it_took_cannot_be_kept(
    client: Client, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def update(*_arguments: Any, **_fields: Any) -> int:
        raise OperationalError("disk I/O error")

    monkeypatch.setattr(QuerySet, "update", update)
    monkeypatch.setattr(middleware, "close_old_connections", lambda: None)  # the test's transaction is in this one
    results = post(client, "ask/batch", {"questions": questions(2)}).json()["results"]
    assert all("answer" in result for result in results) and AskedAnswer.objects.count() == 2
    assert "was not stored: disk I/O error" in caplog.text


def test_a_question_that_fails_does_not_stop_the_others(client: Client, engine: FakeEngine) -> None:
    wrong = ["", {"question": "Who?", "k": 99}, {"k": 5}, 7, None, [], {"question": "Who?", "top_k": 3}, "x" * 1001]
    results = post(client, "ask/batch", {"questions": ["First?", *wrong, "Last?"]}).json()["results"]
    assert [("answer" in result) for result in results] == [True, *[False] * len(wrong), True]
    fields = [result["problem"]["errors"][0]["field"] for result in results[1:-1]]
    assert fields == ["question", "k", "question", "", "", "", "top_k", "question"]
    assert {result["problem"]["status"] for result in results[1:-1]} == {400}


def test_what_the_engine_refuses_and_a_bug_are_told_in_place(client: Client, engine: FakeEngine) -> None:
    engine.error = RealmError("All blocks are excluded.")
    refused = post(client, "ask/batch", {"questions": ["Who?"]}).json()["results"][0]["problem"]
    assert (refused["status"], refused["detail"]) == (422, "All blocks are excluded.")
    engine.error = KeyError("secret detail")
    response = post(client, "ask/batch", {"questions": ["Who?"]})
    assert response.json()["results"][0]["problem"]["status"] == 500 and b"secret" not in response.content


@pytest.fixture
def short_line(settings: Any) -> Iterator[None]:
    """A line of eight, of which batches may take two places."""
    settings.ASK_QUEUE = 8
    asking._lanes.cache_clear()
    yield
    asking._lanes().shutdown()
    asking._lanes.cache_clear()


def test_all_batches_together_leave_room_in_the_line(
    engine: FakeEngine, short_line: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer, lock, waiting, most = engine.ask, threading.Lock(), 0, 0

    def ask(question: str, **options: Any) -> Any:
        nonlocal waiting, most
        with lock:
            waiting += 1
            most = max(most, waiting)
        threading.Event().wait(0.005)
        with lock:
            waiting -= 1
        return answer(question, **options)

    monkeypatch.setattr(engine, "ask", ask)
    batches = [asking.ask_many(map(CHECKED, questions(20))) for _ in range(4)]
    for results in zip(*batches, strict=True):
        assert all(isinstance(result, AskedAnswer) for result in results)
    assert most == 2


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "questions"),
        ({"questions": "Who?"}, "questions"),
        ({"questions": []}, "questions"),
        ({"questions": ["Who?"] * 101}, "questions"),
        ({"questions": ["Who?"], "k": "5"}, "k"),
        ({"questions": ["Who?"], "normalisation": "joint"}, "normalisation"),
    ],
)
def test_a_wrong_batch_is_refused_as_a_whole(client: Client, engine: FakeEngine, body: Any, field: str) -> None:
    assert problem(post(client, "ask/batch", body), 400)["errors"][0]["field"] == field
    assert engine.asked == []


@pytest.mark.django_db
def test_without_an_engine_the_batch_is_refused_as_a_whole(client: Client, loader: Loader) -> None:
    for headers in ({}, LINES):
        body = {"questions": ["Who?"]}
        response = client.post("/api/v1/ask/batch", body, content_type="application/json", headers=headers)
        assert response.status_code == 503 and int(response["Retry-After"]) > 0
        assert response["Content-Type"] == "application/problem+json" and response.json()["status"] == 503


# ---- JSON lines


def test_a_long_batch_is_streamed(client: Client, engine: FakeEngine) -> None:
    wanted = questions(150)
    results = lines(stream(client, {"questions": wanted}))
    assert [result["index"] for result in results] == list(range(150))
    assert [result["answer"]["question"] for result in results] == wanted
    assert AskedAnswer.objects.count() == 150


def test_a_line_comes_as_soon_as_its_question_is_answered(
    client: Client, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_go_on, answer = threading.Event(), engine.ask

    def ask(question: str, **options: Any) -> Any:
        assert question != "Question 3?" or may_go_on.wait(20)
        return answer(question, **options)

    monkeypatch.setattr(engine, "ask", ask)
    response = stream(client, {"questions": questions(150)})
    content = iter(response.streaming_content)
    assert [json.loads(next(content))["index"] for _ in range(3)] == [0, 1, 2]
    may_go_on.set()
    assert len(list(content)) == 147


@pytest.fixture
def gone(engine: FakeEngine, short_line: None, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Until it is set, the first question alone is answered, over a short line."""
    gone, answer = threading.Event(), engine.ask

    def ask(question: str, **options: Any) -> Any:
        assert question == "Question 0?" or gone.wait(20)
        return answer(question, **options)

    monkeypatch.setattr(engine, "ask", ask)
    return gone


def test_questions_of_a_closed_batch_are_not_computed(engine: FakeEngine, gone: threading.Event) -> None:
    results = asking.ask_many(map(CHECKED, questions(64)))
    next(results)
    results.close()  # type: ignore[attr-defined]
    gone.set()
    asking._lanes().shutdown()
    assert len(engine.asked) <= 3  # those that two places had begun with


def test_questions_of_a_disconnected_client_are_not_computed(engine: FakeEngine, gone: threading.Event) -> None:
    """The lanes are told who listens: their threads are outside of the request."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        results = asking.ask_many(map(CHECKED, questions(150)), listens=Asking(ours).listens)
        assert isinstance(next(results), AskedAnswer)
        theirs.close()
        gone.set()
        rest = list(results)
    assert len(rest) == 149 and isinstance(rest[-1], EngineUnavailable)
    assert len(engine.asked) <= 3  # those that two places had begun with


@pytest.mark.parametrize("headers", [{}, LINES])
def test_the_lanes_are_told_who_listens_to_the_request(
    client: Client, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch, headers: dict[str, str]
) -> None:
    told, answer = [], engine.ask

    def ask(question: str, **options: Any) -> Any:
        told.append(options["listens"]())
        return answer(question, **options)

    monkeypatch.setattr(engine, "ask", ask)
    body = {"questions": questions(3)}
    response: Any = client.post("/api/v1/ask/batch", body, content_type="application/json", headers=headers)
    assert len(lines(response) if headers else response.json()["results"]) == 3
    assert told == [True] * 3


def test_only_so_many_batches_are_answered_at_once(
    client: Client, engine: FakeEngine, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "_BATCHES", threading.BoundedSemaphore(1))
    settings.ASK_RATE = "9/hour"
    body = {"questions": questions(2)}
    unread = stream(client, body)
    refused = post(client, "ask/batch", body)
    assert problem(refused, 503) and int(refused["Retry-After"]) > 0
    assert "RateLimit" not in refused  # what was not looked at is not counted
    leave(unread)
    for _ in range(2):
        assert len(post(client, "ask/batch", body).json()["results"]) == 2
    with monkeypatch.context() as patch, pytest.raises(RuntimeError):
        patch.setattr(batch.limits, "count", _broken)
        post(client, "ask/batch", body)
    assert len(lines(stream(client, body))) == 2


def test_only_so_many_are_streamed_at_once(client: Client, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "_STREAMS", threading.BoundedSemaphore(1))
    body = {"questions": questions(2)}
    unread = stream(client, body)
    refused = client.post("/api/v1/ask/batch", body, content_type="application/json", headers=LINES)
    assert refused.status_code == 503 and int(refused["Retry-After"]) > 0
    leave(unread)  # whoever asked is gone before the first line
    leave(unread)
    assert len(lines(stream(client, body))) == 2
    assert len(lines(stream(client, body))) == 2
    with monkeypatch.context() as patch, pytest.raises(RuntimeError):
        patch.setattr(batch.limits, "count", _broken)
        stream(client, body)
    assert len(lines(stream(client, body))) == 2


def _broken(*_arguments: Any) -> None:
    raise RuntimeError


def test_a_line_is_one_line_whatever_is_in_it(client: Client, engine: FakeEngine) -> None:
    results = lines(stream(client, {"questions": ["Who\n\u2028is\r\n“it”?", "\ud800?"]}))
    assert "answer" in results[0] and results[1]["problem"]["status"] == 400 and len(results) == 2


# ---- the limit


@pytest.mark.parametrize("streamed", [False, True])
def test_a_batch_is_answered_as_far_as_the_limit_allows(
    client: Client, engine: FakeEngine, settings: Any, streamed: bool
) -> None:
    settings.ASK_RATE = "5/hour"
    body = {"questions": questions(7)}
    results: Iterator[dict[str, Any]]
    if streamed:
        response: Any = stream(client, body)
        results = iter(lines(response))
    else:
        response = post(client, "ask/batch", body)
        results = iter(response.json()["results"])
    assert response["RateLimit"].startswith('"ask";r=0;')
    assert [result.get("problem", {}).get("status") for result in results] == [None] * 5 + [429] * 2
    assert len(engine.asked) == 5
    refused = post(client, "ask/batch", {"questions": ["Who?"]})
    problem(refused, 429)
    assert 0 < int(refused["Retry-After"]) <= 3600


def test_questions_beyond_the_limit_say_when_to_come_back(client: Client, engine: FakeEngine, settings: Any) -> None:
    settings.ASK_RATE = "1/hour"
    beyond = post(client, "ask/batch", {"questions": questions(2)}).json()["results"][1]["problem"]
    assert 0 < beyond["retry_after_s"] <= 3600
