"""SQL in every filter, order and search: it finds what a word finds that nothing has, and changes no row.

What each list would give to somebody whose text became part of the question is all rows, an error of the database, or
fewer rows afterwards.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from tests.attacks.test_pages import Structure
from tests.attacks.test_requests import PARAMETERS, refused_or_right
from tests.attacks.texts import SHORT, in_turn, some
from tests.web.conftest import FakeEngine, Person
from tests.web.console import question_set
from tests.web.described import described
from tests.web.operating import TokenClient, corpus_change, evaluation, job, span_set
from tests.web.pages import stored
from webapp.models import AuditEntry, Feedback, IndexGeneration, JobState, QuestionSet

pytestmark = pytest.mark.postgresql_only

NOBODY_S = "xyzzy"  # what no row has
PROBLEM = {"type", "title", "status", "detail", "instance", "errors", "request_id"}
PAYLOADS = {
    "always": "' OR '1'='1",
    "always, as a number": "1 OR 1=1",
    "always, in brackets": "xyzzy') OR (1=1) --",
    "always, double quotes": 'xyzzy" OR "1"="1',
    "a second statement": "xyzzy'; DELETE FROM webapp_feedback; DELETE FROM webapp_job; --",
    "a second statement, as a number": "1; DROP TABLE webapp_askedanswer CASCADE; --",
    "another table": "' UNION SELECT id, username, password FROM auth_user --",
    "an order": "(SELECT CASE WHEN (1=1) THEN id ELSE question END)",
    "a column": "created_at DESC, password",
    "a pattern": "%' OR question LIKE '%",
    "an escape": "\\' OR 1=1 /*",
    "time": "xyzzy' || pg_sleep(30) || '",
}
ADMINISTRATION = {
    "admin:webapp_askedanswer_changelist": ("q", "o", "p", "created_at__day", "created_at__year"),
    "admin:webapp_job_changelist": ("o", "p", "kind__exact", "queue__exact", "state__exact"),
    "admin:webapp_auditentry_changelist": ("action__exact", "at__year", "o"),
    "admin:auth_user_changelist": ("q", "o", "is_staff__exact", "groups__id__exact", "password__startswith"),
    "admin:axes_accessattempt_changelist": ("q", "path_info", "locked_out"),
}
LISTS = {**PARAMETERS, **ADMINISTRATION}
# Any text could be one, and none is called like these.
NAMES = ("name", "language", "document_id", "action", "corpus_name")
# Any text could be one, and the files of this corpus are not there.
UNREAD = {
    *(("/api/v1/documents", name) for name in ("title", "collection")),
    *(("/api/v1/documents/{document_id}/touched", name) for name in ("cursor", "page_size", "differing")),
}


@pytest.fixture
def ends(engine: FakeEngine, staff: Person) -> dict[str, list[Any]]:
    """Rows of each kind, of several people, and the ids that addresses of one record contain."""
    User.objects.filter(pk=staff.user.pk).update(is_superuser=True)
    other = User.objects.create_user("Other")
    asked = [stored.store(stored.payload(question=f"Whose is number {number}?"), asker=other) for number in range(3)]
    index = asked[0].deployment.index
    evaluation(index, question_set())
    span_set(index)
    for state in (JobState.STOPPED, JobState.FAILED, JobState.SUCCEEDED):
        AuditEntry.record("job.start", f"a job that {state}", by=other, job=job(state=state, log="a line"))
    Feedback.objects.create(answer=asked[0], by=other, right=False, better_answer="Theirs")
    return {
        "answer": [asked[0].pk],
        "block": [asked[0].payload["evidence"][0]["block_id"]],
        "manage-job-new": ["index"],
        "manage-job-log": [job(state=JobState.STOPPED).pk],
    }


def lists(ends: dict[str, list[Any]]) -> Iterator[tuple[str, str]]:
    """Every parameter that an address of the API describes, with the ids of what there is in the address."""
    index = IndexGeneration.objects.earliest("pk")
    change, measured = corpus_change(index), evaluation(index, QuestionSet.objects.first() or question_set())
    ids = {
        "{answer_id}": ends["answer"][0],
        "{job_id}": ends["manage-job-log"][0],
        "{change_id}": change.pk,
        "evaluations/{record_id}": f"evaluations/{measured.pk}",
    }
    for address, operations in described()["paths"].items():
        for parameter in operations.get("get", {}).get("parameters", ()):
            if parameter["in"] == "query":
                for place, end in ids.items():
                    address = address.replace(place, str(end))
                yield address, parameter["name"]


def rows() -> dict[str, int]:
    """How many there are in each table."""
    return {model._meta.label: model._base_manager.count() for model in apps.get_models()}


def seen(client: Client, address: str, parameter: str, text: str) -> tuple[int, str]:
    """The status and what is read, but for the text that was sent."""
    response = client.get(address, {parameter: text})
    assert response.status_code < 500, (address, parameter)
    shown = Structure(response.content.decode()).text
    for said in (text, text[:20]):  # a day that is none is told as far as that
        shown = shown.replace(said, "")
    return response.status_code, " ".join(shown.split())


def test_pages(ends: dict[str, list[Any]], staff: Person) -> None:
    before = rows()
    for number, (name, parameters) in enumerate(LISTS.items()):
        address = reverse(name, args=ends.get(name))
        for turn, parameter in enumerate(parameters, number):
            nothing = seen(staff.client, address, parameter, NOBODY_S)
            for what, payload in some(PAYLOADS, turn):
                assert seen(staff.client, address, parameter, payload) == nothing, (name, parameter, what)
    assert rows() == before


@pytest.mark.parametrize("payload", in_turn(PAYLOADS, 9))
def test_a_history_lists_the_asker_s_own_questions_alone(
    payload: str, ends: dict[str, list[Any]], member: Person
) -> None:
    own = stored.store(stored.payload(question="Whose is mine?"), asker=member.user)
    shown = member.client.get("/history/", {"page": payload}).content.decode()
    assert own.question in shown and "Whose is number" not in shown
    client = TokenClient(member.user, "ask")
    assert [one["question"] for one in client.get("/api/v1/answers").json()["results"]] == [own.question]
    for _, parameter in filter(lambda one: one[0] == "/api/v1/answers", lists(ends)):
        assert b"Whose is" not in client.get("/api/v1/answers", {parameter: payload}).content


@pytest.mark.parametrize("text", in_turn({**SHORT, **PAYLOADS}, 7))
def test_parameters_of_the_api(text: str, ends: dict[str, list[Any]], staff: Person) -> None:
    """Refused, every one, but for names: any text could be one, and finds nothing."""
    client = TokenClient(staff.user, "ask", "operate")
    addresses = list(lists(ends))
    before = rows()
    for address, parameter in addresses:
        response = client.get(address, {parameter: text})
        if (address, parameter) in UNREAD and response.status_code == 503:
            continue
        refused_or_right(response)
        if parameter in NAMES and response.status_code == 200:
            assert response.json()["results"] == [], (address, parameter)
        else:
            assert response.status_code == 400 and set(response.json()) <= PROBLEM, (address, parameter)
    assert rows() == before


@pytest.mark.parametrize("payload", in_turn(PAYLOADS, 1))
def test_what_names_a_record_in_a_body(payload: str, ends: dict[str, list[Any]], staff: Person) -> None:
    client = TokenClient(staff.user, "ask", "feedback", "operate")
    before = rows()
    for address, body in (
        ("ask", {"question": "Who?", "exclude": [payload]}),
        (f"answers/{ends['answer'][0]}/feedback", {"block_id": payload}),
        ("jobs", {"kind": payload}),
        ("jobs", {"kind": "index", "parameters": {"corpus": payload, "model": payload}}),
        ("deployments", {"index": payload, "model": payload}),
    ):
        response = client.post(f"/api/v1/{address}", json.dumps(body), content_type="application/json")
        assert response.status_code == 400, (address, body)
    assert rows() == before
