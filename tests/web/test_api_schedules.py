"""Schedules and the audit trail over REST."""

from __future__ import annotations

from datetime import time
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from tests.web.conftest import Person
from tests.web.console import another_model, question_set
from tests.web.operating import TokenClient, post, problem, walk
from tests.web.pages import stored
from webapp.models import AuditEntry, Deployment, Job, Purpose, Schedule
from webapp.models.schedule import ScheduleStage
from webapp.schedules import service as scheduling

WEEKLY = {"corpus_name": "vital-en", "trigger": "at", "at": "02:30", "weekday": 6}


@pytest.fixture
def client(staff: Person) -> Client:
    stored.deployment()
    return TokenClient(staff.user, "operate")


def listed(client: Client, address: str) -> list[dict[str, Any]]:
    """All records of a list, page by page."""
    return [one for page in walk(client, f"/api/v1/{address}") for one in page["results"]]


def changed(client: Client, schedule: int, **told: Any) -> Any:
    return client.patch(f"/api/v1/schedules/{schedule}", told, content_type="application/json")


def test_a_schedule_is_made_read_changed_and_removed(client: Client) -> None:
    questions = question_set()
    made = post(client, "schedules", WEEKLY | {"questions": questions.pk, "deploy": True})
    one = made.json()
    assert made.status_code == 201 and made["Location"].endswith(f"/api/v1/schedules/{one['id']}")
    assert one.items() >= {**WEEKLY, "questions": questions.pk, "deploy": True, "model": None, "hours": None}.items()
    assert (one["ingest"], one["enabled"], one["stage"], one["last_job"]) == (True, True, "", None)
    assert one["when"] == "every Sunday at 02:30 UTC" and one["due_at"][11:16] == "02:30"
    assert one["created_by"] == "Stella"
    assert client.get(made["Location"]).json() == one
    assert listed(client, "schedules?corpus_name=vital-en&enabled=true") == [one]
    assert not listed(client, "schedules?enabled=false")

    now = changed(client, one["id"], trigger="every", hours=6, deploy=False, questions=None).json()
    assert (now["when"], now["hours"], now["at"], now["weekday"], now["deploy"]) == ("every 6 h", 6, None, None, False)
    assert now["ingest"] is True and now["created_at"] == one["created_at"]
    assert changed(client, one["id"]).json() == now  # which is no edit
    off = changed(client, one["id"], enabled=False).json()
    assert (off["enabled"], off["due_at"], off["when"]) == (False, None, "every 6 h")
    assert client.delete(f"/api/v1/schedules/{one['id']}").status_code == 204
    for gone in (client.get, client.delete):
        problem(gone(f"/api/v1/schedules/{one['id']}"), 404)
    problem(changed(client, one["id"], enabled=True), 404)
    actions = [(entry.action, entry.name) for entry in AuditEntry.objects.order_by("pk")]
    assert actions == [(action, "Stella") for action in ["schedule.edit"] * 3 + ["schedule.remove"]]


