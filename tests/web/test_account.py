"""One's own page: tokens made, shown once, listed and revoked; the password; logging in and out."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from realm_core.errors import RealmError
from tests.web.conftest import FakeEngine, Person
from tests.web.console import ANSWERS, another_model, measured, question_set
from tests.web.operating import TokenClient, post
from tests.web.pages import stored
from tests.web.pages.pages import Page
from webapp.access.roles import CURATORS
from webapp.accounts import service as accounts
from webapp.models import ApiToken, AuditEntry, Feedback
from webapp.models.token import SCOPES

pytestmark = pytest.mark.django_db
PASSWORD = "a long walk by the sea"


def account(person: Person) -> str:
    return str(person.client.get("/account/").content.decode())


def test_a_token_is_shown_once_and_works(engine: FakeEngine, member: Person) -> None:
    form = {"name": "my script", "scopes": ["ask", "feedback"], "days": "30"}
    made = member.client.post("/account/tokens/", form)
    assert "no-store" in made["Cache-Control"]
    (token,) = re.findall(r"realm_[\w-]{43}", made.content.decode())
    record = ApiToken.objects.get()
    assert (record.user, record.name, record.scopes) == (member.user, "my script", ["ask", "feedback"])
    assert record.expires_at is not None and record.expires_at - timezone.now() < timedelta(days=30)
    client = Client(headers={"Authorization": f"Bearer {token}"})
    assert post(client, "ask", {"question": "Who?"}).status_code == 201

    listed = account(member)
    assert token not in listed and "my script" in listed and record.start in listed and "Last used" in listed
    assert all(token not in str(session) for session in member.client.session.values())
    response = member.client.post(f"/account/tokens/{record.pk}/revoke/", follow=True)
    assert "is revoked" in response.content.decode() and record.start not in response.content.decode()
    assert post(client, "ask", {"question": "Who?"}).status_code == 401
    assert [(entry.action, entry.by) for entry in AuditEntry.objects.order_by("pk")] == [
        ("token.create", member.user),
        ("token.revoke", member.user),
    ]
    assert token not in str(AuditEntry.objects.values_list())


def test_a_token_of_somebody_else_is_not_there(member: Person, staff: Person) -> None:
    record, _ = ApiToken.issue(staff.user, "hers", ["operate"])
    assert "hers" not in account(member)
    assert member.client.post(f"/account/tokens/{record.pk}/revoke/").status_code == 404
    record.refresh_from_db()
    assert record.revoked_at is None


@pytest.mark.parametrize(
    ("form", "says"),
    [
        ({}, "Choose at least one."),
        ({"scopes": ["operate"]}, "operate is not one of the available choices"),
        ({"scopes": ["ask"], "days": "36500"}, "36500 is not one of the available choices"),
        ({"scopes": ["ask"], "name": "x" * 101}, "at most 100 characters"),
    ],
)
def test_tokens_that_cannot_be_made(member: Person, form: dict[str, Any], says: str) -> None:
    response = member.client.post("/account/tokens/", form)
    assert response.status_code == 422 and says in response.content.decode()
    assert not ApiToken.objects.exists()


def test_the_scopes_of_admins_are_offered_to_them_alone(member: Person, curator: Person, staff: Person) -> None:
    for person, offered in ((member, False), (curator, False), (staff, True)):
        values = [attributes.get("value") for attributes, _ in Page(account(person)).all("input")]
        assert [one for one in values if one in SCOPES] == list(SCOPES if offered else ("ask", "feedback"))


def test_there_is_an_end_to_tokens(member: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounts, "MOST_TOKENS", 2)
    ApiToken.issue(member.user, "expired", ["ask"], expires_at=timezone.now() - timedelta(days=1))
    for _ in range(2):
        accounts.make_token(member.user, "", ["ask"], by=member.user)
    with pytest.raises(RealmError, match="revoke one first"):
        accounts.make_token(member.user, "", ["ask"], by=member.user)
    assert "revoke one first" in member.client.post("/account/tokens/", {"scopes": ["ask"]}).content.decode()


def test_the_page_says_who_one_is(member: Person, curator: Person, staff: Person) -> None:
    for person, word in ((member, "You may ask"), (curator, "You are a curator"), (staff, "You are an admin")):
        page = Page(account(person))
        assert page.one("h1") == person.name and word in page.one("p", "lede")


def test_the_navigation_shows_what_is_open(outsider: Person, member: Person, curator: Person, staff: Person) -> None:
    own = {"Account", "Review", "Manage", "Log in"}
    for person, links in (
        (outsider, {"Log in"}),
        (member, {"Account"}),
        (curator, {"Account", "Review"}),
        (staff, {"Account", "Manage"}),
    ):
        shown = {text for _, text in Page(person.client.get("/").content.decode()).all("a")}
        assert shown & own == links


def test_a_curator_finds_no_link_that_is_closed(curator: Person) -> None:
    active = stored.deployment()
    questions = question_set()
    first = measured(active.model, active.index, questions, ANSWERS)
    second = measured(another_model(), active.index, questions, ANSWERS)
    Feedback.objects.create(answer=stored.store(), right=True, review="accepted")
    for address in (
        "/manage/feedback/?show=accepted",
        "/manage/questions/",
        f"/manage/questions/{questions.pk}/",
        f"/manage/evaluations/{first.pk}/",
        "/manage/compare/",
        f"/manage/compare/{first.pk}/{second.pk}/",
    ):
        source = curator.client.get(address).content.decode()
        links = [attributes["href"].partition("#")[0] for attributes, _ in Page(source).all("a")]
        for link in {link for link in links if link.startswith(("/manage", "/admin"))}:
            assert curator.client.get(link).status_code == 200, (address, link)


def test_the_password_is_changed_and_other_sessions_end(member: Person) -> None:
    elsewhere, program = Client(), TokenClient(member.user, "ask")
    elsewhere.force_login(member.user, backend="django.contrib.auth.backends.ModelBackend")
    wrong = {"old_password": "guess", "new_password1": PASSWORD, "new_password2": PASSWORD}
    assert "old password was entered incorrectly" in member.client.post("/account/password/", wrong).content.decode()
    weak = {"old_password": "p", "new_password1": "12345678", "new_password2": "12345678"}
    assert "entirely numeric" in member.client.post("/account/password/", weak).content.decode()
    right = {"old_password": "p", "new_password1": PASSWORD, "new_password2": PASSWORD}
    changed = member.client.post("/account/password/", right, follow=True)
    assert "Your password is changed" in changed.content.decode()
    assert elsewhere.get("/account/").status_code == 302
    assert program.get("/api/v1/answers").status_code == 200
    assert User.objects.get().check_password(PASSWORD)
    assert [entry.action for entry in AuditEntry.objects.exclude(action="login")] == ["password.change"]
    assert PASSWORD not in str(AuditEntry.objects.values_list())


def test_log_in_and_out(client: Client, member: Person) -> None:
    assert client.post("/accounts/login/", {"username": "Memo", "password": "wrong"}).status_code == 200
    response = client.post("/accounts/login/", {"username": "Memo", "password": "p", "next": "/history/"})
    assert response["Location"] == "/history/"
    assert b"Memo" in client.get("/account/").content
    assert client.post("/accounts/logout/")["Location"] == "/"


def test_a_closed_site_says_so_at_the_door(client: Client, settings: Any) -> None:
    assert "Questions need no account" in client.get("/accounts/login/").content.decode()
    settings.REALM_PUBLIC = False
    assert "answers people who have an account" in client.get("/accounts/login/").content.decode()


@pytest.mark.both_databases
def test_the_migration_makes_the_group_of_curators() -> None:
    from importlib import import_module

    from django.apps import apps
    from django.contrib.auth.models import Group

    migration = import_module("webapp.migrations.0005_curators")
    Group.objects.all().delete()
    for _ in range(2):
        migration.make_curators(apps, None)
    assert Group.objects.get().name == CURATORS


@pytest.mark.django_db
@pytest.mark.parametrize("password", ["letmein", "LetMeIn ", "Qwerty123", "stella"])
def test_an_admin_does_not_get_in_by_a_password_that_anybody_guesses(
    client: Client, settings: Any, password: str
) -> None:
    form = {"username": "Stella", "password": password}
    person = User.objects.create_user(**form, is_staff=True)
    settings.IN_PRODUCTION = "PROXIES"
    page = client.post("/accounts/login/", form)
    assert page.status_code == 200 and "manage.py changepassword Stella" in page.content.decode()
    assert "_auth_user_id" not in client.session

    settings.IN_PRODUCTION = ""  # on one's own machine nobody guesses
    assert client.post("/accounts/login/", form).status_code == 302
    settings.IN_PRODUCTION = "PROXIES"
    person.set_password("a river in the north")
    person.save()
    assert client.post("/accounts/login/", form | {"password": "a river in the north"}).status_code == 302


def test_who_is_no_admin_gets_in_by_any_password(client: Client, member: Person, settings: Any) -> None:
    settings.IN_PRODUCTION = "HTTPS"
    assert client.post("/accounts/login/", {"username": "Memo", "password": "p"}).status_code == 302
