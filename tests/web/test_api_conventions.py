"""What clients expect of a REST API: request ids, limits that are told, ETags, lists that filter and order, CORS."""

from __future__ import annotations

import logging
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from realm_core.corpus.store import Snapshot
from realm_core.errors import EngineUnavailable
from tests.tiny import tiny_snapshot
from tests.web.conftest import FakeEngine, Person
from tests.web.operating import TokenClient, evaluation, job, post, problem, question_set, walk
from tests.web.pages import stored
from webapp.artefacts.registering import record_corpus
from webapp.models import AskedAnswer, Evaluation, JobState
from webapp.request_id import get_request_id
from webapp.rest import reference

QUESTION = {"question": "Who directed it?"}


@pytest.mark.parametrize("address", ["/api/v1/nowhere", "/api/v2/ask", "/api/"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_address_below_api_that_does_not_exist_is_a_problem(
    client: Client, db: None, method: str, address: str
) -> None:
    assert problem(client.generic(method, address), 404)["detail"] == "There is nothing at this address."


def test_any_other_address_that_does_not_exist_is_a_page(client: Client, db: None) -> None:
    response = client.get("/apiary")
    assert response.status_code == 404 and "<h1" in response.content.decode()


# ---- request ids


def test_a_request_id_is_echoed_and_told(client: Client, engine: FakeEngine) -> None:
    response = client.post("/api/v1/ask", "{", content_type="application/json", headers={"X-Request-ID": "mine-1.a_b"})
    assert response["X-Request-ID"] == "mine-1.a_b"
    assert problem(response, 400)["request_id"] == "mine-1.a_b"
    assert client.get("/how-it-works/", headers={"X-Request-ID": "page"})["X-Request-ID"] == "page"


@pytest.mark.parametrize("given", ["", "a b", "a\tb", "x" * 129, "é", "<script>"])
def test_a_request_id_that_could_do_harm_is_replaced(client: Client, db: None, given: str) -> None:
    first, second = (client.get("/api/v1/nowhere", headers={"X-Request-ID": given}) for _ in range(2))
    assert first["X-Request-ID"] != given and len(first["X-Request-ID"]) == 32
    assert first["X-Request-ID"] != second["X-Request-ID"]
    assert first.json()["request_id"] == first["X-Request-ID"]


def test_a_line_of_the_log_is_written_under_the_id_and_none_after(engine: FakeEngine) -> None:
    seen = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen.append(get_request_id())

    handler = Handler()
    logging.getLogger("django.request").addHandler(handler)
    try:
        engine.error = KeyError("bug")
        Client(raise_request_exception=False, headers={"X-Request-ID": "known"}).post(
            "/api/v1/ask", QUESTION, content_type="application/json"
        )
    finally:
        logging.getLogger("django.request").removeHandler(handler)
    assert seen and set(seen) == {"known"} and get_request_id() == ""


def test_a_page_that_fails_says_the_id(engine: FakeEngine) -> None:
    engine.error = KeyError("bug")
    browser = Client(raise_request_exception=False, headers={"X-Request-ID": "known"})
    page = browser.post("/", QUESTION)
    assert page.status_code == 500 and "<bdi>known</bdi>" in page.content.decode()


@pytest.mark.parametrize("address", ["/", "/api/v1/ask"])
def test_the_log_says_why_a_question_was_refused_for_now(
    client: Client, engine: FakeEngine, caplog: pytest.LogCaptureFixture, address: str
) -> None:
    engine.error = EngineUnavailable("The queue is full.")
    kind = {"content_type": "application/json"} if address.startswith("/api") else {}
    assert client.post(address, QUESTION, **kind).status_code == 503
    (line,) = [record for record in caplog.records if "The queue is full." in record.getMessage()]
    assert line.levelname == "WARNING" and QUESTION["question"] not in caplog.text


# ---- limits


def test_limits_are_told(client: Client, engine: FakeEngine, settings: Any) -> None:
    settings.ASK_RATE = "2/hour"
    for remaining in (1, 0):
        response = post(client, "retrieve", QUESTION)
        assert response.status_code == 200 and response["RateLimit-Policy"] == '"ask";q=2;w=3600'
        assert response["RateLimit"].startswith(f'"ask";r={remaining};t=')
    refused = post(client, "ask", QUESTION)
    problem(refused, 429)
    wait_s = int(refused["Retry-After"])
    assert 0 < wait_s <= 3600 and refused["RateLimit"] in {f'"ask";r=0;t={s}' for s in (wait_s - 1, wait_s, wait_s + 1)}


def test_without_a_limit_none_is_told(client: Client, engine: FakeEngine) -> None:
    assert "RateLimit" not in post(client, "ask", QUESTION)


# ---- ETags


@pytest.mark.django_db
def test_an_answer_with_a_matching_etag_is_a_304(client: Client) -> None:
    address = f"/api/v1/answers/{stored.store().pk}"
    first = client.get(address)
    assert first.status_code == 200 and first["Cache-Control"] == "private, no-cache"
    again = client.get(address, headers={"If-None-Match": first["ETag"]})
    assert (again.status_code, again.content, again["ETag"]) == (304, b"", first["ETag"])
    without = client.get(f"{address}?without={stored.ODYSSEY[0].block_id}", headers={"If-None-Match": first["ETag"]})
    assert without.status_code == 200 and without["ETag"] != first["ETag"]
    problem(client.get("/api/v1/answers/00000000-0000-4000-8000-000000000000", headers={"If-None-Match": "*"}), 404)


@pytest.mark.django_db
def test_an_answer_that_may_not_be_read_is_a_401_even_with_a_matching_etag(client: Client, settings: Any) -> None:
    address = f"/api/v1/answers/{stored.store().pk}"
    known = client.get(address)["ETag"]
    settings.REALM_PUBLIC = False
    problem(client.get(address, headers={"If-None-Match": known}), 401)


@pytest.mark.django_db
def test_a_block_or_article_with_a_matching_etag_is_a_304(client: Client, tmp_path: Path) -> None:
    corpus = tiny_snapshot(tmp_path)
    record_corpus(corpus)
    first_id, second_id = (Snapshot.open(corpus).block(row).block_id for row in (0, 1))
    for end in ("", "/article"):
        address = f"/api/v1/blocks/{first_id}{end}"
        known = client.get(address)
        assert known.status_code == 200 and known["Cache-Control"] == "private, no-cache"
        again = client.get(address, headers={"If-None-Match": known["ETag"]})
        assert (again.status_code, again.content, again["ETag"]) == (304, b"", known["ETag"])
        other = client.get(f"/api/v1/blocks/{second_id}{end}", headers={"If-None-Match": known["ETag"]})
        assert other.status_code == 200 and other["ETag"] != known["ETag"]


# ---- one's own answers


def test_a_list_of_ones_own_answers(engine: FakeEngine, member: Person, staff: Person) -> None:
    post(staff.client, "ask", QUESTION)
    engine.value = stored.payload(explains="no_answer")
    post(member.client, "ask", {"question": "First?"})
    engine.value = stored.payload()
    post(member.client, "ask", {"question": "Second?"})
    AskedAnswer.objects.filter(question="First?").update(latency_ms=9e6)

    def asked(query: str, client: Client = member.client) -> list[str]:
        response = client.get(f"/api/v1/answers?{query}")
        assert response.status_code == 200, response.content
        return [answer["question"] for answer in response.json()["results"]]

    assert asked("") == ["Second?", "First?"]
    assert asked("order=created_at") == asked("order=-latency_ms") == ["First?", "Second?"]
    assert asked("answered=true") == ["Second?"] and asked("answered=false") == ["First?"]
    assert len(asked("since=0896-10-07T03:31:21%2B23:18")) == 2  # an offset that PostgreSQL does not know
    assert asked("since=2999-01-01T00:00:00Z") == [] and len(asked("before=2999-01-01T00:00:00Z")) == 2
    assert asked("deployment=0") == [] and asked(f"deployment={engine.deployment_id}") == ["Second?", "First?"]
    assert asked("", TokenClient(member.user, "ask")) == ["Second?", "First?"]
    assert asked("", Client()) == []
    listed = member.client.get("/api/v1/answers").json()["results"][1]
    whole = member.client.get(f"/api/v1/answers/{listed['id']}").json()
    assert listed["created_at"] == whole["created_at"] and whole["created_at"].endswith("Z")
    assert listed["answer"] is None and listed["no_answer_probability"] > 0 and "payload" not in listed


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("order=payload", "order"),
        ("order=--created_at", "order"),
        ("answered=yes", "answered"),
        ("since=yesterday", "since"),
        ("since=2026-01-01T00:00:00", "since"),
        ("since=0001-01-01T00:00:00%2B01:00", "since"),
        ("before=2026-13-01T00:00:00Z", "before"),
        ("deployment=x", "deployment"),
        ("asker=1", "asker"),
        ("cursor=cD1ub3doZXJl", "cursor"),
        ("order=latency_ms&cursor=cD1uYW4%3D", "cursor"),
    ],
)
def test_a_wrong_parameter_of_a_list_is_named(member: Person, query: str, field: str) -> None:
    told = problem(member.client.get(f"/api/v1/answers?{query}"), 400)
    assert [error["field"] for error in told["errors"]] == [field]


