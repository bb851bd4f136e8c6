"""Signs of life of web processes: what each writes, what all of them together say, and what of it is seen."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import DatabaseError
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from tests.web.conftest import FakeEngine, Loader, Person
from tests.web.pages import stored
from webapp.models import Deployment, WebProcess
from webapp.models.process import process_name
from webapp.operations import overview
from webapp.operations.backups import back_up
from webapp.operations.overview import Health
from webapp.serving import presence
from webapp.serving.engine import Status, holder
from webapp.serving.presence import Presence, answering

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


def another(name: str = "other:7", **values: Any) -> WebProcess:
    return WebProcess.objects.create(**{"name": name, "host": "other", "state": "ready", **values})


def web() -> overview.Component:
    return overview.overview().parts[0]


def test_a_process_writes_what_changes_at_once_and_a_sign_of_life_now_and_then(
    loader: Loader, monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    here = Presence()
    with django_assert_num_queries(1):
        here.report(holder().standing())
        here.report(holder().standing())
    row = WebProcess.objects.get()
    assert (row.name, row.state, row.deployment, row.reason) == (process_name(), "idle", None, "")
    deployment = stored.deployment()
    holder().refresh(wait=True)
    with django_assert_num_queries(1):
        here.report(holder().standing())
    row.refresh_from_db()
    assert (row.state, row.deployment) == ("ready", deployment)
    WebProcess.objects.update(seen_at=timezone.now() - timedelta(minutes=1))
    here.report(holder().standing())
    row.refresh_from_db()
    assert not row.is_alive  # nothing has changed, and the last sign of life was given just now
    monkeypatch.setattr(presence, "SEEN_EVERY_S", 0)
    here.report(holder().standing())
    row.refresh_from_db()
    assert row.is_alive


def test_a_failure_is_told_as_the_database_can_keep_it() -> None:
    Presence().report(Status("failed", 7, "shard\x00 3 is \udcff damaged."))
    row = WebProcess.objects.get()
    assert (row.state, row.deployment_id) == ("failed", None)
    assert row.reason == "shard\N{REPLACEMENT CHARACTER} 3 is \N{REPLACEMENT CHARACTER} damaged."


def test_what_could_not_be_written_is_written_the_next_time(monkeypatch: pytest.MonkeyPatch) -> None:
    here = Presence()
    with monkeypatch.context() as away, pytest.raises(DatabaseError):

        def refuse(*_arguments: object, **_options: object) -> None:
            raise DatabaseError("gone")

        away.setattr(WebProcess.objects, "bulk_create", refuse)
        here.report(Status("idle", None))
    here.report(Status("idle", None))
    assert WebProcess.objects.count() == 1


def test_a_process_that_left_writes_no_row_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    here = Presence()
    here.report(Status("idle", None))
    another()
    here.leave()
    here.report(Status("loading", None))  # by the other thread, which knows nothing of it
    assert [one.name for one in WebProcess.objects.all()] == ["other:7"]


def test_all_processes_are_counted_and_this_one_as_it_is_now(loader: Loader) -> None:
    first = stored.deployment()
    another(process_name(), state="failed", reason="long ago")
    another(deployment=first)
    another("gone:1", deployment=first, seen_at=timezone.now() - timedelta(minutes=5))
    another("forgotten:1", deployment=first, seen_at=timezone.now() - timedelta(hours=2))
    holder().refresh(wait=True)
    seen = answering(first)
    assert {one.name for one in seen.alive} == {process_name(), "other:7"} and seen.all_loaded
    assert [one.name for one in seen.lost] == ["gone:1"]
    assert web() == overview.Component("Web", Health.WELL, f"2 processes answer with deployment {first.pk}")

    second = stored.deployment()
    holder().refresh(wait=True)
    seen = answering(second)
    assert [one.name for one in seen.loading] == ["other:7"] and seen.earlier == [first.pk] and not seen.all_loaded
    assert web() == overview.Component("Web", Health.WEAK, f"1 of 2 processes answer with deployment {second.pk}")
    WebProcess.objects.filter(name="other:7").update(reason="shard 3 is damaged.")
    seen = answering(second)
    assert [one.name for one in seen.failed] == ["other:7"] and seen.loading == []
    says = f"1 of 2 processes answer with deployment {second.pk}; shard 3 is damaged."
    assert web() == overview.Component("Web", Health.ILL, says)
    WebProcess.objects.filter(name="other:7").update(reason="", deployment=None, state="idle")
    seen = answering(second)
    assert [one.name for one in seen.idle] == ["other:7"] and seen.loading == [] and not seen.all_loaded


def test_the_overview_shows_who_answers_with_what(staff: Person, engine: FakeEngine) -> None:
    another(deployment=Deployment.active())
    another("broken:1", state="failed", reason="shard 3 is damaged.")
    another("gone:1", seen_at=timezone.now() - timedelta(minutes=5))
    page = staff.client.get("/manage/").content.decode()
    rows = dict(re.findall(r'<th scope="row">([^ <]+)(.*?)</tr>', page, re.S))
    assert rows.keys() == {process_name(), "other:7", "broken:1", "gone:1"}
    for name in (process_name(), "other:7"):
        assert f"deployment&nbsp;{engine.deployment_id}" in rows[name] and "tag--good" in rows[name]
    assert "shard 3 is damaged." in rows["broken:1"] and "deployment" not in rows["broken:1"]
    assert "lost" in rows["gone:1"] and "not heard of since" in rows["gone:1"]


def test_the_page_of_deployments_looks_until_all_processes_answer_with_it(staff: Person, engine: FakeEngine) -> None:
    earlier = stored.deployment()
    active = stored.deployment()
    holder().refresh(wait=True)
    other, idle = another(deployment=earlier), another("idle:1", state="idle")

    def part(status: int) -> str:
        response = staff.client.get("/manage/deployments/now/")
        assert response.status_code == status
        return " ".join(re.sub("<[^>]*>", "", response.content.decode()).split())

    said = part(200)
    assert "1 of 3 answer with it" in said and "idle:1: no question was asked there yet" in said
    assert f"until then, deployment {earlier.pk} answers in the others" in said
    WebProcess.objects.filter(pk=other.pk).update(reason="shard 3 is damaged.")
    said = part(200)
    assert f"other:7 could not load it: shard 3 is damaged. Deployment {earlier.pk} goes on answering there." in said
    assert "being loaded" not in said
    WebProcess.objects.filter(pk=idle.pk).update(seen_at=timezone.now() - timedelta(minutes=5))  # it was ended
    WebProcess.objects.filter(pk=other.pk).update(reason="", deployment=active)
    assert "2 of 2 answer with it" in part(286)
    other.delete()
    assert "answer with it" not in part(286)  # of one process there is nothing to count


@pytest.mark.django_db(transaction=True)
def test_signs_of_life_are_in_no_backup(tmp_path: Path) -> None:
    """Where it is restored, others live; and the server that looks on may have written its own by then."""
    User.objects.create_user("Stella")
    another()
    back_up(tmp_path / "backup.tar")
    content = (tmp_path / "backup.tar").read_bytes()
    assert b"Stella" in content and b"other:7" not in content