@pytest.mark.parametrize(
    ("told", "field", "says"),
    [
        ({"trigger": "sometimes"}, "trigger", "This must be one of every, at, new-model."),
        ({"hours": 0, "trigger": "every"}, "hours", "greater than or equal to 1"),
        ({"hours": "6", "trigger": "every"}, "hours", "integer"),
        ({"at": "02:30:00"}, "at", "a time of day in UTC"),
        ({"at": "02:30+02:00"}, "at", "a time of day in UTC"),
        ({"weekday": 7}, "weekday", "less than or equal to 6"),
        ({"questions": 999}, "questions", "There is no question set 999."),
        ({"model": 999}, "model", "There is no model version 999."),
        ({"ingest": "yes"}, "ingest", "boolean"),
        ({"last_job": None}, "last_job", "no such field"),
    ],
)
def test_wrong_fields_are_named(client: Client, told: dict[str, Any], field: str, says: str) -> None:
    [error] = problem(post(client, "schedules", WEEKLY | told), 400)["errors"]
    assert error["field"] == field and says in error["detail"]
    assert not Schedule.objects.exists()


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ({"corpus_name": "nothing"}, "There is no corpus called nothing."),
        ({"at": None}, "at what time of day"),
        ({"trigger": "every"}, "interval in hours"),
        ({"deploy": True}, "by which questions"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(client: Client, told: dict[str, Any], says: str) -> None:
    assert says in problem(post(client, "schedules", WEEKLY | told), 422)["detail"]
    schedule = post(client, "schedules", WEEKLY).json()["id"]
    assert says in problem(changed(client, schedule, **told), 422)["detail"]
    assert Schedule.objects.get().at == time(2, 30)


def test_a_schedule_takes_no_question_set_for_training(client: Client) -> None:
    learnt = question_set("train", Purpose.LEARN)
    assert (
        "train is a set to train on"
        in problem(post(client, "schedules", WEEKLY | {"questions": learnt.pk}), 422)["detail"]
    )
    model = another_model().pk
    new = {"corpus_name": "vital-en", "trigger": "new-model", "model": model}
    assert "name none" in problem(post(client, "schedules", new), 422)["detail"]


def test_it_runs_now(client: Client) -> None:
    schedule = post(client, "schedules", WEEKLY | {"ingest": False, "model": another_model(block_hash="b").pk}).json()
    begun = post(client, f"schedules/{schedule['id']}/run").json()
    job = Job.objects.get()
    assert (begun["last_job"], begun["stage"], job.kind) == (str(job.pk), "index", "index")
    assert begun["last_outcome"].startswith("Building the index of vital-en") and begun["last_run_at"]
    entry = AuditEntry.objects.get(action="schedule.run")
    assert (entry.name, entry.job, entry.details["schedule"]) == ("Stella", job, schedule["id"])
    again = post(client, f"schedules/{schedule['id']}/run").json()  # it is under way
    says = "Not started: the run before is not over. It is building the index."
    assert Job.objects.count() == 1 and again["runs"][0].items() >= {"outcome": says, "job": str(job.pk)}.items()
    assert (
        again["runs"][1]
        == begun["runs"][0]
        == {
            "at": begun["last_run_at"],
            "outcome": begun["last_outcome"],
            "failed": False,
            "job": str(job.pk),
        }
    )
    assert {**again, "runs": []} == {**begun, "runs": []}
    Job.objects.update(state="succeeded")
    post(client, f"schedules/{schedule['id']}/run")  # its next step is still to come
    assert Job.objects.count() == 1
    Schedule.objects.update(stage=ScheduleStage.REST)

    Deployment.objects.update(is_active=False)
    changed(client, schedule["id"], model=None)
    nothing = post(client, f"schedules/{schedule['id']}/run").json()
    assert nothing["last_job"] is None and nothing["last_outcome"].startswith("No model is deployed")
    problem(post(client, "schedules/999/run"), 404)


def test_every_new_model_has_a_run_of_its_own(client: Client) -> None:
    """Also while the index of another one is being built."""
    schedule = post(client, "schedules", {"corpus_name": "vital-en", "trigger": "new-model"}).json()["id"]
    (first,) = scheduling.model_made(another_model(block_hash="b"))
    (second,) = scheduling.model_made(another_model("newer", block_hash="c"))
    runs = client.get(f"/api/v1/schedules/{schedule}").json()["runs"]
    assert [run["job"] for run in runs] == [str(second.pk), str(first.pk)]


def test_a_job_names_the_schedule_that_started_it(client: Client, django_assert_max_num_queries: Any) -> None:
    settings = WEEKLY | {"ingest": False, "model": another_model(block_hash="b").pk}
    pk = post(client, "schedules", settings).json()["id"]
    by_hand = post(client, f"schedules/{pk}/run").json()["last_job"]
    named = {"id": pk, "name": "Index of vital-en, every Sunday at 02:30 UTC"}
    assert client.get(f"/api/v1/jobs/{by_hand}").json()["schedule"] == named
    Job.objects.update(state="succeeded")

    Schedule.objects.update(due_at=timezone.now(), stage=ScheduleStage.REST)
    (by_itself,) = scheduling.run_due()
    part = Job.objects.create(kind="index-shard", parent=by_itself)
    own = Job.objects.create(kind="index")
    found = {one["id"]: one["schedule"] for one in listed(client, "jobs")}
    assert found == {by_hand: named, str(by_itself.pk): named, str(part.pk): named, str(own.pk): None}
    with django_assert_max_num_queries(8):  # not one for each job
        assert len(client.get("/api/v1/jobs").json()["results"]) == 4
    assert client.delete(f"/api/v1/schedules/{pk}").status_code == 204
    assert client.get(f"/api/v1/jobs/{by_hand}").json()["schedule"] is None


def test_settings_are_changed_while_it_goes_on(client: Client) -> None:
    """A change that read the schedule before a step leaves the step."""
    pk = post(client, "schedules", WEEKLY).json()["id"]
    read = Schedule.objects.get(pk=pk)
    Schedule.objects.filter(pk=pk).update(stage=ScheduleStage.INDEX, last_outcome="Building the index.")
    read.enabled = False
    scheduling.save(read, by="Stella")
    now = client.get(f"/api/v1/schedules/{pk}").json()
    assert (now["enabled"], now["stage"], now["last_outcome"]) == (False, "index", "Building the index.")
    Schedule.objects.filter(pk=pk).delete()
    with pytest.raises(Exception, match="removed meanwhile"):
        scheduling.save(read, by="Stella")
    assert not Schedule.objects.exists()


def test_the_audit_trail_is_read_page_by_page(client: Client, staff: Person, member: Person) -> None:
    entries = [AuditEntry.record(f"action-{number % 2}", f"thing {number}", by=staff.user) for number in range(5)]
    by_itself = AuditEntry.record("retention.remove", "Corpus", by="retention", bytes=8)
    address = "/api/v1/audit-trail"
    first = client.get(f"{address}?page_size=2").json()
    assert first["results"][0] == {
        "id": by_itself.pk,
        "at": first["results"][0]["at"],
        "name": "retention",
        "action": "retention.remove",
        "target": "Corpus",
        "details": {"bytes": 8},
        "job": None,
    }
    assert len(first["results"]) == 2 and first["next"]
    ids = [entry.pk for entry in entries]
    assert [one["id"] for one in listed(client, "audit-trail?page_size=2")] == [by_itself.pk, *ids[::-1]]
    assert [one["id"] for one in listed(client, "audit-trail?name=Stella&action=action-1")] == [ids[3], ids[1]]
    since = first["results"][1]["at"]
    assert [one["target"] for one in listed(client, f"audit-trail?since={since}")] == ["Corpus", "thing 4"]
    assert len(listed(client, f"audit-trail?before={since}")) == 4
    problem(client.get(f"{address}?target=Corpus"), 400)
    problem(client.post(address, {}, content_type="application/json"), 405)
    problem(TokenClient(member.user, "ask").get(address), 403)
    problem(TokenClient(staff.user, "documents").get(address), 403)


def test_the_rule_of_retention_is_read_and_changed(client: Client) -> None:
    before = client.get("/api/v1/retention").json()
    assert (before["enabled"], before["generations"], before["run_days"], before["answer_days"]) == (False, 3, 30, 365)

    def told(**changes: Any) -> Any:
        return client.patch("/api/v1/retention", changes, content_type="application/json")

    after = told(answer_days=0, enabled=True).json()
    assert (after["enabled"], after["generations"], after["answer_days"]) == (True, 3, 0)
    entry = AuditEntry.objects.get(action="retention.edit")
    assert (entry.name, entry.details) == ("Stella", {"answer_days": 0, "enabled": True})
    assert told().json() == after and AuditEntry.objects.filter(action="retention.edit").count() == 1
    for wrong in ({"generations": 0}, {"run_days": 0}, {"answer_days": 10_001}, {"answer_days": "7"}, {"days": 1}):
        assert problem(told(**wrong), 400)["errors"][0]["field"] == next(iter(wrong))
    assert client.get("/api/v1/retention").json() == after