# ---- lists of operators


def test_lists_are_walked_in_any_order(staff: Person) -> None:
    index, questions = stored.deployment().index, question_set()
    figures = [0.5, 0.25, 0.75, 0.5, 0.5]
    for figure in figures:
        evaluation(index, questions, exact_match=figure)
    pages = walk(staff.client, "/api/v1/evaluations?order=exact_match&page_size=2")
    assert [one["exact_match"] for page in pages for one in page["results"]] == sorted(figures)
    assert Evaluation.objects.count() == 5
    query = f"questions={questions.pk}&order=-exact_match&since=2000-01-01T00:00:00%2B01:00"
    assert staff.client.get(f"/api/v1/evaluations?{query}").json()["results"][0]["exact_match"] == 0.75
    assert staff.client.get("/api/v1/evaluations?questions=999999").json()["results"] == []


def test_jobs_are_chosen_and_ordered(staff: Person) -> None:
    build = job(state=JobState.RUNNING)
    shard = job(parent=build, kind="index-shard", queue="index", queued_at=timezone.now() + timedelta(hours=1))

    def ids(query: str) -> list[str]:
        return [one["id"] for one in staff.client.get(f"/api/v1/jobs?{query}").json()["results"]]

    assert ids("order=created_at") == ids("order=queued_at") == [str(build.pk), str(shard.pk)]
    assert ids("part=false") == ids("state=running") == [str(build.pk)] and ids("part=true") == [str(shard.pk)]
    assert ids("queue=train") == [] and len(ids("queue=index")) == 2


