"""Logins and logouts: written down, and short for those who may administrate."""

from __future__ import annotations

import pytest
from django.conf import settings
from django.test import Client
from django.urls import reverse

from tests.web.conftest import Person
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


def test_an_administrators_session_ends_within_a_day(member: Person, staff: Person, client: Client) -> None:
    _log_in(client, staff)
    assert client.session.get_expiry_age() == settings.STAFF_SESSION_SECONDS <= 24 * 3600
    assert client.get("/manage/").status_code == 200
    other = Client()
    _log_in(other, member)
    assert other.session.get_expiry_age() == settings.SESSION_COOKIE_AGE


def test_a_long_session_ends_when_its_user_becomes_staff(member: Person, client: Client) -> None:
    _log_in(client, member)
    assert client.get(reverse("account")).status_code == 200
    member.user.is_staff = True
    member.user.save()
    sent = client.get("/manage/")
    assert sent.status_code == 302 and sent["Location"].startswith(reverse("login"))
    _log_in(client, member)
    assert client.get("/manage/").status_code == 200
    assert client.session.get_expiry_age() == settings.STAFF_SESSION_SECONDS
