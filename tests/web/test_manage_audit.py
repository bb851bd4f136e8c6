"""What is done in the administration stands in the audit trail, whatever page it is done on."""

from __future__ import annotations

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group, User
from django.test import Client

from tests.web.conftest import Person
from tests.web.pages import stored
from webapp.admin.audited import Audited
from webapp.models import AskedAnswer, AuditEntry

pytestmark = pytest.mark.django_db


@pytest.fixture
def client(staff: Person) -> Client:
    """Of somebody who may do everything."""
    User.objects.filter(username="Stella").update(is_superuser=True)
    return staff.client


def entries() -> list[tuple[str, str, str]]:
    assert not AuditEntry.objects.exclude(by__username="Stella").exists()
    found = AuditEntry.objects.order_by("pk")
    return [(entry.action, entry.target, entry.details.get("change", "")) for entry in found]


def test_every_page_of_the_administration_is_audited() -> None:
    assert User in admin.site._registry and AskedAnswer in admin.site._registry
    assert [page for page in admin.site._registry.values() if not isinstance(page, Audited)] == []


def test_accounts_and_what_they_may_do_are_written_down(client: Client) -> None:
    curators = Group.objects.get_or_create(name="curators")[0]
    password = "a long enough password"
    form = {"username": "Nora", "usable_password": "true", "password1": password, "password2": password}
    assert client.post("/admin/auth/user/add/", form).status_code == 302
    nora = User.objects.get(username="Nora")
    joined = {"date_joined_0": "2026-01-01", "date_joined_1": "00:00:00"}
    change = {"username": "Nora", "is_active": "on", "is_staff": "on", "groups": [curators.pk], **joined}
    assert client.post(f"/admin/auth/user/{nora.pk}/change/", change).status_code == 302
    assert client.post(f"/admin/auth/user/{nora.pk}/delete/", {"post": "yes"}).status_code == 302
    added, changed, removed = entries()
    assert added == ("record.add", "user Nora", "Added.")
    assert changed[:2] == ("record.edit", "user Nora") and "Staff status" in changed[2] and "Groups" in changed[2]
    assert removed == ("record.remove", "user Nora", "")
    assert b"user Nora" in client.get("/manage/audit/").content


def test_answers_deleted_together_are_written_down_without_what_was_asked(client: Client) -> None:
    answers = [stored.store() for _ in range(2)]
    form = {"action": "delete_selected", "_selected_action": [one.pk for one in answers], "post": "yes"}
    assert client.post("/admin/webapp/askedanswer/", form).status_code == 302
    assert not AskedAnswer.objects.exists()
    assert sorted(entries()) == sorted(("record.remove", f"asked answer {one.pk}", "") for one in answers)
