"""Everybody at every page of Django's administration.

Being an admin of the site opens its front page alone: its records are for superusers, and for staff to whom somebody
gave a permission. The table says what those may change; it is not taken from webapp.admin, which could be wrong.
"""

from __future__ import annotations

from typing import Any

import pytest
from axes.models import AccessAttempt, AccessFailureLog, AccessLog
from django.contrib import admin
from django.contrib.auth.models import Group, Permission, User
from django.db import transaction
from django.db.models import Model
from django.test import Client
from django.urls import reverse

from tests.nightly import NIGHTLY
from tests.web.logged_in import logged_in
from tests.web.operating import evaluation, job, question_set, span_set
from tests.web.pages import stored
from webapp.models import (
    ApiToken,
    AuditEntry,
    DeviceLease,
    Feedback,
    RetentionRule,
    Schedule,
    Scheduler,
    WebProcess,
    Worker,
)

pytestmark = pytest.mark.usefixtures("short_refusals")

# Each model, with what somebody who has every permission may do beside looking.
MAY: dict[str, set[str]] = {
    "auth_user": {"add", "change", "delete"},
    "auth_group": {"add", "change", "delete"},
    "axes_accessattempt": {"change", "delete"},  # none of its fields can be written; to delete it ends a lock
    "axes_accessfailurelog": {"change", "delete"},
    "axes_accesslog": {"change", "delete"},
    "webapp_askedanswer": {"delete"},
    "webapp_corpussnapshot": set(),
    "webapp_modelversion": set(),
    "webapp_indexgeneration": set(),
    "webapp_spanset": set(),
    "webapp_questionset": set(),
    "webapp_evaluation": set(),
    "webapp_deployment": set(),
    "webapp_job": set(),
    "webapp_worker": set(),
    "webapp_webprocess": set(),
    "webapp_scheduler": set(),
    "webapp_devicelease": set(),
    "webapp_schedule": set(),
    "webapp_retentionrule": set(),
    "webapp_auditentry": set(),
    "webapp_feedback": set(),
    "webapp_apitoken": set(),
}
MODELS = {f"{model._meta.app_label}_{model._meta.model_name}": model for model in admin.site._registry}
# Pages about no model in particular; what an admin without permissions gets there.
OTHERS = {
    "index": 200,
    "login": 302,  # to the site's own
    "password_change": 200,
    "password_change_done": 200,
    "autocomplete": 403,
    "jsi18n": 200,
    "view_on_site": 404,
    "app_list": 404,
    "logout": 405,  # not by a link, for anybody
}
ENDS = {"view_on_site": (0, 0), "app_list": ("webapp",)}
OUTSIDE = ("anonymous", "asker", "curator")
ALL_POWERFUL = ("given everything", "superuser")
SOMEBODY = "Somebody"


@pytest.fixture
def people(db: None) -> dict[str, Client]:
    """A browser for everybody; those who are no staff have permissions, too, which must not help them."""
    everything = Group.objects.create(name="given everything")
    everything.permissions.set(Permission.objects.all())
    curators = Group.objects.get_or_create(name="curators")[0]
    users = {
        "asker": User.objects.create_user("Memo"),
        "curator": User.objects.create_user("Cora"),
        "admin": User.objects.create_user("Stella", is_staff=True),
        "given everything": User.objects.create_user("Gala", is_staff=True),
        "superuser": User.objects.create_superuser("Suna"),
    }
    users["curator"].groups.add(curators)
    for name in ("asker", "curator", "given everything"):
        users[name].groups.add(everything)
    return {"anonymous": Client(), **{name: logged_in(user) for name, user in users.items()}}


@pytest.fixture
def records(db: None) -> dict[str, Model]:
    """One record of every model."""
    asked = stored.store()
    index = asked.deployment.index
    questions = question_set()
    running = job()
    somebody = User.objects.create_user(SOMEBODY)
    attempt = {"username": SOMEBODY, "user_agent": "a browser", "http_accept": "*/*", "path_info": "/accounts/login/"}
    made: list[Model] = [
        *(asked, asked.deployment, index, index.model, index.corpus, questions, evaluation(index, questions)),
        *(span_set(index), running, somebody, Group.objects.create(name="others"), RetentionRule.current()),
        Worker.objects.create(name="host:1", host="host", slots=1),
        WebProcess.objects.create(name="host:2", host="host"),
        Scheduler.objects.create(name="host:3", host="host"),
        DeviceLease.objects.create(device="host/cpu", job=running),
        Schedule.objects.create(corpus_name="vital-en", trigger="every", hours=1),
        AuditEntry.record("job.start", running, by=somebody),
        Feedback.objects.create(answer=asked, session_key="a session's key", right=True),
        ApiToken.issue(somebody, "a program", ["ask"])[0],
        AccessAttempt.objects.create(**attempt, failures_since_start=1),
        AccessFailureLog.objects.create(**attempt),
        AccessLog.objects.create(**attempt, session_hash="a session's hash"),
    ]
    return {f"{record._meta.app_label}_{record._meta.model_name}": record for record in made}


def names() -> set[str]:
    """Of all addresses of the administration; those without one lead to others."""
    patterns = list(admin.site.get_urls())
    found = set()
    while patterns:
        pattern: Any = patterns.pop()
        patterns += getattr(pattern, "url_patterns", ())
        found |= {pattern.name} if getattr(pattern, "name", None) else set()
    return found


