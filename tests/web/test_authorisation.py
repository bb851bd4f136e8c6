"""Everybody at every address of the site, when it is open and when it is closed.

An address needs something; the second table says who has it. Neither is taken from webapp.access.roles, which could
be wrong.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, reverse
from drf_spectacular.generators import SchemaGenerator

from tests.nightly import NIGHTLY
from tests.web.conftest import FakeEngine
from tests.web.console import ANSWERS, another_model, measured, question_set
from tests.web.logged_in import logged_in
from tests.web.operating import TokenClient, corpus_change, job, span_set
from tests.web.pages import stored
from webapp.models import (
    ApiToken,
    Deployment,
    Feedback,
    JobMetric,
    JobState,
    ModelVersion,
    QuestionSet,
    Schedule,
    SpanSet,
)
from webapp.rest import reference

pytestmark = pytest.mark.usefixtures("short_refusals")

# Who is let in: anonymous, asker, curator, admin (by session); then tokens, by owner and scope.
CALLERS = (
    "anonymous", "asker", "curator", "admin",
    "asker's ask", "asker's feedback", "asker's operate", "curator's operate",
    "admin's ask", "admin's feedback", "admin's operate",
    "asker's documents", "curator's documents", "admin's documents", "admin's metrics",
)  # fmt: skip
# By these it is told at every address what it needs; for one address of each need all are asked every day.
TELLING = (*CALLERS[:4], "admin's ask", "admin's feedback", "admin's documents", "admin's operate")
EVERYBODY = set(CALLERS)
PEOPLE = {"asker", "curator", "admin"}
NEEDS = {  # what: (who has it on an open site, who has it on a closed one)
    "nothing": (EVERYBODY, EVERYBODY),
    "read": (EVERYBODY, PEOPLE | {"asker's ask", "admin's ask"}),
    "read documents": (EVERYBODY, PEOPLE | {"asker's ask", "admin's ask", "admin's documents", "admin's operate"}),
    "ask": ({"anonymous", "asker's ask", "admin's ask"} | PEOPLE, {"asker's ask", "admin's ask"} | PEOPLE),
    # A browser's session is not looked at, so that no page can speak for whoever looks at it.
    "ask, with a token": ({"anonymous", "asker's ask", "admin's ask"} | PEOPLE, {"asker's ask", "admin's ask"}),
    "feedback": (
        {"anonymous", "asker's feedback", "admin's feedback"} | PEOPLE,
        {"asker's feedback", "admin's feedback"} | PEOPLE,
    ),
    "account": (PEOPLE, PEOPLE),
    "explain": ({"asker's ask", "admin's ask"} | PEOPLE, {"asker's ask", "admin's ask"} | PEOPLE),
    "curate": ({"curator", "admin"}, {"curator", "admin"}),
    "edit": ({"admin", "admin's documents", "admin's operate"}, {"admin", "admin's documents", "admin's operate"}),
    "operate": ({"admin", "admin's operate"}, {"admin", "admin's operate"}),
}


class Address(NamedTuple):
    """What an address needs, how it is called, and what those get who have it."""

    needs: str
    method: str
    status: int
    ends: tuple[str, ...] = ()
    body: Any = None


GET, POST = "get", "post"
PAGES = {
    "metrics": Address("nothing", GET, 200),  # from this machine; from others, see test_metrics.py
    "healthz": Address("nothing", GET, 200),
    "readyz": Address("nothing", GET, 200),
    "login": Address("nothing", GET, 200),
    "logout": Address("nothing", POST, 302),
    "how-it-works": Address("nothing", GET, 200),
    "ask": Address("ask", GET, 200),
    "answer": Address("read", GET, 200, ("answer",)),
    "answer-again": Address("ask", POST, 302, ("answer",)),
    "feedback": Address("feedback", POST, 422, ("answer",)),
    "feedback-take-back": Address("feedback", POST, 302, ("answer",)),
    "answer-why": Address("explain", POST, 422, ("answer",)),
    "fill": Address("ask", GET, 200),
    "block": Address("read", GET, 200, ("block",)),
    "document-original": Address("read", GET, 404),  # no document is named
    "history": Address("ask", GET, 200),
    "history-forget": Address("ask", POST, 302),
    "account": Address("account", GET, 200),
    "account-token-make": Address("account", POST, 422),
    "account-token-revoke": Address("account", POST, 404, ("somebody's token",)),
    "account-password": Address("account", GET, 200),
    "manage": Address("operate", GET, 200),
    "manage-status": Address("operate", GET, 200),
    "manage-jobs": Address("operate", GET, 200),
    "manage-jobs-table": Address("operate", GET, 286),
    "manage-job-kinds": Address("operate", GET, 200),
    "manage-job-new": Address("operate", GET, 200, ("index",)),
    "manage-job": Address("operate", GET, 200, ("running",)),
    "manage-job-status": Address("operate", GET, 200, ("running",)),
    "manage-job-log": Address("operate", GET, 200, ("running",)),
    "manage-job-whole-log": Address("operate", GET, 200, ("running",)),
    "manage-job-plots": Address("operate", GET, 200, ("running",)),
    "manage-job-plot": Address("operate", GET, 200, ("running", "loss")),
    "manage-job-stop": Address("operate", POST, 302, ("running",)),
    "manage-job-resume": Address("operate", POST, 302, ("running",)),
    "manage-job-pin": Address("operate", POST, 302, ("running",)),
    "manage-models": Address("operate", GET, 200),
    "manage-model-remove": Address("operate", GET, 200, ("model",)),
    "manage-model": Address("operate", GET, 200, ("model",)),
    "manage-model-add": Address("operate", POST, 302),
    "manage-model-pin": Address("operate", POST, 302, ("model",)),
    "manage-indexes": Address("operate", GET, 200),
    "manage-index": Address("operate", GET, 200, ("index id",)),
    "manage-index-remove": Address("operate", GET, 200, ("index id",)),
    "manage-index-pin": Address("operate", POST, 302, ("index id",)),
    "manage-corpora": Address("operate", GET, 200),
    "manage-corpus-remove": Address("operate", GET, 200, ("corpus",)),
    "manage-corpus": Address("operate", GET, 200, ("corpus",)),
    "manage-spans": Address("operate", GET, 200, ("spans",)),
    "manage-sources": Address("operate", GET, 200),
    "manage-documents": Address("operate", GET, 503),  # the corpus's files are not there
    "manage-document-add": Address("operate", GET, 200),
    "manage-document": Address("operate", GET, 503),
    "manage-document-change": Address("operate", GET, 503),
    "manage-document-remove": Address("operate", GET, 503),
    "manage-document-restore": Address("operate", POST, 503),
    "manage-collections": Address("operate", GET, 503),
    "manage-collection": Address("operate", GET, 302),
    "manage-collection-remove": Address("operate", POST, 302),
    "manage-documents-bring": Address("operate", POST, 302),
    "manage-documents-fold": Address("operate", POST, 302),
    "manage-document-purge": Address("operate", GET, 503),
    "manage-purge": Address("operate", GET, 404, ("no purge",)),
    "manage-document-changes": Address("operate", GET, 200),
    "manage-document-change-page": Address("operate", GET, 200, ("change",)),
    "manage-document-change-again": Address("operate", POST, 302, ("change",)),
    "manage-source-remove": Address("operate", POST, 302),
    "manage-questions": Address("curate", GET, 200),
    "manage-questions-from-feedback": Address("curate", POST, 302),
    "manage-questions-remove": Address("curate", GET, 200, ("questions",)),
    "manage-question-set": Address("curate", GET, 200, ("questions",)),
    "manage-feedback": Address("curate", GET, 200),
    "manage-feedback-export": Address("curate", GET, 200),
    "manage-feedback-review": Address("curate", POST, 302, ("said",)),
    "manage-evaluation": Address("curate", GET, 200, ("first",)),
    "manage-evaluation-plot": Address("curate", GET, 200, ("first", "figures")),
    "manage-compare": Address("curate", GET, 200),
    "manage-compare-measure": Address("operate", POST, 422),
    "manage-comparison": Address("curate", GET, 200, ("first", "second")),
    "manage-deployments": Address("operate", GET, 200),
    "manage-deployed": Address("operate", GET, 286),
    "manage-deploy": Address("operate", POST, 404),
    "manage-deploy-measure": Address("operate", POST, 404),
    "manage-roll-back": Address("operate", GET, 302, ("deployment",)),
    "manage-schedules": Address("operate", GET, 200),
    "manage-schedule-new": Address("operate", GET, 200),
    "manage-schedule": Address("operate", GET, 200, ("schedule",)),
    "manage-schedule-remove": Address("operate", POST, 302, ("schedule",)),
    "manage-schedule-run": Address("operate", POST, 302, ("schedule",)),
    "manage-retention": Address("operate", POST, 422),
    "manage-retention-remove": Address("operate", POST, 302),
    "manage-audit": Address("operate", GET, 200),
}
# Of pages that also take a form: what is sent is wrong or empty, and who may send it is told so.
FORMS = {
    "ask POST": Address("ask", POST, 422),
    "account-password POST": Address("account", POST, 200),
    "manage-job-new POST": Address("operate", POST, 422, ("index",)),
    "manage-schedule-new POST": Address("operate", POST, 422),
    "manage-schedule POST": Address("operate", POST, 422, ("schedule",)),
    "manage-questions POST": Address("curate", POST, 422),
    "manage-sources POST": Address("operate", POST, 422),
    "manage-document-add POST": Address("operate", POST, 422),
    "manage-roll-back POST": Address("operate", POST, 302, ("deployment",)),
}
API = {
    "api-ask": Address("ask", POST, 400, body={}),
    "mcp": Address("ask, with a token", POST, 400, body={}),
    "api-retrieve": Address("ask", POST, 400, body={}),
    "api-fill": Address("ask", POST, 400, body={}),
    "api-batch": Address("ask", POST, 400, body={}),
    "api-answers": Address("ask", GET, 200),
    "api-article": Address("read", GET, 404, ("no block",)),
    "api-answer": Address("read", GET, 200, ("answer",)),
    "api-feedback": Address("feedback", POST, 400, ("answer",), {}),
    "api-why": Address("explain", POST, 400, ("answer",), {}),
    "api-block": Address("read", GET, 404, ("no block",)),
    "api-documents": Address("read documents", GET, 503),  # its files are not there
    "api-collections": Address("read documents", GET, 503),
    "api-collection": Address("operate", GET, 404, ("a collection",)),
    "api-documents-bulk": Address("edit", POST, 400, body={}),
    "api-documents-bulk-remove": Address("edit", POST, 400, body={}),
    "api-document": Address("read documents", GET, 503, ("a document",)),
    "api-document-touched": Address("edit", GET, 503, ("a document",)),
    "api-document-restore": Address("edit", POST, 503, ("a document",), body={}),
    "api-document-changes": Address("edit", GET, 200),
    "api-change-answers": Address("edit", GET, 200, ("change",)),
    "api-original": Address("read documents", GET, 404, ("a document",)),
    "api-purges": Address("operate", GET, 200),
    "api-purge": Address("operate", GET, 404, ("no purge",)),
    "api-schema": Address("nothing", GET, 200),
    "api-docs": Address("nothing", GET, 200),
    "api-job-kinds": Address("operate", GET, 200),
    "api-jobs": Address("operate", GET, 200),
    "api-job": Address("operate", GET, 200, ("running",)),
    "api-job-stop": Address("operate", POST, 409, ("ended",)),
    "api-job-resume": Address("operate", POST, 409, ("running",)),
    "api-job-log": Address("operate", GET, 200, ("running",)),
    "api-job-metrics": Address("operate", GET, 200, ("running",)),
    "api-corpora": Address("operate", GET, 200),
    "api-corpus": Address("operate", GET, 200, ("corpus",)),
    "api-models": Address("operate", GET, 200),
    "api-model": Address("operate", GET, 200, ("model",)),
    "api-indexes": Address("operate", GET, 200),
    "api-index": Address("operate", GET, 200, ("index id",)),
    "api-question-sets": Address("operate", GET, 200),
    "api-question-set": Address("operate", GET, 200, ("questions",)),
    "api-span-sets": Address("operate", GET, 200),
    "api-span-set": Address("operate", GET, 200, ("spans",)),
    "api-evaluations": Address("operate", GET, 200),
    "api-evaluation": Address("operate", GET, 200, ("first",)),
    "api-predictions": Address("operate", GET, 200, ("first",)),
    "api-deployments": Address("operate", GET, 200),
    "api-all-feedback": Address("operate", GET, 200),
    "api-feedback-export": Address("operate", GET, 200),
    "api-deployment": Address("operate", GET, 200, ("deployment",)),
    "api-activate": Address("operate", POST, 422, ("deployment",), {}),  # its files are not there
    "api-schedules": Address("operate", GET, 200),
    "api-schedule": Address("operate", GET, 200, ("schedule",)),
    "api-retention": Address("operate", GET, 200),
    "api-source-files": Address("operate", GET, 200),
    "api-source-file": Address("operate", "delete", 404, ("gone.jsonl",)),
    "api-schedule-run": Address("operate", POST, 400, ("schedule",), {"a": 1}),
    "api-audit-trail": Address("operate", GET, 200),
}
# The other methods of an address, by its name and the method.
MORE = {
    "api-feedback get": Address("feedback", GET, 404, ("answer",)),
    "api-feedback delete": Address("feedback", "delete", 404, ("answer",)),
    "api-jobs post": Address("operate", POST, 400, body={"kind": "unknown"}),
    "api-documents post": Address("edit", POST, 400, body={}),
    "api-document put": Address("edit", "put", 400, ("a document",)),
    "api-document delete": Address("edit", "delete", 503, ("a document",)),  # its files are not there
    "api-collection put": Address("operate", "put", 400, ("n" * 101,)),  # no name is that long
    "api-collection delete": Address("operate", "delete", 404, ("a collection",)),
    "api-purges post": Address("operate", POST, 400, body={}),
    "api-source-files post": Address("operate", POST, 415, body={}),  # no file of a form
    "api-question-sets post": Address("operate", POST, 415, body={}),
    "api-schedules post": Address("operate", POST, 400, body={}),
    "api-retention patch": Address("operate", "patch", 200),
    "api-schedule patch": Address("operate", "patch", 200, ("schedule",)),
    "api-schedule delete": Address("operate", "delete", 404, (10**9,)),
    "api-deployments post": Address("operate", POST, 400, body={"index": 10**9}),
}


def names(patterns: list[Any]) -> Iterator[str]:
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            if pattern.namespace != "admin":  # see test_administration.py
                yield from names(pattern.url_patterns)
        elif isinstance(pattern, URLPattern) and pattern.name:
            yield pattern.name


def test_every_address_is_tested() -> None:
    assert set(names(get_resolver().url_patterns)) == PAGES.keys() | API.keys()


class Callers(dict[str, Client]):
    """A browser or a program for each of `CALLERS`, made for its first call; to make all takes longer."""

    def __init__(self) -> None:
        self._people = {
            "asker": User.objects.create_user("Memo"),
            "curator": User.objects.create_user("Cora"),
            "admin": User.objects.create_user("Stella", is_staff=True),
        }
        self._people["curator"].groups.add(Group.objects.get_or_create(name="curators")[0])

    def __missing__(self, name: str) -> Client:
        who, _, scope = name.partition("'s ")
        if who == "anonymous":
            self[name] = Client()
        else:
            self[name] = TokenClient(self._people[who], scope) if scope else logged_in(self._people[who])
        return self[name]


@pytest.fixture
def callers(db: None) -> Callers:
    return Callers()


@pytest.mark.parametrize("name", [*PAGES, *FORMS])
def test_page(name: str, settings: Any, callers: Callers, engine: FakeEngine) -> None:
    page = PAGES[name] if name in PAGES else FORMS[name]
    for closed in (False, True):
        settings.REALM_PUBLIC = not closed
        address = reverse(name.split()[0], args=_ends(page.ends))
        for who in _asked(page.needs, closed, ("anonymous", "asker", "curator", "admin")):
            response = _call(callers[who], page, address)
            if who in NEEDS[page.needs][closed]:
                assert response.status_code == page.status, (who, closed)
            elif who == "anonymous":
                assert response.status_code == 302, closed
                assert response["Location"].startswith("/accounts/login/?next=/"), closed
            else:
                assert response.status_code == 403, (who, closed)
    if (
        page.method == POST and page.needs != "nothing" and name in PAGES
    ):  # what changes something is not done by a link
        assert callers["admin"].get(address).status_code in (302, 404, 405)


@pytest.mark.parametrize("needs", sorted({call.needs for call in (API | MORE).values()}))
def test_addresses_of_the_api(
    needs: str, settings: Any, callers: Callers, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    # To make the whole and to write it takes a third of a second; who may read it does not depend on what it says.
    monkeypatch.setattr(reference, "reference", lambda: reference.Reference("Nothing is described."))
    monkeypatch.setattr(SchemaGenerator, "get_schema", lambda *_given, **_more: {"openapi": "3.0.3", "paths": {}})
    for number, (name, call) in enumerate((name, call) for name, call in (API | MORE).items() if call.needs == needs):
        asked = CALLERS if number == 0 or NIGHTLY else TELLING
        for closed in (False, True):
            settings.REALM_PUBLIC = not closed
            address = reverse(name.split()[0], args=_ends(call.ends))
            for who in _asked(needs, closed, asked):
                status = _call(callers[who], call, address).status_code
                if who in NEEDS[needs][closed]:
                    assert status == call.status, (name, who, closed)
                else:
                    unknown = who == "anonymous" or (name == "mcp" and who in PEOPLE)
                    assert status == (401 if unknown else 403), (name, who, closed)


def _asked(needs: str, closed: bool, callers: Sequence[str]) -> list[str]:
    """All on an open site; every day on a closed one two who differ there, and those for whom closing it matters."""
    everybody = not closed or NIGHTLY
    on_open, on_closed = NEEDS[needs]
    return [who for who in callers if everybody or who in {"anonymous", "asker"} | (on_open - on_closed)]


def test_a_token_opens_no_page(callers: Callers) -> None:
    for address in ("/account/", "/manage/", "/manage/feedback/"):
        assert callers["admin's operate"].get(address).status_code == 302


def test_what_anybody_may_read_a_bad_token_may_not(engine: FakeEngine) -> None:
    address = reverse("api-answer", args=[stored.store().pk])
    assert Client(headers={"Authorization": "Bearer realm_wrong"}).get(address).status_code == 401


def test_htmx_is_sent_to_the_login_as_a_whole(settings: Any, db: None) -> None:
    settings.REALM_PUBLIC = False
    headers = {"HX-Request": "true", "HX-Current-URL": "http://testserver/history/?page=2"}
    response = Client(headers=headers).post("/", {"question": "Who?"})
    assert response.status_code == 200 and not response.content
    assert response["HX-Redirect"] == "/accounts/login/?next=/history/%3Fpage%3D2&unsent=1"


def test_a_closed_account_is_nobody(callers: Callers, settings: Any) -> None:
    settings.REALM_PUBLIC = False
    everybody = [callers[who] for who in CALLERS]
    User.objects.update(is_active=False)
    for client in everybody:
        assert client.get("/manage/").status_code == 302
        assert client.get("/api/v1/jobs").status_code == 401


def _call(client: Client, call: Address, address: str) -> Any:
    if call.method == POST and address.startswith(("/api/", "/mcp")):
        body = "" if call.body is None else json.dumps(call.body)
        return client.post(address, body, content_type="application/json")
    return getattr(client, call.method)(address)


def _ends(ends: tuple[str, ...]) -> list[Any]:
    """What stands in the address, as records that are made for it; a word that names no record is itself."""
    return [_record(end) for end in ends]


def _record(name: str) -> Any:
    active = Deployment.active()
    assert active is not None
    match name:
        case "running":
            running = job(state=JobState.RUNNING)
            JobMetric.objects.create(job=running, step=1, time=running.created_at, values={"ict.loss": 1.0})
            return running.pk
        case "ended":
            return job(state=JobState.STOPPED).pk
        case "model":
            return active.model_id
        case "index id":
            return active.index_id
        case "corpus":
            return active.index.corpus_id
        case "spans":
            return (SpanSet.objects.first() or span_set(active.index)).pk
        case "questions":
            return _questions().pk
        case "first":
            return measured(active.model, active.index, _questions(), ANSWERS).pk
        case "second":
            other = another_model(f"other-{ModelVersion.objects.count()}")
            return measured(other, active.index, _questions(), ANSWERS).pk
        case "deployment":
            return active.pk
        case "schedule":
            return Schedule.objects.create(corpus_name=active.index.corpus.name, trigger="every", hours=1).pk
        case "change":
            return corpus_change(active.index).pk
        case "answer":
            return stored.store().pk
        case "block":
            return stored.store().payload["evidence"][0]["block_id"]
        case "no purge":
            return uuid.UUID(int=0)
        case "no block":
            return "f" * 32
        case "said":
            return Feedback.objects.create(answer=stored.store(), right=True).pk
        case "somebody's token":
            return ApiToken.issue(User.objects.get_or_create(username="Else")[0], "else", ["ask"])[0].pk
    return name


def _questions() -> QuestionSet:
    return QuestionSet.objects.first() or question_set()
