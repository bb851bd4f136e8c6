"""What no program should send and no person can type: refused in so many words, and nothing breaks of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import DataError, transaction

from tests.web.conftest import Person
from tests.web.operating import TokenClient, job, post, problem, question_set
from webapp.jobs import service as services
from webapp.models import AuditEntry, IndexGeneration, Job, JobState, Purpose

pytestmark = pytest.mark.postgresql_first


@pytest.mark.parametrize(
    ("kind", "parameters", "field"),
    [
        ("ingest", {"attribution": "\ud800"}, "parameters.attribution"),
        ("ingest", {"licence": "a\x00b"}, "parameters.licence"),
        ("ingest", {"\ud800": 1}, "parameters.\ufffd"),
        ("index", {"shard_rows": 10**400}, "parameters.shard_rows"),
        ("index", {"model": 10**400}, "parameters.model"),
        ("finetune", {"questions": [{}]}, "parameters.questions"),
        ("finetune", {"questions": [[1]]}, "parameters.questions"),
        ("finetune", {"questions": [10**400]}, "parameters.questions"),
        ("finetune", {"reader_lr": 10**400}, "parameters.reader_lr"),
        ("finetune", {"repeat": {"\ud800": 1}}, "parameters.repeat"),
        ("finetune", {"repeat": {"a": 10**400}}, "parameters.repeat.a"),
    ],
)
def test_malformed_parameters_are_named(
    program: TokenClient, kind: str, parameters: dict[str, Any], field: str
) -> None:
    told = problem(post(program, "jobs", {"kind": kind, "parameters": parameters}), 400)
    assert field in [error["field"] for error in told["errors"]]
    assert not Job.objects.exists() and not AuditEntry.objects.exists()


def test_a_malformed_field_beside_the_parameters_is_refused(program: TokenClient) -> None:
    problem(post(program, "jobs", {"kind": "ingest", "parameters": {}, "\ud800": 1}), 400)
    problem(post(program, "jobs", {"kind": "\ud800", "parameters": {}}), 400)


def test_a_body_that_is_nested_too_deeply_is_refused(program: TokenClient) -> None:
    deep = '{"kind": "ingest", "parameters": {"a": ' + "[" * 20_000 + "]" * 20_000 + "}}"
    told = problem(program.post("/api/v1/jobs", deep, content_type="application/json"), 400)
    assert told["errors"] == [{"field": "", "detail": "The body is nested too deeply."}]


@pytest.mark.django_db
@pytest.mark.postgresql_only
def test_postgresql_refuses_a_row_that_holds_half_a_character() -> None:
    """SQLite keeps it: test_half_characters.py."""
    with pytest.raises(DataError, match="surrogate"), transaction.atomic():
        job(kind="ingest", parameters={"attribution": "half \ud800", "source": "vital"}, state=JobState.STOPPED)


@pytest.mark.parametrize("address", ["audit/?day=9999-12-31", "audit/?name=%00", "audit/?action=%00"])
def test_the_audit_trail_takes_any_filter(address: str, staff: Person) -> None:
    assert staff.client.get(f"/manage/{address}").status_code == 200


def test_a_link_to_a_form_takes_any_number(staff: Person, index: IndexGeneration) -> None:
    question_set("learnt", Purpose.LEARN)
    for query in (f"model={'9' * 27}", f"model={'9' * 5000}", f"questions={'9' * 27}"):
        assert staff.client.get(f"/manage/jobs/new/finetune/?{query}").status_code == 200


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("repeat", f"a = {'9' * 5000}", "is not NAME = NUMBER"),
        ("repeat", f"a = {10**18 - 1}\nb = -1", "is not NAME = NUMBER"),
        ("questions", "9" * 27, "It is not there any more"),
        ("questions", "x", "It is not there any more"),
        ("model", "9" * 27, "It is not there any more"),
        ("epochs", "9" * 5000, "Enter a whole number"),
        ("epochs", "9" * 40, "Must lie within"),
        ("reader_lr", "1e999", "Enter a number"),
    ],
)
def test_a_form_says_what_cannot_be(field: str, value: str, says: str, staff: Person, index: IndexGeneration) -> None:
    learnt = question_set("learnt", Purpose.LEARN)
    page = staff.client.get("/manage/jobs/new/finetune/").context["form"]
    given = {name: page[name].value() for name in page.fields if page[name].value() is not None}
    given |= {"model": index.model_id, "corpus": index.corpus_id, "index": index.pk, "questions": [learnt.pk]}
    response = staff.client.post("/manage/jobs/new/finetune/", {**given, "repeat": "", field: value})
    assert response.status_code == 422 and says in response.content.decode()
    assert not Job.objects.exists()


def test_what_was_typed_stays_where_a_job_ended_in_the_same_moment(
    staff: Person, index: IndexGeneration, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"model": index.model_id, "corpus": index.corpus_id, "shard_rows": 4321, "search": "auto"}
    assert staff.client.post("/manage/jobs/new/index/", given).status_code == 302
    monkeypatch.setattr(services, "_active_like", lambda _fingerprint: None)
    response = staff.client.post("/manage/jobs/new/index/", given)
    page = response.content.decode()
    assert response.status_code == 422
    assert "The same job was being done until now; try again." in page and 'value="4321"' in page


def test_a_limit_of_one_is_no_limit_and_none_is_the_model_s_own(program: TokenClient, index: IndexGeneration) -> None:
    told = problem(post(program, "jobs", {"kind": "export", "parameters": {"model": 1, "min_probability": 1}}), 400)
    assert "parameters.min_probability" in [error["field"] for error in told["errors"]]
    response = post(program, "jobs", {"kind": "export", "parameters": {"model": index.model_id}})
    assert response.status_code == 201 and response.json()["parameters"]["min_probability"] is None
    assert json.loads(json.dumps(Job.objects.get().parameters))["min_probability"] is None


def test_the_form_of_an_export_leaves_the_limit_to_the_model(staff: Person, index: IndexGeneration) -> None:
    response = staff.client.post(
        "/manage/jobs/new/export/",
        {"model": index.model_id, "query": "int8", "reader": "int8", "normalisation": "the model's own"},
    )
    assert response.status_code == 302
    assert Job.objects.get().parameters["min_probability"] is None
