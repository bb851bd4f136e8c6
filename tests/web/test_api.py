"""The REST API: what it answers, and that it answers as its description says."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import pytest
from django.test import Client
from rest_framework import serializers

from realm_core.errors import RealmError
from realm_core.evaluation import why
from realm_core.serving import provenance
from tests.web.conftest import FakeEngine, Loader, Person
from tests.web.operating import post, problem
from tests.web.pages import stored
from webapp.asking import examples
from webapp.asking.serializers import (
    AnswerSerializer,
    CandidateSerializer,
    EvidenceSerializer,
    RankedAnswerSerializer,
    ReadingSerializer,
)
from webapp.explaining.serializers import ContenderSerializer
from webapp.models import AskedAnswer

QUESTION = "Who directed 2001: A Space Odyssey?"


def test_ask(client: Client, engine: FakeEngine) -> None:
    response = post(client, "ask", {"question": QUESTION, "k": 3, "exclude": ["a" * 32]})
    assert response.status_code == 201
    assert response["Content-Type"] == "application/json"
    body = response.json()
    assert engine.asked == [(QUESTION, 3, ("a" * 32,))]
    assert response["Location"] == f"http://testserver/api/v1/answers/{body['id']}"
    assert body["answer"] == stored.payload()["answer"]
    assert set(body) >= {
        *("id", "question", "answer", "no_answer_probability", "answers", "evidence", "model", "index", "corpus"),
        "latency_ms",
    }
    best = body["evidence"][0]
    assert best["text"][best["start"] : best["end"]] == body["answer"]["text"]
    assert sum(block["posterior"] for block in body["evidence"]) == pytest.approx(1)
    total = sum(block["prior"] * block["likelihood"] for block in body["evidence"])
    assert total == pytest.approx(body["answer"]["probability"])


def test_k_and_exclude_may_be_left_out(client: Client, engine: FakeEngine) -> None:
    assert post(client, "ask", {"question": QUESTION}).status_code == 201
    engine.config = replace(engine.config, k=8)  # over another corpus
    assert post(client, "ask", {"question": QUESTION, "k": None}).status_code == 201
    assert engine.asked == [(QUESTION, 5, ()), (QUESTION, 8, ())]
    assert sorted(AskedAnswer.objects.values_list("k", flat=True)) == [5, 8]


@pytest.mark.parametrize("address", ["ask", "retrieve"])
def test_null_is_as_if_it_was_not_given(client: Client, engine: FakeEngine, address: str) -> None:
    names = ("k", "exclude", "collections", "filters")
    null, left_out = (post(client, address, {"question": QUESTION} | sent) for sent in (dict.fromkeys(names), {}))
    assert null.status_code == left_out.status_code, null.content
    told = ("evidence", "collections", "filters") if address == "ask" else ("blocks",)
    assert [null.json()[name] for name in told] == [left_out.json()[name] for name in told]


def test_no_answer_is_null(client: Client, engine: FakeEngine) -> None:
    engine.value = stored.payload(explains="no_answer")
    body = post(client, "ask", {"question": QUESTION}).json()
    assert body["answer"] is None and body["no_answer_probability"] > 0 and body["evidence"]
    assert AskedAnswer.objects.get().answer_text is None


def test_of_questions_that_no_passage_answers_is_told_why(client: Client, engine: FakeEngine) -> None:
    told = {
        "Is a tomato a fruit?": "This question asks for yes or no.",
        "And when did he die?": "Each question is answered by itself.",
        "Is a tomato a fruit or a vegetable?": None,
        "Was ist die Hauptstadt von Frankreich?": None,
    }
    for question, reason in told.items():
        answer = post(client, "ask", {"question": question}).json()
        page = client.get(f"/answers/{answer['id']}/").content.decode()
        assert [other in page for other in told.values() if other] == [
            other == reason for other in told.values() if other
        ]


def test_of_what_no_passage_speaks_is_told_where_there_is_no_answer(client: Client, engine: FakeEngine) -> None:
    said = "no passage that was read speaks of that"
    for question, found, told in (
        ("What is my dog's name?", False, True),
        ("What is my cat's name?", True, False),
        ("What is the dog's name?", False, False),
        ("Which is the nicest of the films?", False, True),
    ):
        engine.value = stored.payload(explains="answer" if found else "no_answer")
        answer = post(client, "ask", {"question": question}).json()
        assert (answer["answer"] is not None) == found
        assert (said in client.get(f"/answers/{answer['id']}/").content.decode()) == told


def test_a_language_that_the_models_do_not_know_is_told_of(client: Client, engine: FakeEngine) -> None:
    answer = post(client, "ask", {"question": "Quelle est la capitale du Canada ?"}).json()
    assert answer["question_language"] == "fr"
    assert client.get(f"/api/v1/answers/{answer['id']}").json()["question_language"] == "fr"
    page = client.get(f"/answers/{answer['id']}/").content.decode()
    assert "seems to be in French. The model was trained on English alone" in page
    english = post(client, "ask", {"question": "What is the capital of Canada?"}).json()
    assert english["question_language"] is None
    assert "seems to be in" not in client.get(f"/answers/{english['id']}/").content.decode()


def test_the_answer_belongs_to_who_asked(engine: FakeEngine, member: Person) -> None:
    post(member.client, "ask", {"question": QUESTION})
    assert AskedAnswer.objects.get().asker == member.user


@pytest.mark.django_db
def test_a_kept_answer_is_what_was_answered_and_stays(client: Client, engine: FakeEngine) -> None:
    asked = post(client, "ask", {"question": QUESTION}).json()
    stored.deployment(note="another one")
    assert client.get(f"/api/v1/answers/{asked['id']}").json() == asked


@pytest.mark.django_db
def test_without_blocks(client: Client) -> None:
    asked = stored.store()
    gone = stored.ODYSSEY[0], stored.ODYSSEY[3]
    query = "&".join(f"without={block.block_id}" for block in gone)
    body = client.get(f"/api/v1/answers/{asked.pk}?{query}").json()
    rest = stored.without(stored.ODYSSEY, *(block.title for block in gone))
    assert {a["text"]: a["probability"] for a in body["answers"]} == pytest.approx(stored.marginals(rest))
    assert {block["title"] for block in body["evidence"]} == {block.title for block in rest}
    assert body["without"] == [block.block_id for block in gone]
    told = client.get(f"/api/v1/answers/{asked.pk}").json()["evidence"]
    rights = {"licence": told[0]["licence"], "attribution": told[0]["attribution"]}
    assert told == [block | rights for block in asked.payload["evidence"]]


@pytest.mark.django_db
def test_without_all_blocks_there_is_no_answer(client: Client) -> None:
    asked = stored.store()
    query = "&".join(f"without={block.block_id}" for block in stored.ODYSSEY)
    body = client.get(f"/api/v1/answers/{asked.pk}?{query}").json()
    assert (body["answer"], body["answers"], body["evidence"]) == (None, [], [])


def test_retrieve(client: Client, engine: FakeEngine) -> None:
    response = post(client, "retrieve", {"question": QUESTION, "k": 2})
    assert response.status_code == 200
    body = response.json()
    assert [block["rank"] for block in body["blocks"]] == [1, 2]
    fields = {"rank", "block_id", "title", "text", "section", "url", "score", "prior", "collection"} | {
        "licence",
        "attribution",
    }
    assert set(body["blocks"][0]) == fields
    assert (body["question"], body["model"], body["index"]) == (QUESTION, "realm-mini", "gen-1")
    assert AskedAnswer.objects.count() == 0


@pytest.mark.parametrize(
    ("body", "field", "said"),
    [
        ({}, "question", "required"),
        ({"question": ""}, "question", "Write a question"),
        ({"question": "؟ …"}, "question", "Write a question in words: this has no letter and no digit."),
        ({"question": "   \n"}, "question", "Write a question"),
        ({"question": None}, "question", "null"),
        ({"question": 7}, "question", "string"),
        ({"question": True}, "question", "string"),
        ({"question": ["Who?"]}, "question", "string"),
        ({"question": "x" * 2000}, "question", "1000"),
        ({"question": "Who?", "k": 0}, "k", "between 1 and 50"),
        ({"question": "Who?", "k": 10**30}, "k", "between 1 and 50"),
        ({"question": "Who?", "k": "5"}, "k", "integer"),
        ({"question": "Who?", "k": 5.0}, "k", "integer"),
        ({"question": "Who?", "k": True}, "k", "integer"),
        ({"question": "Who?", "exclude": "a" * 32}, "exclude", "list"),
        ({"question": "Who?", "exclude": [5]}, "exclude[0]", "string"),
        ({"question": "Who?", "exclude": ["a" * 32, "x"]}, "exclude[1]", "32 hexadecimal"),
        ({"question": "Who?", "exclude": ["a" * 32] * 101}, "exclude", "At most 100"),
        ({"question": "Who?", "k": 51}, "k", "between 1 and 50"),
        ({"question": "Who?", "top_k": 3}, "top_k", "no such field"),
        ([], "", "dictionary"),
        ("Who?", "", "dictionary"),
    ],
)
@pytest.mark.parametrize("address", ["ask", "retrieve"])
def test_a_wrong_field_is_named(
    client: Client, engine: FakeEngine, address: str, body: Any, field: str, said: str
) -> None:
    response = post(client, address, body)
    told = problem(response, 400)
    assert [error["field"] for error in told["errors"]] == [field]
    assert said in told["errors"][0]["detail"]
    assert engine.asked == []


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("method", "address", "status"),
    [
        ("get", "/api/v1/ask", 405),
        ("delete", "/api/v1/answers/00000000-0000-4000-8000-000000000000", 405),
        ("get", "/api/v1/answers/00000000-0000-4000-8000-000000000000", 404),
        ("get", "/api/v1/answers/17", 404),
        ("get", f"/api/v1/blocks/{'f' * 32}", 404),
        ("get", "/api/v1/blocks/x", 404),
        ("get", "/api/v1/nowhere", 404),
        ("post", "/api/v1/nowhere", 404),
        ("get", "/api/v1/", 404),
    ],
)
def test_addresses_and_methods_that_are_not_there(method: str, address: str, status: int) -> None:
    response = getattr(Client(enforce_csrf_checks=True), method)(address)
    problem(response, status)
    if status == 405:
        assert "GET" in response["Allow"] or "POST" in response["Allow"]


def test_malformed_bodies(client: Client, engine: FakeEngine) -> None:
    broken = client.post("/api/v1/ask", '{"question": ', content_type="application/json")
    assert "JSON" in problem(broken, 400)["detail"]
    bytes_ = client.post("/api/v1/ask", b'{"question": "\xff"}', content_type="application/json")
    problem(bytes_, 400)
    problem(client.post("/api/v1/ask", {"question": "Who?"}), 415)
    problem(client.get(f"/api/v1/answers/{stored.store().pk}", headers={"Accept": "text/html"}), 406)
    problem(post(client, "ask", {"question": "Who?", "exclude": ["x" * (2 << 20)]}), 413)


@pytest.mark.parametrize("character", ["\\ud800", "\\u0000"])
def test_characters_that_cannot_be_kept(client: Client, engine: FakeEngine, character: str) -> None:
    body = f'{{"question": "Who {character} was it?"}}'
    told = problem(client.post("/api/v1/ask", body, content_type="application/json"), 400)
    assert told["errors"][0]["field"] == "question"


@pytest.mark.django_db
def test_parameters_that_do_not_exist(client: Client, engine: FakeEngine) -> None:
    asked = stored.store()
    told = problem(client.get(f"/api/v1/answers/{asked.pk}?withuot=1"), 400)
    assert told["errors"][0]["field"] == "withuot"
    told = problem(client.get(f"/api/v1/answers/{asked.pk}?without=nonsense"), 400)
    assert told["errors"][0]["field"] == "without"


@pytest.mark.django_db
def test_nothing_to_answer_with(client: Client, loader: Loader) -> None:
    response = post(client, "ask", {"question": "Who?"})
    told = problem(response, 503)
    assert "Nothing is deployed" in told["detail"] and int(response["Retry-After"]) > 0


def test_a_refusal_of_the_engine_is_a_422(client: Client, engine: FakeEngine) -> None:
    engine.error = RealmError("All blocks are excluded.")
    assert problem(post(client, "ask", {"question": "Who?"}), 422)["detail"] == "All blocks are excluded."


def test_a_bug_is_a_problem_too(engine: FakeEngine) -> None:
    engine.error = KeyError("secret detail")
    client = Client(raise_request_exception=False)
    told = problem(post(client, "ask", {"question": "Who?"}), 500)
    assert "secret" not in json.dumps(told)


def test_too_many_questions(client: Client, engine: FakeEngine, settings: Any) -> None:
    settings.ASK_RATE = "2/hour"
    for _ in range(2):
        assert post(client, "ask", {"question": "Who?"}).status_code == 201
    response = post(client, "ask", {"question": "Who?"})
    problem(response, 429)
    assert 0 < int(response["Retry-After"]) <= 3600


def test_a_browser_that_is_logged_in_needs_the_token(engine: FakeEngine, member: Person) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(member.user, backend="django.contrib.auth.backends.ModelBackend")
    problem(post(client, "ask", {"question": "Who?"}), 403)
    assert engine.asked == []


@pytest.mark.django_db
def test_description_and_documentation(client: Client) -> None:
    schema = client.get("/api/v1/schema/?format=json").json()
    assert set(schema["paths"]) >= {
        *("/api/v1/ask", "/api/v1/retrieve", "/api/v1/fill"),
        *("/api/v1/answers/{answer_id}", "/api/v1/blocks/{block_id}"),
        *("/api/v1/jobs", "/api/v1/jobs/{job_id}/stop", "/api/v1/deployments/{deployment_id}/activate"),
    }
    problems = schema["paths"]["/api/v1/ask"]["post"]["responses"]
    for status in ("400", "415", "422", "429", "503"):
        assert "application/problem+json" in problems[status]["content"]
    page = client.get("/api/v1/docs/")
    assert page.status_code == 200 and b"<style" not in page.content and b"style=" not in page.content
    assert b"<script>" not in page.content and b'href="/api/v1/schema/"' in page.content


@pytest.mark.parametrize(
    ("serializer", "record"),
    [
        (ReadingSerializer, provenance.Answer),
        (EvidenceSerializer, provenance.Evidence),
        (CandidateSerializer, provenance.AnswerCandidate),
        (RankedAnswerSerializer, provenance.RankedAnswer),
        (ContenderSerializer, why.Contender),
    ],
)
def test_the_description_has_the_fields_of_the_answer(serializer: type[serializers.Serializer], record: type) -> None:
    derived = {"confidence"} if record is provenance.Answer else set()
    assert set(serializer().fields) == {field.name for field in fields(record)} | derived


def test_the_example_is_of_the_described_shape() -> None:
    serializer = AnswerSerializer(data=examples.ANSWER)
    assert serializer.is_valid(), serializer.errors
    assert set(examples.ANSWER) == set(serializer.fields)
