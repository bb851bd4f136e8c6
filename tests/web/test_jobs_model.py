"""Every transition of a job, and that only the one who may can make it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from webapp.models import Job, JobKind, JobState
from webapp.models.job import LOG_CHARACTERS, MAX_ATTEMPTS

pytestmark = pytest.mark.django_db


def job_in(state: JobState, owner: str = "") -> Job:
    lease = timezone.now() + timedelta(seconds=60) if owner else None
    return Job.objects.create(kind=JobKind.INDEX, state=state, lease_owner=owner, lease_expires_at=lease)


def test_only_the_first_claim_wins() -> None:
    job = job_in(JobState.QUEUED)
    won = Job.claim(job.pk, "one", 60)
    assert won is not None
    assert (won.state, won.lease_owner, won.attempt) == (JobState.RUNNING, "one", 1)
    assert won.started_at is not None
    assert Job.claim(job.pk, "two", 60) is None
    job.refresh_from_db()
    assert job.lease_owner == "one"


@pytest.mark.parametrize("state", [state for state in JobState if state != JobState.QUEUED])
def test_only_a_queued_job_can_be_claimed(state: JobState) -> None:
    job = job_in(state)
    assert Job.claim(job.pk, "one", 60) is None
    job.refresh_from_db()
    assert job.state == state


def test_a_job_that_never_existed_cannot_be_claimed() -> None:
    assert Job.claim("00000000-0000-4000-8000-000000000000", "one", 60) is None


def test_a_heartbeat_renews_the_lease_and_records() -> None:
    job = job_in(JobState.RUNNING, "one")
    before = job.lease_expires_at
    assert job.heartbeat("one", 120, progress={"done": 1}, log="a\x00b") is JobState.RUNNING
    assert before is not None and job.lease_expires_at is not None and job.lease_expires_at > before
    assert (job.progress, job.log) == ({"done": 1}, "ab")


def test_a_heartbeat_of_somebody_else_changes_nothing() -> None:
    job = job_in(JobState.RUNNING, "one")
    assert job.heartbeat("two", 120, progress={"done": 1}) is None
    job.refresh_from_db()
    assert job.progress == {}


def test_a_heartbeat_carries_the_wish_to_stop() -> None:
    job = job_in(JobState.RUNNING, "one")
    assert Job.objects.get(pk=job.pk).request_stop()
    assert job.heartbeat("one", 60) is JobState.STOPPING


def test_only_the_end_of_a_log_is_kept() -> None:
    job = job_in(JobState.RUNNING, "one")
    job.heartbeat("one", 60, log="a" * LOG_CHARACTERS + "end")
    assert len(job.log) == LOG_CHARACTERS and job.log.endswith("end")


@pytest.mark.parametrize("state", [JobState.SUCCEEDED, JobState.FAILED, JobState.STOPPED, JobState.INTERRUPTED])
@pytest.mark.parametrize("held", [JobState.RUNNING, JobState.STOPPING])
def test_finish(held: JobState, state: JobState) -> None:
    job = job_in(held, "one")
    assert not job.finish("two", state)
    assert job.state == held
    assert job.finish("one", state, result={"rows": 3}, error="because", log="log")
    assert (job.state, job.result, job.error, job.log) == (state, {"rows": 3}, "because", "log")
    assert job.finished_at is not None and job.lease_owner == "" and job.lease_expires_at is None
    assert not job.finish("one", JobState.FAILED)
    assert job.state == state


@pytest.mark.parametrize("state", [JobState.QUEUED, JobState.RUNNING, JobState.STOPPING])
def test_a_job_cannot_finish_as_unfinished(state: JobState) -> None:
    with pytest.raises(ValueError, match="cannot finish"):
        job_in(JobState.RUNNING, "one").finish("one", state)


@pytest.mark.parametrize(
    ("before", "after"),
    [(JobState.QUEUED, JobState.STOPPED), (JobState.RUNNING, JobState.STOPPING)],
)
def test_request_stop(before: JobState, after: JobState) -> None:
    job = job_in(before, "one" if before == JobState.RUNNING else "")
    assert job.request_stop()
    assert job.state == after


@pytest.mark.parametrize(
    "state",
    [JobState.STOPPING, JobState.SUCCEEDED, JobState.FAILED, JobState.STOPPED, JobState.INTERRUPTED],
)
def test_too_late_to_stop(state: JobState) -> None:
    job = job_in(state)
    assert not job.request_stop()
    assert job.state == state


@pytest.mark.parametrize("state", list(JobState))
def test_resume(state: JobState) -> None:
    job = job_in(state)
    possible = state in (JobState.FAILED, JobState.STOPPED, JobState.INTERRUPTED)
    assert job.can_resume is possible
    assert job.resume() is possible
    assert job.state == (JobState.QUEUED if possible else state)


def test_giving_back_does_not_count_the_attempt() -> None:
    job = job_in(JobState.QUEUED)
    claimed = Job.claim(job.pk, "one", 60)
    assert claimed is not None
    assert not claimed.give_back("two")
    assert claimed.give_back("one")
    assert (claimed.state, claimed.attempt, claimed.lease_owner) == (JobState.QUEUED, 0, "")


def test_giving_back_what_should_stop_stops_it() -> None:
    job = job_in(JobState.STOPPING, "one")
    assert job.give_back("one")
    assert job.state == JobState.STOPPED and job.finished_at is not None


def test_a_lost_worker_s_job_is_queued_again_until_it_has_had_enough_attempts() -> None:
    job = job_in(JobState.QUEUED)
    for attempt in range(1, MAX_ATTEMPTS + 1):
        claimed = Job.claim(job.pk, f"worker {attempt}", -1)  # the lease is over at once
        assert claimed is not None and claimed.attempt == attempt
        requeued = Job.recover_expired()
        job.refresh_from_db()
        if attempt < MAX_ATTEMPTS:
            assert [j.pk for j in requeued] == [job.pk] and job.state == JobState.QUEUED
        else:
            assert requeued == [] and job.state == JobState.INTERRUPTED and job.error
    assert job.lease_owner == ""


def test_a_lost_worker_s_stopping_job_is_stopped() -> None:
    job = job_in(JobState.STOPPING, "one")
    Job.objects.update(lease_expires_at=timezone.now() - timedelta(seconds=1))
    assert Job.recover_expired() == []
    job.refresh_from_db()
    assert job.state == JobState.STOPPED


def test_a_lease_that_holds_is_left_alone() -> None:
    job = job_in(JobState.RUNNING, "one")
    assert Job.recover_expired() == []
    job.refresh_from_db()
    assert job.state == JobState.RUNNING


def test_the_first_owner_cannot_end_what_another_has_taken_over() -> None:
    job = job_in(JobState.QUEUED)
    first = Job.claim(job.pk, "one", -1)
    Job.recover_expired()
    second = Job.claim(job.pk, "two", 60)
    assert first is not None and second is not None
    assert first.heartbeat("one", 60) is None
    assert not first.finish("one", JobState.SUCCEEDED, result={"of": "one"})
    assert second.finish("two", JobState.SUCCEEDED, result={"of": "two"})
    assert Job.objects.get(pk=job.pk).result == {"of": "two"}


def test_waiting_since() -> None:
    old, new = job_in(JobState.QUEUED), job_in(JobState.QUEUED)
    Job.objects.filter(pk=old.pk).update(queued_at=timezone.now() - timedelta(minutes=5))
    assert [job.pk for job in Job.waiting_since(timezone.now() - timedelta(minutes=1))] == [old.pk]
    assert new.is_active
