"""Everybody at every address of the API that is for staff."""

from __future__ import annotations

import json

import pytest
from django.test import Client
from django.urls import reverse

from tests.web.conftest import Person
from tests.web.operating import TokenClient, evaluation, job, question_set, span_set
from tests.web.pages import stored
from webapp.models import Deployment, JobState

# name of the address: (methods, body, what staff gets)
OPERATORS = {
    "api-job-kinds": ("get", None, 200),
    "api-jobs": ("get", None, 200),
    "api-job": ("get", None, 200),
    "api-job-stop": ("post", None, 200),
    "api-job-resume": ("post", None, 200),
    "api-job-log": ("get", None, 200),
    "api-job-metrics": ("get", None, 200),
    "api-corpora": ("get", None, 200),
    "api-corpus": ("get", None, 200),
    "api-models": ("get", None, 200),
    "api-model": ("get", None, 200),
    "api-indexes": ("get", None, 200),
    "api-index": ("get", None, 200),
    "api-question-sets": ("get", None, 200),
    "api-question-set": ("get", None, 200),
    "api-span-sets": ("get", None, 200),
    "api-span-set": ("get", None, 200),
    "api-evaluations": ("get", None, 200),
    "api-evaluation": ("get", None, 200),
    "api-deployments": ("get", None, 200),
    "api-deployment": ("get", None, 200),
    "api-activate": ("post", {}, 422),  # its files are not there
}
CREATING = {
    "api-jobs": ({"kind": "ingest", "parameters": {}}, 201),
    "api-deployments": ({"index": 10**9}, 400),
}
CALLS = [
    *((name, method, body, status) for name, (method, body, status) in OPERATORS.items()),
    *((name, "post", body, status) for name, (body, status) in CREATING.items()),
]


@pytest.mark.parametrize(("name", "method", "body", "allowed"), CALLS)
def test_address(
    name: str, method: str, body: object, allowed: int, outsider: Person, member: Person, staff: Person
) -> None:
    address = _address(name)
    assert staff.user is not None and member.user is not None
    callers: list[tuple[str, Client, int]] = [
        ("outsider", outsider.client, 401),
        ("asker", member.client, 403),
        ("asker's token", TokenClient(member.user, "ask", "operate"), 403),
        ("staff's token for asking", TokenClient(staff.user, "ask", "feedback"), 403),
        ("staff's token", TokenClient(staff.user, "operate"), allowed),
    ]
    for who, client, status in callers:
        assert _call(client, method, address, body).status_code == status, who
    if method == "get":
        assert staff.client.get(address).status_code == allowed


def _call(client: Client, method: str, address: str, body: object) -> object:
    if method == "get":
        return client.get(address)
    return client.post(address, "" if body is None else json.dumps(body), content_type="application/json")


def _address(name: str) -> str:
    index = stored.deployment().index
    if name.startswith("api-job") and name not in ("api-jobs", "api-job-kinds"):
        return reverse(name, args=[job(state=JobState.STOPPED if "resume" in name else JobState.QUEUED).pk])
    measured = evaluation(index, question_set())
    ids = {
        "api-corpus": index.corpus_id,
        "api-model": index.model_id,
        "api-index": index.pk,
        "api-question-set": measured.questions_id,
        "api-span-set": span_set(index).pk,
        "api-evaluation": measured.pk,
        "api-deployment": Deployment.objects.get().pk,
        "api-activate": Deployment.objects.get().pk,
    }
    return reverse(name, args=[ids[name]] if name in ids else [])
