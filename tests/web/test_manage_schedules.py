"""What happens by itself, and the audit trail of what people did."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from tests.web.conftest import Person
from tests.web.console import ANSWERS, another_index, measured, question_set, write_files
from tests.web.pages import stored
from webapp.models import AuditEntry, IndexGeneration, Job, Purpose, RetentionRule, Schedule
from webapp.storage.places import resolve

pytestmark = pytest.mark.django_db


def test_a_schedule_is_made_changed_run_and_removed(staff: Person) -> None:
    deployment = stored.deployment()
    begun = staff.client.get("/manage/schedules/new/").content.decode()
    assert "---" not in begun and '<option value="" selected>Choose …</option>' in begun
    assert re.search(r'<input[^>]* name="ingest"[^>]* checked', begun)  # else a periodic build finds nothing new
    form = {"corpus_name": "vital-en", "trigger": "every", "hours": "6", "enabled": "on"}
    assert staff.client.post("/manage/schedules/new/", form).status_code == 302
    schedule = Schedule.objects.get()
    assert (schedule.hours, schedule.created_by, schedule.enabled) == (6, staff.user, True)
    assert schedule.due_at is not None
    assert abs(schedule.due_at - timezone.now() - timedelta(hours=6)) < timedelta(minutes=1)
    assert "every 6 h" in staff.client.get("/manage/schedules/").content.decode()

    at = {"corpus_name": "vital-en", "trigger": "at", "at": "03:30"}
    staff.client.post(f"/manage/schedules/{schedule.pk}/", at)
    schedule.refresh_from_db()
    assert (schedule.trigger, str(schedule.at), schedule.hours, schedule.enabled) == ("at", "03:30:00", None, False)
    assert 'value="03:30"' in staff.client.get(f"/manage/schedules/{schedule.pk}/").content.decode()

    page = staff.client.post(f"/manage/schedules/{schedule.pk}/run/", follow=True).content.decode()
    schedule.refresh_from_db()
    assert not Job.objects.exists() and schedule.last_outcome and schedule.last_outcome in page
    IndexGeneration.objects.filter(pk=deployment.index_id).update(removed_at=timezone.now())
    address = f"/manage/schedules/{schedule.pk}/run/"
    assert staff.client.post(address)["Location"] == f"/manage/jobs/{Job.objects.get().pk}/"
    again = staff.client.post(address, follow=True).content.decode()
    assert "Not started: the run before is not over" in again and "Building the index of vital-en" in again
    runs = staff.client.get(f"/manage/schedules/{schedule.pk}/").content.decode().partition("What its runs came to")[2]
    told = [runs.index(one) for one in ("Not started: the run", "Building the index", schedule.last_outcome)]
    assert told == sorted(told)

    remove = f"/manage/schedules/{schedule.pk}/remove/"  # on its page, not in the list beside “Run now”
    assert remove not in staff.client.get("/manage/schedules/").content.decode()
    assert remove in staff.client.get(f"/manage/schedules/{schedule.pk}/").content.decode()
    staff.client.post(remove)
    assert not Schedule.objects.exists()
    did = list(AuditEntry.objects.filter(by=staff.user).values_list("action", flat=True))
    assert did.count("schedule.edit") == 2 and did[0] == "schedule.remove"


def test_a_new_schedule_checks_by_the_questions_that_were_used_last(staff: Person) -> None:
    deployment = stored.deployment()
    page = "/manage/schedules/new/"
    question_set("learnt", purpose=Purpose.LEARN)
    assert _chosen(staff.client.get(page).content.decode()) == "no questions"
    used = question_set("used")
    question_set("newer")
    assert _chosen(staff.client.get(page).content.decode()) == "newer"
    measured(deployment.model, deployment.index, used, ANSWERS)
    assert _chosen(staff.client.get(page).content.decode()) == "used"
    form = {"corpus_name": "vital-en", "trigger": "every", "hours": "6", "questions": ""}
    staff.client.post(page, form)
    schedule = Schedule.objects.get()
    assert schedule.questions is None
    assert _chosen(staff.client.get(f"/manage/schedules/{schedule.pk}/").content.decode()) == "no questions"


def _chosen(page: str) -> str:
    """The question set that the form has chosen."""
    found = re.search(r'<select name="questions".*?<option[^>]* selected>(.*?)</option>', page, re.DOTALL)
    assert found is not None
    return found[1].partition(" (")[0]


@pytest.mark.parametrize(
    ("form", "says"),
    [
        ({"trigger": "every"}, "Enter the interval in hours"),
        ({"trigger": "every", "hours": "0"}, "greater than or equal to 1"),
        ({"trigger": "every", "hours": "88000000"}, "less than or equal to 8784"),
        ({"trigger": "at"}, "Say at what time"),
        ({"trigger": "at", "at": "26:00"}, "Enter a valid time"),
        ({"corpus_name": "nothing", "trigger": "new-model"}, "Select a valid choice"),
    ],
)
def test_a_schedule_that_makes_no_sense(staff: Person, form: dict[str, str], says: str) -> None:
    stored.deployment()
    response = staff.client.post("/manage/schedules/new/", {"corpus_name": "vital-en", "enabled": "on", **form})
    assert response.status_code == 422 and says in response.content.decode()
    assert not Schedule.objects.exists()


def test_without_a_corpus_there_is_nothing_to_schedule(staff: Person) -> None:
    assert b"A corpus is needed first" in staff.client.get("/manage/schedules/new/").content


def test_what_would_be_removed_is_shown_and_then_removed(staff: Person) -> None:
    deployment = stored.deployment()
    old = another_index(deployment.model, "gen-old")
    IndexGeneration.objects.filter(pk=old.pk).update(created_at=timezone.now() - timedelta(days=90))
    write_files(deployment.model, old, deployment.index.corpus)
    page = staff.client.get("/manage/schedules/").content.decode()
    assert "gen-old" not in page and "corpora that a person ingested" in page  # three are kept
    staff.client.post("/manage/retention/", {"generations": "1", "run_days": "5", "answer_days": "7"})
    rule = RetentionRule.current()
    assert (rule.enabled, rule.generations, rule.run_days, rule.answer_days) == (False, 1, 5, 7)
    page = staff.client.get("/manage/schedules/").content.decode()
    assert "gen-old" in page and "1 folder," in page and "the rule is off" in page
    page = staff.client.post("/manage/retention/remove/", follow=True).content.decode()
    assert "1 folders are removed" not in page and "One folder is removed" in page
    assert not resolve(old.path).exists() and not IndexGeneration.objects.filter(pk=old.pk).exists()
    assert b"nothing to remove" in staff.client.post("/manage/retention/remove/", follow=True).content


def test_a_rule_that_keeps_nothing_is_refused(staff: Person) -> None:
    response = staff.client.post(
        "/manage/retention/", {"enabled": "on", "generations": "0", "run_days": "5", "answer_days": "7"}
    )
    assert response.status_code == 422 and b"greater than or equal to 1" in response.content
    assert RetentionRule.current().generations == 3


@pytest.mark.parametrize("name", ["generations", "run_days", "answer_days"])
def test_a_rule_beyond_all_dates_is_refused(staff: Person, name: str) -> None:
    rule = {"enabled": "on", "generations": "2", "run_days": "5", "answer_days": "7", name: "999999999"}
    response = staff.client.post("/manage/retention/", rule)
    assert response.status_code == 422 and b"less than or equal to 10000" in response.content
    assert RetentionRule.current().generations == 3
    assert staff.client.get("/manage/schedules/").status_code == 200


def test_the_audit_trail_by_person_action_and_day(staff: Person) -> None:
    AuditEntry.record("job.start", "alpha", by=staff.user, parameters={"steps": 7})
    AuditEntry.record("job.stop", "bravo", by=staff.user)
    AuditEntry.record("job.start", "charlie", by="schedule 1")
    AuditEntry.objects.filter(target="bravo").update(at=datetime(2026, 1, 31, 23, 59, tzinfo=UTC))
    targets = ("alpha", "bravo", "charlie")

    def shown(query: str) -> set[str]:
        page = staff.client.get(f"/manage/audit/{query}").content.decode()
        return {target for target in targets if target in page}

    assert shown("") == set(targets)
    assert shown("?name=Stella") == {"alpha", "bravo"}
    assert shown("?action=job.start") == {"alpha", "charlie"}
    assert shown("?day=2026-01-31") == {"bravo"}
    assert shown("?name=Stella&action=job.start") == {"alpha"}
    assert shown("?day=2026-02-01") == set()
    page = staff.client.get("/manage/audit/?day=tomorrow").content.decode()
    assert "is no date" in page
    assert "&quot;steps&quot;: 7" in staff.client.get("/manage/audit/").content.decode()


def test_what_was_confirmed_can_be_read(staff: Person) -> None:
    AuditEntry.record("deploy", "a pair", by=staff.user, confirmed=["I want it.", "It is worse."])
    assert "Confirmed: I want it. It is worse." in staff.client.get("/manage/audit/").content.decode()
