"""Three people at every address of the site."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.urls import URLPattern, URLResolver, get_resolver, reverse

from tests.web.conftest import FakeEngine, Person
from tests.web.pages import stored
from webapp.models import Job, JobKind, JobState

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
STAFF = {
    "manage": ("get", 302, 403, 302),
    "manage-jobs": ("get", 302, 403, 200),
    "manage-jobs-table": ("get", 302, 403, 200),
    "manage-job": ("get", 302, 403, 200),
    "manage-job-status": ("get", 302, 403, 200),
    "manage-job-stop": ("post", 302, 403, 302),
    "manage-job-resume": ("post", 302, 403, 302),
    "manage-deployments": ("get", 302, 403, 200),
    "manage-deploy": ("post", 302, 403, 404),
    "manage-roll-back": ("post", 302, 403, 302),
}


def names(patterns: list[Any], inside: str = "") -> Iterator[str]:
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            if pattern.namespace != "admin":  # Django's own, and tested there; below, that it is closed
                yield from names(pattern.url_patterns)
        elif isinstance(pattern, URLPattern) and pattern.name:
            yield pattern.name


def test_every_address_is_tested() -> None:
    assert set(names(get_resolver().url_patterns)) == EVERYBODY.keys() | STAFF.keys()


@pytest.mark.parametrize("name", [*EVERYBODY, *STAFF])
@pytest.mark.parametrize("person", ["outsider", "member", "staff"])
def test_address(name: str, person: str, request: pytest.FixtureRequest, engine: FakeEngine) -> None:
    someone: Person = request.getfixturevalue(person)
    method, *statuses = (EVERYBODY | STAFF)[name]
    status = statuses[["outsider", "member", "staff"].index(person)]
    response = getattr(someone.client, method)(_address(name))
    assert response.status_code == status
    if name in STAFF and person == "outsider":
        assert response["Location"].startswith("/accounts/login/?next=/manage/")


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
    if name == "manage-roll-back":
        return reverse(name, args=[stored.deployment().pk])
    if name.startswith("manage-job") and not name.startswith("manage-jobs"):
        return reverse(name, args=[Job.objects.create(kind=JobKind.INDEX, state=JobState.RUNNING).pk])
    if name == "manage-jobs-table":
        Job.objects.create(kind=JobKind.INDEX)
    return reverse(name)
