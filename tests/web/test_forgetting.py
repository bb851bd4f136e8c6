"""Somebody who asks to be forgotten, and records of logins that are forgotten by themselves."""

from __future__ import annotations

from datetime import timedelta

import pytest
from axes.models import AccessLog
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.core.management import CommandError
from django.test import Client
from django.utils import timezone

from tests.web.command_line import command
from tests.web.conftest import FakeEngine, Person
from webapp.accounts.forgetting import LOGINS_KEPT, forget_logins
from webapp.accounts.service import make_token
from webapp.models import ApiToken, AskedAnswer, AuditEntry, Feedback

pytestmark = pytest.mark.postgresql_first

PASSWORD = "correct horse battery"


@pytest.fixture
def leaver(engine: FakeEngine) -> tuple[User, Client]:
    """Somebody who asked before and after the login, over REST as well, and judged another person's answer."""
    user = User.objects.create_user("Lea", password=PASSWORD)
    client = Client()
    client.post("/", {"question": "Asked before?"})
    client.post("/accounts/login/", {"username": "Lea", "password": PASSWORD})
    client.post("/", {"question": "Asked after?"})
    _, token = make_token(user, "program", ["ask"], by=None)
    Client().post(
        "/api/v1/ask",
        {"question": "Asked by a program?"},
        content_type="application/json",
        headers={"Authorization": f"Bearer {token}", "Idempotency-Key": "once"},
    )
    return user, client


def test_all_that_is_kept_of_a_person_goes(leaver: tuple[User, Client], member: Person, engine: FakeEngine) -> None:
    user, client = leaver
    member.client.post("/", {"question": "Asked by another?"})
    others = AskedAnswer.objects.get(asker=member.user)
    Feedback.objects.create(answer=others, by=user, right=True)
    assert "       3  questions" in command("forget_person", "Lea") and AskedAnswer.objects.count() == 4
    assert "       3  questions" in command("forget_person", "Lea", "--yes")
    assert list(AskedAnswer.objects.all()) == [others]
    assert not Feedback.objects.exists() and not ApiToken.objects.exists()
    assert not AccessLog.objects.filter(username="Lea").exists()
    assert not User.objects.filter(username="Lea").exists()
    assert client.get("/account/").status_code == 302
    said = " ".join(f"{entry.name} {entry.target} {entry.details}" for entry in AuditEntry.objects.all())
    assert "Lea" not in said and f"'user': 'account {user.pk}'" in said
    assert AuditEntry.objects.get(action="person.forget").details["questions"] == 3


def test_what_an_administrator_did_stays_without_the_name(staff: Person) -> None:
    User.objects.create_superuser("Root", password=PASSWORD)
    entry = AuditEntry.record("deploy", "Deployment 1", by=staff.user)
    command("forget_person", staff.name, "--yes")
    entry.refresh_from_db()
    assert (entry.name, entry.target, entry.by) == (f"account {staff.user.pk}", "Deployment 1", None)  # type: ignore[union-attr]


def test_the_only_superuser_and_nobody_are_refused(db: None) -> None:
    User.objects.create_superuser("Root", password=PASSWORD)
    with pytest.raises(CommandError, match="the only superuser"):
        command("forget_person", "Root", "--yes")
    with pytest.raises(CommandError, match="no account Nobody"):
        command("forget_person", "Nobody")


def test_old_records_of_logins_and_ended_sessions_go(db: None) -> None:
    now = timezone.now()
    for name, age in (("old", LOGINS_KEPT + timedelta(days=1)), ("new", timedelta(days=1))):
        AccessLog.objects.create(username=name, ip_address="192.0.2.1", user_agent="", http_accept="", path_info="")
        AccessLog.objects.filter(username=name).update(attempt_time=now - age)
        Session.objects.create(session_key=name, session_data="", expire_date=now + timedelta(days=30) - age)
    assert forget_logins(now) == 2
    assert [one.username for one in AccessLog.objects.all()] == ["new"]
    assert [one.session_key for one in Session.objects.all()] == ["new"]
