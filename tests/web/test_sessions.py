"""Logins and logouts: written down, and short for those whose decisions affect everybody."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.conf import settings
from django.contrib.auth.models import Group, User
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from tests.web.conftest import Person
from tests.web.logged_in import logged_in
from webapp.access.roles import CURATORS
from webapp.models import ApiToken, AuditEntry

pytestmark = pytest.mark.django_db


def _written() -> list[tuple[str, str]]:
    return list(AuditEntry.objects.order_by("pk").values_list("action", "name"))


def _log_in(client: Client, person: Person) -> None:
    person.user.set_password("correct horse battery")
    person.user.save()
    name = person.user.username
    sent = client.post(reverse("login"), {"username": name, "password": "correct horse battery"})
    assert sent.status_code == 302


@pytest.mark.parametrize("address", ["logout", "admin:logout"])
def test_each_login_and_logout_is_one_audit_entry(staff: Person, client: Client, address: str) -> None:
    _log_in(client, staff)
    assert _written() == [("login", "Stella")]
    assert client.post(reverse(address)).status_code in (200, 302)
    assert _written() == [("login", "Stella"), ("logout", "Stella")]
    client.post(reverse(address))  # without a session
    assert len(_written()) == 2


def test_a_login_that_begins_at_the_administration_is_one_audit_entry(staff: Person, client: Client) -> None:
    sent = client.get(reverse("admin:index"), follow=True)
    assert sent.redirect_chain[-1][0].startswith(reverse("login"))
    _log_in(client, staff)
    assert client.get(reverse("admin:index")).status_code == 200
    assert _written() == [("login", "Stella")]


def test_a_request_with_a_token_is_no_login(member: Person, client: Client) -> None:
    _, token = ApiToken.issue(member.user, "a script", ["ask"])
    assert client.get(reverse("api-answers"), headers={"Authorization": f"Bearer {token}"}).status_code == 200
    assert _written() == []


def test_sessions_of_admins_and_curators_end_within_a_day(
    member: Person, curator: Person, staff: Person, client: Client
) -> None:
    for person, page in ((staff, "/manage/"), (curator, "/manage/feedback/")):
        _log_in(client, person)
        assert client.session.get_expiry_age() == settings.SHORT_SESSION_SECONDS <= 24 * 3600
        assert client.get(page).status_code == 200
    other = Client()
    _log_in(other, member)
    assert other.session.get_expiry_age() == settings.SESSION_COOKIE_AGE


def _make_admin(user: User) -> None:
    user.is_staff = True
    user.save()


def _make_curator(user: User) -> None:
    user.groups.add(Group.objects.get_or_create(name=CURATORS)[0])


@pytest.mark.parametrize(("promote", "page"), [(_make_admin, "/manage/"), (_make_curator, "/manage/feedback/")])
def test_a_long_session_ends_when_its_user_may_decide_more(
    member: Person, client: Client, promote: Callable[[User], None], page: str
) -> None:
    _log_in(client, member)
    assert client.get(reverse("account")).status_code == 200
    promote(member.user)
    sent = client.get(page)
    assert sent.status_code == 302 and sent["Location"].startswith(reverse("login"))
    _log_in(client, member)
    assert client.get(page).status_code == 200
    assert client.session.get_expiry_age() == settings.SHORT_SESSION_SECONDS


# ---- A form that was sent after the session had ended


@pytest.mark.parametrize(
    ("referer", "back"),
    [
        ("http://testserver/manage/jobs/new/ict/?model=1", "/manage/jobs/new/ict/%3Fmodel%3D1"),
        ("http://testserver//evil.example/", "/evil.example/"),
        ("http://evil.example/", "/manage/models/1/pin/"),
        ("", "/manage/models/1/pin/"),
    ],
)
def test_who_sends_a_form_without_a_session_is_told_and_comes_back_to_it(
    staff: Person, client: Client, referer: str, back: str
) -> None:
    sent = client.post("/manage/models/1/pin/", {"pinned": "1"}, headers={"Referer": referer})
    assert sent["Location"] == f"/accounts/login/?next={back}&unsent=1"
    told = "nothing of it was saved"
    assert told in client.get(sent["Location"]).content.decode()
    assert told not in client.get(f"/accounts/login/?next={back}").content.decode()
    staff.user.set_password("correct horse battery")
    staff.user.save()
    wrong = client.post("/accounts/login/?unsent=1", {"username": "Stella", "password": "wrong", "next": "/manage/"})
    assert wrong.status_code == 200 and told in wrong.content.decode()
    right = {"username": "Stella", "password": "correct horse battery", "next": "/manage/jobs/"}
    assert client.post("/accounts/login/?unsent=1", right)["Location"] == "/manage/jobs/"


def test_a_page_that_is_only_opened_without_a_session_says_nothing_of_a_form(client: Client) -> None:
    assert client.get("/manage/models/")["Location"] == "/accounts/login/?next=/manage/models/"


@pytest.mark.parametrize("address", ["/manage/documents/add/?way=file", "/manage/questions/"])
def test_a_long_upload_without_a_session_leads_to_the_login_too(member: Person, client: Client, address: str) -> None:
    """It is as long as only an admin's may be; "too large" was no answer to an admin who had been logged out."""

    def sent(browser: Client, length: int) -> HttpResponse:
        kind = {"content_type": "multipart/form-data; boundary=x", "CONTENT_LENGTH": str(length)}
        referer = {"headers": {"Referer": f"http://testserver{address}"}}
        return browser.generic("POST", address, b"--x--", **kind, **referer)  # type: ignore[arg-type, return-value]

    assert sent(client, 5 << 20)["Location"].startswith("/accounts/login/?next=/manage/")
    assert "unsent=1" in sent(client, 5 << 20)["Location"]
    assert sent(client, 5 << 30).status_code == 413
    assert sent(member.client, 5 << 20).status_code == 413


def test_a_form_that_has_expired_names_its_page(member: Person) -> None:
    browser = Client(enforce_csrf_checks=True)
    browser.cookies = logged_in(member.user).cookies
    page = {"headers": {"Referer": "http://testserver/account/?a=1"}}
    text = browser.post("/account/tokens/", {"name": "x"}, **page).content.decode()
    assert "Nothing of it was saved" in text and '<a href="/account/?a=1">' in text
