"""Logins and logouts: written down, and short for those who may administrate."""

from __future__ import annotations

import pytest
from django.conf import settings
from django.test import Client
from django.urls import reverse

from tests.web.conftest import Person
from webapp.models import AuditEntry

pytestmark = pytest.mark.django_db


def _written() -> list[tuple[str, str]]:
    return list(AuditEntry.objects.order_by("pk").values_list("action", "name"))


def _log_in(client: Client, person: Person) -> None:
    person.user.set_password("correct horse battery")
    person.user.save()
    name = person.user.username
    sent = client.post(reverse("login"), {"username": name, "password": "correct horse battery"})
    assert sent.status_code == 302


def test_login_and_logout_are_written_down(member: Person, client: Client) -> None:
    _log_in(client, member)
    assert _written() == [("login", member.user.username)]
    client.post(reverse("logout"))
    assert _written() == [("login", member.user.username), ("logout", member.user.username)]
    client.post(reverse("logout"))  # nobody is there any more
    assert len(_written()) == 2


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
