"""Tokens: who may do what with one, and how they are made and revoked."""

from __future__ import annotations

from datetime import timedelta
from io import StringIO

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError
from django.test import Client
from django.utils import timezone

from tests.web.command_line import command
from tests.web.conftest import FakeEngine, Person
from tests.web.operating import TokenClient, post, problem
from webapp.models import ApiToken, AskedAnswer, AuditEntry

QUESTION = {"question": "Who directed it?"}


def test_a_token_asks_for_its_person(engine: FakeEngine, member: Person) -> None:
    assert post(TokenClient(member.user, "ask"), "ask", QUESTION).status_code == 201
    assert AskedAnswer.objects.get().asker == member.user


def test_a_token_that_is_not_for_asking(engine: FakeEngine, program: TokenClient) -> None:
    for address in ("ask", "retrieve"):
        assert "scope ask" in problem(post(program, address, QUESTION), 403)["detail"]
    problem(post(program, "fill", {"sentence": "A [MASK]."}), 403)
    assert engine.asked == []


@pytest.mark.parametrize("words", ["Bearer realm_unknown", "bearer", "Bearer a b", "Bearer \xff"])
@pytest.mark.parametrize("address", ["ask", "jobs"])
def test_a_bad_token_is_never_taken_for_somebody_anonymous(engine: FakeEngine, words: str, address: str) -> None:
    response = post(Client(headers={"Authorization": words}), address, QUESTION)
    problem(response, 401)
    assert response["WWW-Authenticate"] == 'Bearer error="invalid_token"'
    assert engine.asked == []


def test_tokens_end(engine: FakeEngine, member: Person) -> None:
    owner = member.user
    expired = TokenClient(owner, "ask", expires_at=timezone.now() - timedelta(seconds=1))
    revoked, dismissed = TokenClient(owner, "ask"), TokenClient(owner, "ask")
    assert post(revoked, "ask", QUESTION).status_code == 201
    command("revoke_token", revoked.record.start)
    for client in (expired, revoked):
        problem(post(client, "ask", QUESTION), 401)
    User.objects.update(is_active=False)
    problem(post(dismissed, "ask", QUESTION), 401)
    assert len(engine.asked) == 1


@pytest.mark.parametrize("scheme", ["", "Token "])
@pytest.mark.parametrize("address", ["ask", "mcp"])
def test_a_token_without_its_scheme_is_never_taken_for_somebody_anonymous(
    engine: FakeEngine, member: Person, scheme: str, address: str
) -> None:
    _, good = ApiToken.issue(member.user, "test", ["ask"])
    client = Client(headers={"Authorization": f"{scheme}{good}"})
    response = post(client, "ask", QUESTION) if address == "ask" else client.post("/mcp", {})
    assert "Authorization: Bearer realm_…" in problem(response, 401)["detail"]
    assert engine.asked == []


def test_other_schemes_are_left_to_whoever_asked_for_them(engine: FakeEngine) -> None:
    assert post(Client(headers={"Authorization": "Basic YTpi"}), "ask", QUESTION).status_code == 201


def test_without_a_token_where_one_is_needed(outsider: Person) -> None:
    response = outsider.client.get("/api/v1/jobs")
    problem(response, 401)
    assert response["WWW-Authenticate"] == "Bearer"


def test_a_token_cannot_do_more_than_its_person(member: Person, staff: Person, program: TokenClient) -> None:
    assert program.get("/api/v1/jobs").status_code == 200
    User.objects.filter(pk=staff.user.pk).update(is_staff=False)
    problem(program.get("/api/v1/jobs"), 403)
    problem(TokenClient(member.user, "operate").get("/api/v1/jobs"), 403)


def test_a_session_needs_the_csrf_token_and_a_token_does_not(staff: Person, program: TokenClient) -> None:
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(staff.user, backend="django.contrib.auth.backends.ModelBackend")
    assert "CSRF" in problem(post(browser, "jobs", {"kind": "ingest", "parameters": {}}), 403)["detail"]
    assert post(program, "jobs", {"kind": "ingest", "parameters": {}}).status_code == 201


def test_the_last_use_is_noted_once_a_minute(program: TokenClient) -> None:
    program.get("/api/v1/jobs")
    program.record.refresh_from_db()
    first = program.record.last_used_at
    assert first is not None and timezone.now() - first < timedelta(seconds=20)
    program.get("/api/v1/jobs")
    program.record.refresh_from_db()
    assert program.record.last_used_at == first
    ApiToken.objects.update(last_used_at=first - timedelta(seconds=61))
    program.get("/api/v1/jobs")
    program.record.refresh_from_db()
    assert program.record.last_used_at is not None and program.record.last_used_at >= first


# ---- the commands


def test_create_and_revoke(staff: Person) -> None:
    said = StringIO()
    options = ["--scope", "operate", "--scope", "ask", "--name", "nightly", "--days", "30"]
    token = command("create_token", "Stella", *options, stderr=said).strip()
    record = ApiToken.objects.get()
    assert ApiToken.of(token) == record and record.scopes == ["ask", "operate"] and record.name == "nightly"
    assert record.expires_at is not None and 29 < (record.expires_at - timezone.now()).days + 1 <= 30
    assert token not in said.getvalue() and "Stella" in said.getvalue()
    assert Client(headers={"Authorization": f"Bearer {token}"}).get("/api/v1/jobs").status_code == 200

    listed = command("revoke_token")
    assert token[:12] in listed and token not in listed and "nightly" in listed
    assert "not active" not in listed
    User.objects.filter(username="Stella").update(is_active=False)
    assert "refused while the account is not active" in command("revoke_token")
    User.objects.filter(username="Stella").update(is_active=True)
    command("revoke_token", token)
    assert ApiToken.of(token) is None
    with pytest.raises(CommandError, match="No valid token"):
        command("revoke_token", token)
    with pytest.raises(CommandError, match="No valid token"):
        command("revoke_token", "realm_")
    entries = [(e.action, e.name, e.details["user"]) for e in AuditEntry.objects.order_by("pk")]
    assert entries == [("token.create", "command line", "Stella"), ("token.revoke", "command line", "Stella")]
    assert token not in str([(e.target, e.details) for e in AuditEntry.objects.all()])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["Nobody", "--scope", "ask"], "no active user Nobody"),
        (["Memo", "--scope", "operate"], "Memo is not an admin"),
        (["Memo", "--scope", "ask", "--days", "0"], "1 to 3650 days"),
        (["Memo", "--scope", "everything"], "invalid choice"),
        (["Memo"], "--scope"),
    ],
)
def test_tokens_that_cannot_be_made(member: Person, arguments: list[str], said: str) -> None:
    with pytest.raises(CommandError, match=said):
        command("create_token", *arguments)
    assert not ApiToken.objects.exists()
