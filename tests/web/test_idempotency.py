"""Idempotency keys: a question that is sent twice is answered once."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone

from realm_core.errors import RealmError
from tests.web.conftest import FakeEngine, Person
from tests.web.operating import TokenClient, problem
from webapp.models import AskedAnswer, EvidenceBlock, IdempotencyKey
from webapp.rest import idempotency

pytestmark = pytest.mark.both_databases

QUESTION = {"question": "Who directed it?", "k": 3}


def ask(client: Client, key: str, body: Any = QUESTION) -> Any:
    return client.post("/api/v1/ask", body, content_type="application/json", headers={"Idempotency-Key": key})


def test_the_same_question_is_answered_once(client: Client, engine: FakeEngine) -> None:
    first, again = ask(client, "key-1"), ask(client, "key-1", {**QUESTION, "exclude": []})
    assert (first.status_code, again.status_code) == (201, 200)
    assert "Idempotency-Replayed" not in first and again["Idempotency-Replayed"] == "true"
    assert again.json() == first.json() and again["Location"] == first["Location"]
    assert len(engine.asked) == AskedAnswer.objects.count() == 1
    assert ask(client, "key-2").json()["id"] != first.json()["id"]


def test_another_question_with_the_same_key_is_refused(client: Client, engine: FakeEngine) -> None:
    ask(client, "key")
    problem(ask(client, "key", {**QUESTION, "k": 4}), 422)
    assert AskedAnswer.objects.count() == 1


def test_keys_belong_to_who_asks(engine: FakeEngine, member: Person, staff: Person) -> None:
    assert ask(member.client, "key").status_code == ask(staff.client, "key").status_code == 201
    assert ask(TokenClient(member.user, "ask"), "key").status_code == 200


@pytest.mark.parametrize("key", ["", "a b", "é", "x" * 256])
def test_a_malformed_key_is_refused(client: Client, engine: FakeEngine, key: str) -> None:
    assert problem(ask(client, key), 400)["errors"][0]["field"] == "Idempotency-Key"
    assert engine.asked == []


def test_a_question_that_failed_may_be_sent_again(client: Client, engine: FakeEngine) -> None:
    problem(ask(client, "key", {"question": ""}), 400)
    engine.error = RealmError("All blocks are excluded.")
    problem(ask(client, "key"), 422)
    engine.error = None
    assert ask(client, "key").status_code == 201


def test_a_key_is_forgotten_after_a_day(client: Client, engine: FakeEngine) -> None:
    first = ask(client, "key").json()["id"]
    IdempotencyKey.objects.update(since=timezone.now() - timedelta(hours=23))
    assert ask(client, "key").json()["id"] == first
    IdempotencyKey.objects.update(since=timezone.now() - timedelta(hours=25))
    assert ask(client, "key").json()["id"] != first
    assert IdempotencyKey.objects.count() == 1


def test_while_the_first_is_under_way(client: Client, engine: FakeEngine) -> None:
    assert idempotency.claim("somebody", "key", QUESTION).answer is None
    with pytest.raises(idempotency.KeyInUse):
        idempotency.claim("somebody", "key", QUESTION)
    with pytest.raises(idempotency.KeyConflict):
        idempotency.claim("somebody", "key", {"question": "Another?"})


def test_a_late_answer_is_not_kept_once_its_question_was_asked_anew(
    client: Client, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server was thought dead and the question asked anew: the late answer is not kept, so there is one."""
    asked_twice = []

    def slow(question: str, **options: Any) -> Any:
        if not asked_twice:
            asked_twice.append(True)
            IdempotencyKey.objects.update(since=timezone.now() - idempotency.longest() - timedelta(seconds=1))
            assert ask(Client(), "key").status_code == 201
        return answer(question, **options)

    answer = engine.ask
    monkeypatch.setattr(engine, "ask", slow)
    late = ask(client, "key")
    problem(late, 409)
    assert int(late["Retry-After"]) > 0
    assert AskedAnswer.objects.count() == 1 and ask(client, "key").json()["id"] == str(AskedAnswer.objects.get().pk)
    assert EvidenceBlock.objects.values("answer").distinct().count() == 1


def test_a_key_of_a_clock_that_was_ahead_is_given_up(client: Client, engine: FakeEngine) -> None:
    """Its server died, and the clock was set back: the key would be under way for as long as that was."""
    idempotency.claim("somebody", "key", QUESTION)
    IdempotencyKey.objects.update(since=timezone.now() + timedelta(hours=1))
    assert idempotency.claim("somebody", "key", QUESTION).answer is None


@pytest.mark.django_db(transaction=True)
def test_many_at_the_same_instant_ask_once(engine: FakeEngine) -> None:
    start, statuses = threading.Barrier(8), []

    def one() -> None:
        start.wait()
        try:
            statuses.append(ask(Client(), "key").status_code)
        finally:
            connection.close()

    threads = [threading.Thread(target=one) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(set(statuses)) in ([201], [200, 201], [201, 409], [200, 201, 409]) and statuses.count(201) == 1
    assert AskedAnswer.objects.count() == len(engine.asked) == 1