# ---- pages of other sites


@pytest.fixture
def other_site(settings: Any, db: None) -> str:
    settings.CORS_ALLOWED_ORIGINS = ["https://example.org"]
    return "https://example.org"


def test_pages_of_named_sites_may_call(client: Client, other_site: str, engine: FakeEngine) -> None:
    asking = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "idempotency-key"}
    preflight = client.options("/api/v1/ask", headers={"Origin": other_site, **asking})
    assert preflight["Access-Control-Allow-Origin"] == other_site
    assert "idempotency-key" in preflight["Access-Control-Allow-Headers"]
    answer = client.post(
        "/api/v1/ask", QUESTION, content_type="application/json", headers={"Origin": other_site, "X-Request-ID": "x"}
    )
    assert answer.status_code == 201 and answer["Access-Control-Allow-Origin"] == other_site
    assert "x-request-id" in answer["Access-Control-Expose-Headers"]
    assert "Access-Control-Allow-Credentials" not in answer  # their pages act with a token, never with a cookie


def test_other_origins_and_other_pages_get_no_cors_header(client: Client, other_site: str) -> None:
    for address, origin in (
        ("/api/v1/schema/", "https://evil.example"),
        ("/", other_site),
        ("/admin/login/", other_site),
    ):
        assert "Access-Control-Allow-Origin" not in client.get(address, headers={"Origin": origin})


def test_no_operation_takes_a_parameter_that_it_does_not_name(staff: Person) -> None:
    """Before anything is looked up: none of these records exists."""
    ids = {"integer": "1", "string": "d-1"}
    asked = set()
    for path, methods in reference.SchemaGenerator().get_schema(public=True)["paths"].items():
        for method, about in methods.items():
            named = {
                one["name"]: "0b6f2f5e-3a64-4d0c-9a51-6a0f3a1c7c55"
                if one["schema"].get("format") == "uuid"
                else ids[one["schema"]["type"]]
                for one in about.get("parameters", [])
                if one["in"] == "path"
            }
            address = f"{path.format(**named)}?nobody=7"
            response = staff.client.generic(method.upper(), address, b"{}", "application/json")
            assert problem(response, 400)["errors"] == [{"field": "nobody", "detail": "There is no such parameter."}], (
                path
            )
            asked.add(about["operationId"])
    assert len(asked) > 50


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("jobs?state=failed&state=queued", "state"),
        ("documents?status=current&status=removed", "status"),
        ("evaluations?page_size=1&page_size=1", "page_size"),
        ("jobs?order=-created_at&kind=index&order=created_at", "order"),
    ],
)
def test_a_single_parameter_that_is_repeated_is_refused(
    staff: Person, engine: FakeEngine, query: str, field: str
) -> None:
    told = problem(staff.client.get(f"/api/v1/{query}"), 400)
    assert [one["field"] for one in told["errors"]] == [field] and "given 2 times" in told["errors"][0]["detail"]


def test_a_parameter_of_several_values_is_repeated(staff: Person, engine: FakeEngine) -> None:
    asked = post(staff.client, "ask", QUESTION).json()
    blocks = [block["block_id"] for block in asked["evidence"][:2]]
    told = staff.client.get(f"/api/v1/answers/{asked['id']}", {"without": blocks}).json()
    assert told["without"] == blocks and len(blocks) == 2