def test_every_page_is_tested(records: dict[str, Model]) -> None:
    pages = {f"{model}_{page}" for model in MAY for page in ("changelist", "add", "change", "delete", "history")}
    assert names() == pages | OTHERS.keys() | {"auth_user_password_change"}
    assert MODELS.keys() == MAY.keys() == records.keys()


@pytest.mark.parametrize("name", OTHERS)
def test_pages_about_no_model(name: str, people: dict[str, Client]) -> None:
    address = reverse(f"admin:{name}", args=ENDS.get(name))
    for who in OUTSIDE if name != "logout" else ():
        closed(people[who].get(address), who)
    assert people["admin"].get(address).status_code == OTHERS[name]


def test_the_plural_of_feedback_is_feedback(people: dict[str, Client]) -> None:
    page = people["superuser"].get("/admin/").content.decode()
    assert ">Feedback<" in page and "Feedbacks" not in page


def test_the_records_lead_back_to_the_console(people: dict[str, Client]) -> None:
    page = people["admin"].get("/admin/").content.decode()
    assert 'href="/manage/">View site' in page and "Django" not in page


@pytest.mark.parametrize("model", MAY)
def test_pages_of_a_model(model: str, people: dict[str, Client], records: dict[str, Model]) -> None:
    """Each page needs its right; records without a right to change stay as they are, and deletions happen."""
    record = records[model]
    pages = addresses(model, record)
    for page, address in pages.items():
        for who in ("anonymous", "curator"):
            closed(people[who].get(address), who)
        assert people["admin"].get(address).status_code == 403, page
        allowed = page not in ("add", "delete") or page in MAY[model]
        # Every day the longer pages are written for one of them.
        for who in ALL_POWERFUL if page == "change" or not allowed or NIGHTLY else ("superuser",):
            response = people[who].get(address)
            assert response.status_code == (200 if allowed else 403), (who, page)
            assert b"a session's" not in response.content.replace(b"&#x27;", b"'"), (who, page)
            if page == "change":  # whoever may not change it is offered no field and no button
                assert (b'name="_save"' in response.content) == ("change" in MAY[model]), who
    before = rows(record)
    together = {"action": "delete_selected", "_selected_action": [record.pk], "post": "yes"}
    for who, client in people.items():
        refused = {"add", "change", "delete"} - (MAY[model] if who in ALL_POWERFUL else set())
        for page in refused:
            response = client.post(pages[page], {"post": "yes", "username": "Forged", "name": "Forged"})
            if who in OUTSIDE:
                closed(response, who)
            else:
                assert response.status_code == 403, (who, page)
        if "delete" in refused:
            client.post(pages["changelist"], together)
        assert rows(record) == before, who
    for who in ALL_POWERFUL if "delete" in MAY[model] else ():
        with transaction.atomic():
            assert people[who].post(pages["delete"], {"post": "yes"}).status_code == 302
            assert not type(record)._base_manager.filter(pk=record.pk).exists()
            transaction.set_rollback(True)


def test_a_permission_opens_what_it_is_for(people: dict[str, Client], records: dict[str, Model]) -> None:
    User.objects.get(username="Stella").user_permissions.add(Permission.objects.get(codename="view_job"))
    for model in MAY:
        pages = addresses(model, records[model])
        seen = {page for page, address in pages.items() if people["admin"].get(address).status_code == 200}
        assert seen == ({"changelist", "change", "history"} if model == "webapp_job" else set()), model


def test_the_password_of_another(people: dict[str, Client], records: dict[str, Model]) -> None:
    somebody = User.objects.get(username=SOMEBODY)
    address = reverse("admin:auth_user_password_change", args=[somebody.pk])
    form = {"usable_password": "true", "password1": "a long enough password", "password2": "a long enough password"}
    for who in OUTSIDE:
        closed(people[who].post(address, form), who)
    assert people["admin"].get(address).status_code == people["admin"].post(address, form).status_code == 403
    assert User.objects.get(pk=somebody.pk).password == somebody.password
    assert people["superuser"].post(address, form).status_code == 302
    assert User.objects.get(pk=somebody.pk).check_password("a long enough password")


def test_no_secret_is_shown(people: dict[str, Client], records: dict[str, Model]) -> None:
    """Not even the hash of a token or password, to a superuser."""
    token = ApiToken.objects.get()
    for page in ("changelist", "change"):
        shown = people["superuser"].get(addresses("webapp_apitoken", token)[page]).content.decode()
        assert token.start in shown and token.digest not in shown


def closed(response: Any, who: str) -> None:
    """Sent to the login, and told nothing."""
    assert response.status_code == 302, who
    assert response["Location"].startswith(("/admin/login/?next=/admin/", "/accounts/login/")), who


def addresses(model: str, record: Model) -> dict[str, str]:
    return {
        "changelist": reverse(f"admin:{model}_changelist"),
        "add": reverse(f"admin:{model}_add"),
        "change": reverse(f"admin:{model}_change", args=[record.pk]),
        "delete": reverse(f"admin:{model}_delete", args=[record.pk]),
        "history": reverse(f"admin:{model}_history", args=[record.pk]),
    }


def rows(record: Model) -> list[dict[str, Any]]:
    """All rows of the record's kind, with all that they say."""
    return list(type(record)._base_manager.order_by("pk").values())
