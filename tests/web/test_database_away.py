"""A database that does not answer is nobody's mistake: every door says so, and when to come back."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.sessions.backends.db import SessionStore
from django.db import InterfaceError, OperationalError
from django.db.models import QuerySet
from django.test import Client

from tests.web.conftest import FakeEngine, Person
from tests.web.operating import post, problem
from webapp.accounts.service import make_token
from webapp.models import ApiToken

pytestmark = pytest.mark.both_databases

AWAY = [OperationalError("the connection is lost"), InterfaceError("the connection is closed")]
SAID = "The database does not answer."


def away(*_arguments: Any, **_options: Any) -> Any:
    raise OperationalError("the connection is lost")


@pytest.mark.parametrize("error", AWAY)
def test_whoever_asks_is_told_when_to_come_back(client: Client, engine: FakeEngine, error: Exception) -> None:
    engine.error = error
    asked = post(client, "ask", {"question": "Who?"})
    assert problem(asked, 503)["detail"] == SAID and int(asked["Retry-After"]) > 0
    told = post(client, "ask/batch", {"questions": ["Who?"]}).json()["results"][0]["problem"]
    assert (told["status"], told["detail"]) == (503, SAID) and told["retry_after_s"] > 0


def test_a_page(engine: FakeEngine) -> None:
    engine.error = AWAY[0]
    response = Client(raise_request_exception=False).post("/", {"question": "Who?"})
    assert response.status_code == 503 and int(response["Retry-After"]) > 0
    assert SAID in response.content.decode() and "our mistake" not in response.content.decode()


@pytest.mark.parametrize(
    "says",
    ["database or disk is full", 'could not extend file "base/5/1": No space left on device\nHINT:  Check free disk'],
)
def test_a_full_disk_is_named(engine: FakeEngine, says: str) -> None:
    engine.error = OperationalError(says)
    client = Client(raise_request_exception=False)
    asked = post(client, "ask", {"question": "Who?"})
    assert problem(asked, 503)["detail"].startswith("The database's disk is full")
    assert "disk is full" in client.post("/", {"question": "Who?"}).content.decode()


def test_a_token_can_read_where_its_use_cannot_be_noted(member: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    _, token = make_token(member.user, "mine", {"ask"}, days=None, by=None)

    def full(*_arguments: Any, **_options: Any) -> Any:
        raise OperationalError("database or disk is full")

    monkeypatch.setattr(QuerySet, "update", full)
    response = Client().get("/api/v1/answers", headers={"Authorization": f"Bearer {token}"})
    assert response.status_code == 200 and response.json()["results"] == []


@pytest.mark.parametrize("path", ["/api/v1/answers", "/mcp", "/history/"])
def test_a_request_without_a_database_is_a_503_with_retry_after(
    member: Person, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr(SessionStore, "load", away)
    monkeypatch.setattr(ApiToken, "of", away)
    member.client.raise_request_exception = False
    response = member.client.generic("POST" if path == "/mcp" else "GET", path, headers={"Authorization": "Bearer x"})
    assert response.status_code == 503 and int(response["Retry-After"]) > 0 and SAID in response.content.decode()
    assert response["Content-Type"].startswith("text/html" if path == "/history/" else "application/problem+json")


def test_a_tool_says_it_to_the_model_that_called(client: Client, engine: FakeEngine) -> None:
    engine.error = AWAY[0]
    call = {"name": "ask", "arguments": {"question": "Who?"}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    result = client.post("/mcp", message, content_type="application/json").json()["result"]
    assert result["isError"] and SAID in result["content"][0]["text"]


@pytest.mark.django_db
def test_who_watches_the_site_is_told_what_is_missing(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone() -> Any:
        raise InterfaceError("the connection is closed")

    monkeypatch.setattr("webapp.operations.health.holder", gone)
    response = client.get("/readyz")
    assert response.status_code == 503 and response.json()["database"] == "unavailable"
