"""Three people at every address of the site."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.urls import URLPattern, URLResolver, get_resolver, reverse

from tests.web.conftest import FakeEngine, Person
from tests.web.console import ANSWERS, another_model, measured, question_set
from tests.web.pages import stored
from tests.web.test_api_authorisation import OPERATORS
from webapp.models import Deployment, Job, JobKind, JobMetric, JobState, Schedule

# name of the address: (method, status for the outsider, the member, staff). 302 for the outsider leads to the login.
EVERYBODY = {
    "healthz": ("get", 200, 200, 200),
    "readyz": ("get", 200, 200, 200),
    "login": ("get", 200, 200, 200),
    "logout": ("post", 302, 302, 302),
    "ask": ("get", 200, 200, 200),
    "answer": ("get", 200, 200, 200),
    "fill": ("get", 200, 200, 200),
    "block": ("get", 200, 200, 200),
    "history": ("get", 200, 200, 200),
    "history-forget": ("post", 302, 302, 302),
    "how-it-works": ("get", 200, 200, 200),
    "api-ask": ("post", 415, 415, 415),
    "api-retrieve": ("post", 415, 415, 415),
    "api-fill": ("post", 415, 415, 415),
    "api-answer": ("get", 200, 200, 200),
    "api-block": ("get", 404, 404, 404),
    "api-schema": ("get", 200, 200, 200),
    "api-docs": ("get", 200, 200, 200),
}
# name of the address: (method, what staff gets, what the address ends in). Everybody else gets nothing.
STAFF = {
    "manage": ("get", 200, ()),
    "manage-status": ("get", 200, ()),
    "manage-jobs": ("get", 200, ()),
    "manage-jobs-table": ("get", 200, ()),
    "manage-job-kinds": ("get", 200, ()),
    "manage-job-new": ("get", 200, ("index",)),
    "manage-job": ("get", 200, ("job",)),
    "manage-job-status": ("get", 200, ("job",)),
    "manage-job-log": ("get", 200, ("job",)),
    "manage-job-plots": ("get", 200, ("job",)),
    "manage-job-plot": ("get", 200, ("job", "loss")),
    "manage-job-stop": ("post", 302, ("job",)),
    "manage-job-resume": ("post", 302, ("job",)),
    "manage-job-pin": ("post", 302, ("job",)),
    "manage-models": ("get", 200, ()),
    "manage-model": ("get", 200, ("model",)),
    "manage-model-pin": ("post", 302, ("model",)),
    "manage-indexes": ("get", 200, ()),
    "manage-index": ("get", 200, ("index id",)),
    "manage-index-pin": ("post", 302, ("index id",)),
    "manage-corpora": ("get", 200, ()),
    "manage-corpus": ("get", 200, ("corpus",)),
    "manage-spans": ("get", 200, ("spans",)),
    "manage-questions": ("get", 200, ()),
    "manage-questions-from-feedback": ("post", 302, ()),
    "manage-question-set": ("get", 200, ("questions",)),
    "manage-evaluation": ("get", 200, ("first",)),
    "manage-evaluation-plot": ("get", 200, ("first", "figures")),
    "manage-compare": ("get", 200, ()),
    "manage-compare-measure": ("post", 422, ()),
    "manage-comparison": ("get", 200, ("first", "second")),
    "manage-deployments": ("get", 200, ()),
    "manage-deploy": ("post", 404, ()),
    "manage-deploy-measure": ("post", 404, ()),
    "manage-roll-back": ("get", 302, ("deployment",)),
    "manage-schedules": ("get", 200, ()),
    "manage-schedule-new": ("get", 200, ()),
    "manage-schedule": ("get", 200, ("schedule",)),
    "manage-schedule-remove": ("post", 302, ("schedule",)),
    "manage-schedule-run": ("post", 302, ("schedule",)),
    "manage-retention": ("post", 422, ()),
    "manage-retention-remove": ("post", 302, ()),
    "manage-audit": ("get", 200, ()),
}


def names(patterns: list[Any], inside: str = "") -> Iterator[str]:
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            if pattern.namespace != "admin":  # Django's own, and tested there; below, that it is closed
                yield from names(pattern.url_patterns)
        elif isinstance(pattern, URLPattern) and pattern.name:
            yield pattern.name


def test_every_address_is_tested() -> None:
    assert set(names(get_resolver().url_patterns)) == EVERYBODY.keys() | STAFF.keys() | OPERATORS.keys()


@pytest.mark.parametrize("name", EVERYBODY)
@pytest.mark.parametrize("person", ["outsider", "member", "staff"])
def test_address(name: str, person: str, request: pytest.FixtureRequest, engine: FakeEngine) -> None:
    someone: Person = request.getfixturevalue(person)
    method, *statuses = EVERYBODY[name]
    status = statuses[["outsider", "member", "staff"].index(person)]
    assert getattr(someone.client, method)(_address(name)).status_code == status


@pytest.mark.parametrize("name", STAFF)
def test_address_for_staff(name: str, outsider: Person, member: Person, staff: Person, engine: FakeEngine) -> None:
    method, status, ends = STAFF[name]
    address = _staff_address(name, ends)
    refused = getattr(outsider.client, method)(address)
    assert refused.status_code == 302 and refused["Location"].startswith("/accounts/login/?next=/manage/")
    assert getattr(member.client, method)(address).status_code == 403
    assert getattr(staff.client, method)(address).status_code == status
    if method == "post":  # what changes something is not done by a link
        assert staff.client.get(address).status_code in (404, 405)


def test_the_administration_is_closed(outsider: Person, member: Person, staff: Person) -> None:
    for someone in (outsider, member):
        assert someone.client.get("/admin/").status_code == 302
    assert staff.client.get("/admin/").status_code == 200
    assert staff.client.get("/admin/webapp/job/").status_code == 403  # staff by itself has no permission there


def _address(name: str) -> str:
    if name == "api-block":
        return reverse(name, args=["f" * 32])
    if name == "block":
        return reverse(name, args=[stored.store().payload["evidence"][0]["block_id"]])
    if name in ("answer", "api-answer"):
        return reverse(name, args=[stored.store().pk])
    return reverse(name)


def _staff_address(name: str, ends: tuple[str, ...]) -> str:
    active = Deployment.active()
    assert active is not None
    job = Job.objects.create(kind=JobKind.INDEX, state=JobState.RUNNING)
    JobMetric.objects.create(job=job, step=1, time=job.created_at, values={"ict.loss": 1.0})
    questions = question_set()
    records = {
        "job": job,
        "model": active.model,
        "index id": active.index,
        "corpus": active.index.corpus,
        "spans": active.index.corpus.span_sets.create(path="s", tagger="dates", spans=1, blocks=1),
        "questions": questions,
        "first": measured(active.model, active.index, questions, ANSWERS),
        "second": measured(another_model(), active.index, questions, ANSWERS),
        "deployment": active,
        "schedule": Schedule.objects.create(corpus_name=active.index.corpus.name, trigger="every", hours=1),
    }
    return reverse(name, args=[records[end].pk if end in records else end for end in ends])
