"""Every transition of a job, and that only the one who may can make it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from tests.web.operating import taken
from webapp.models import DeviceLease, Job, JobKind, JobState, Queue
from webapp.models import job as job_module
from webapp.models.job import LOG_CHARACTERS, MAX_ATTEMPTS, MAX_INTERRUPTIONS, RESUME_AFTER_S

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


def job_in(state: JobState, owner: str = "") -> Job:
    lease = timezone.now() + timedelta(seconds=60) if owner else None
    return Job.objects.create(kind=JobKind.INDEX, state=state, lease_owner=owner, lease_expires_at=lease)


def test_only_the_first_claim_wins() -> None:
    job = job_in(JobState.QUEUED)
    won = taken(job)
    assert (won.state, won.lease_owner, won.attempt) == (JobState.RUNNING, "one", 0)
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
    [
        (JobState.QUEUED, JobState.STOPPED),
        (JobState.RUNNING, JobState.STOPPING),
        (JobState.INTERRUPTED, JobState.STOPPED),  # else it would resume by itself
    ],
)
def test_request_stop(before: JobState, after: JobState) -> None:
    job = job_in(before, "one" if before == JobState.RUNNING else "")
    assert job.request_stop()
    assert job.state == after


@pytest.mark.parametrize("state", [JobState.STOPPING, JobState.SUCCEEDED, JobState.FAILED, JobState.STOPPED])
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


@pytest.mark.parametrize(("how", "fruitless"), [({}, 0), ({"fruitless": True, "error": "It died.", "log": "Oh"}, 1)])
def test_giving_back_says_whether_the_attempt_was_fruitless(how: dict[str, Any], fruitless: int) -> None:
    claimed = taken()
    assert claimed.begin("one")
    assert not claimed.give_back("two")
    assert claimed.give_back("one", **how)
    assert (claimed.state, claimed.lease_owner) == (JobState.QUEUED, "")
    assert (claimed.attempt, claimed.fruitless) == (1, fruitless)
    assert (claimed.error, claimed.log) == (how.get("error", ""), how.get("log", ""))


def test_attempts_are_processes_that_were_begun_and_only_go_up() -> None:
    job = job_in(JobState.QUEUED)
    told = []
    for began, leave in (
        (False, lambda claimed: claimed.wait_for_parts("one") and claimed.parts_ended(JobState.QUEUED)),
        (True, lambda claimed: claimed.give_back("one")),
        (False, lambda claimed: claimed.give_back("one")),
        (True, lambda claimed: claimed.give_back("one", fruitless=True)),
    ):
        claimed = taken(job)
        assert not claimed.begin("two")
        told.append(claimed.attempt)
        assert not began or claimed.begin("one")
        told.append(claimed.attempt)
        assert leave(claimed)
        told.append(claimed.attempt)
    assert told == [0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 2, 2]


def test_giving_back_what_should_stop_stops_it() -> None:
    job = job_in(JobState.STOPPING, "one")
    assert job.give_back("one")
    assert job.state == JobState.STOPPED and job.finished_at is not None


def test_a_lost_worker_s_job_is_queued_again_until_it_has_had_enough_attempts() -> None:
    job = job_in(JobState.QUEUED)
    for attempt in range(1, MAX_ATTEMPTS + 1):
        assert taken(job, f"worker {attempt}", -1).fruitless == attempt  # the lease is over at once
        requeued = Job.recover_expired()
        job.refresh_from_db()
        if attempt < MAX_ATTEMPTS:
            assert [j.pk for j in requeued] == [job.pk] and job.state == JobState.QUEUED
            assert "worker was lost" in job.error
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


@pytest.mark.parametrize(
    "values",
    [
        {"state": JobState.STOPPING},
        {"lease_owner": "two"},
        {"lease_expires_at": datetime(9999, 1, 1, tzinfo=UTC)},
    ],
    ids=["told to stop", "another's", "alive"],
)
def test_what_has_changed_in_this_very_moment_is_not_recovered(
    monkeypatch: pytest.MonkeyPatch, values: dict[str, Any]
) -> None:
    """Between reading a job whose lease has run out and taking it."""
    jobs = [job_in(JobState.RUNNING, "one") for _ in range(2)]
    Job.objects.update(lease_expires_at=timezone.now() - timedelta(seconds=1))
    let_go = Job._let_go

    def then(self: Job, *args: Any, **about: Any) -> int:
        Job.objects.exclude(pk=self.pk).filter(state=JobState.RUNNING, lease_owner="one").update(**values)
        return let_go(self, *args, **about)

    monkeypatch.setattr(Job, "_let_go", then)
    (lost,) = Job.recover_expired()
    (other,) = {job.pk for job in jobs} - {lost.pk}
    assert Job.objects.filter(pk=other, **values).count() == 1


def test_the_first_owner_cannot_end_what_another_has_taken_over() -> None:
    job = job_in(JobState.QUEUED)
    first = taken(job, seconds=-1)
    Job.recover_expired()
    second = taken(job, "two")
    assert first.heartbeat("one", 60) is None
    assert not first.finish("one", JobState.SUCCEEDED, result={"of": "one"})
    assert second.finish("two", JobState.SUCCEEDED, result={"of": "two"})
    assert Job.objects.get(pk=job.pk).result == {"of": "two"}


# ── Messages ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_job_that_nobody_was_told_of_is_sent_at_once() -> None:
    job = job_in(JobState.QUEUED)
    assert job.mark_sent(timezone.now()) and Job.waiting(30) == []
    assert taken(job).give_back("one")  # the message was of an earlier wait
    assert [one.pk for one in Job.waiting(30)] == [job.pk]
    assert Job.waiting(30, queue=Queue.TRAIN) == []


def test_of_two_senders_only_one_marks_the_job_as_sent() -> None:
    job = job_in(JobState.QUEUED)
    one, other = (Job.objects.get(pk=job.pk) for _ in range(2))
    assert one.mark_sent(timezone.now()) and not other.mark_sent(timezone.now())
    Job.unmark_sent([one], one.sent_at)  # type: ignore[arg-type] # it could not be sent
    newer = Job.objects.get(pk=job.pk)
    assert newer.mark_sent(timezone.now())
    Job.unmark_sent([one], one.sent_at)  # type: ignore[arg-type] # an older message than this
    newer.refresh_from_db()
    assert newer.sent_at is not None
    assert not taken(job).mark_sent(timezone.now())


def test_a_job_that_waits_is_sent_more_and_more_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    job = job_in(JobState.QUEUED)
    now = job.queued_at
    assert job.mark_sent(now)
    sent = []
    for second in range(0, 7200, 30):
        monkeypatch.setattr(timezone, "now", lambda second=second: now + timedelta(seconds=second))
        if [one for one in Job.waiting(30, 600) if one.mark_sent(timezone.now())]:
            sent.append(second)
    assert sent[:5] == [30, 60, 120, 240, 480]
    assert len(sent) <= 5 + 7200 / 600


# ── Getting further, being interrupted ──────────────────────────────────────────────────────────────────────────────


def test_a_job_that_was_queued_by_a_clock_ahead_is_sent_again() -> None:
    job = job_in(JobState.QUEUED)
    ahead = timezone.now() + timedelta(hours=1)
    Job.objects.update(queued_at=ahead)
    job.refresh_from_db()
    assert job.mark_sent(ahead)
    assert [one.pk for one in Job.waiting(30, 600)] == [job.pk]


def test_progress_resets_the_count_of_fruitless_attempts() -> None:
    job = job_in(JobState.QUEUED)
    for _ in range(2 * MAX_ATTEMPTS):
        claimed = taken(job, seconds=-1)
        assert claimed.begin("one")
        claimed.heartbeat("one", -1, got_further=True)
        assert [lost.pk for lost in Job.recover_expired()] == [job.pk]
    job.refresh_from_db()
    assert (job.state, job.attempt, job.fruitless) == (JobState.QUEUED, 2 * MAX_ATTEMPTS, 1)


def test_an_interrupted_job_resumes_by_itself_later_and_later_and_then_no_more() -> None:
    job = job_in(JobState.RUNNING, "one")
    assert job.finish("one", JobState.INTERRUPTED, error="It died.")
    now = timezone.now()
    for time in range(MAX_INTERRUPTIONS):
        rest = timedelta(seconds=RESUME_AFTER_S * 2**time)
        assert Job.resume_interrupted(now + rest - timedelta(seconds=5)) == []
        assert [one.pk for one in Job.resume_interrupted(now + rest + timedelta(seconds=5))] == [job.pk]
        job.refresh_from_db()
        assert (job.state, job.attempt, job.fruitless, job.error) == (JobState.QUEUED, time, 0, "")
        claimed = taken(job, "two")
        assert claimed.begin("two") and claimed.finish("two", JobState.INTERRUPTED)
    job.refresh_from_db()
    assert (job.interruptions, job.attempt) == (MAX_INTERRUPTIONS + 1, MAX_INTERRUPTIONS)
    assert Job.resume_interrupted(now + timedelta(days=300)) == []
    assert job.resume() and (job.interruptions, job.attempt) == (0, 0)  # a person may, and begins to count anew


def test_an_interrupted_job_does_not_resume_beside_another_that_does_the_same() -> None:
    job = job_in(JobState.INTERRUPTED)
    Job.objects.filter(pk=job.pk).update(fingerprint="f", finished_at=timezone.now() - timedelta(days=1))
    other = Job.objects.create(kind=JobKind.INDEX, fingerprint="f")
    assert Job.resume_interrupted() == []
    other.request_stop()
    assert [one.pk for one in Job.resume_interrupted()] == [job.pk]


def test_when_it_resumes_by_itself_is_known() -> None:
    job = job_in(JobState.RUNNING, "one")
    assert job.resumes_at is None
    assert job.finish("one", JobState.INTERRUPTED) and job.finished_at is not None
    assert job.resumes_at == job.finished_at + timedelta(seconds=RESUME_AFTER_S)
    job.interruptions = MAX_INTERRUPTIONS + 1
    assert job.resumes_at is None
    job.interruptions = 1
    assert job.request_stop() and job.resumes_at is None


def test_a_part_resumes_with_its_whole_and_a_builder_as_long_as_its_training_goes_on() -> None:
    training, long_ago = job_in(JobState.RUNNING, "one"), timezone.now() - timedelta(days=1)
    shard, builder = (
        Job.objects.create(
            kind=kind, parent=training, state=JobState.INTERRUPTED, finished_at=long_ago, interruptions=99
        )
        for kind in (JobKind.INDEX_SHARD, JobKind.REFRESH)
    )
    assert [one.pk for one in Job.resume_interrupted()] == [builder.pk]
    Job.objects.filter(pk=builder.pk).update(state=JobState.INTERRUPTED, finished_at=long_ago)
    assert training.finish("one", JobState.FAILED)
    assert Job.resume_interrupted() == [] and Job.objects.get(pk=shard.pk).state == JobState.INTERRUPTED


# ── Parts ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_whole_that_waits_for_its_parts_is_held_by_no_worker() -> None:
    claimed = taken()
    assert not claimed.wait_for_parts("two") and claimed.wait_for_parts("one")
    assert (claimed.state, claimed.fruitless, claimed.lease_expires_at) == (JobState.RUNNING, 0, None)
    assert Job.recover_expired(timezone.now() + timedelta(days=1)) == []
    assert claimed.heartbeat("one", 60) is None
    assert claimed.parts_ended(JobState.QUEUED) and claimed.state == JobState.QUEUED
    assert not claimed.parts_ended(JobState.QUEUED)


def test_a_whole_that_is_told_to_stop_is_not_queued_by_its_parts() -> None:
    claimed = taken()
    assert claimed.wait_for_parts("one") and claimed.request_stop()
    assert not claimed.parts_ended(JobState.QUEUED) and not claimed.parts_ended(JobState.INTERRUPTED)
    assert claimed.parts_ended(JobState.STOPPED) and claimed.state == JobState.STOPPED


def test_what_is_told_to_stop_does_not_wait_for_parts() -> None:
    claimed = taken()
    assert Job.objects.get(pk=claimed.pk).request_stop()
    assert not claimed.wait_for_parts("one") and claimed.lease_owner == "one"


@pytest.mark.parametrize("state", list(JobState))
def test_a_part_that_has_ended_can_be_wanted_again(state: JobState) -> None:
    job = job_in(state)
    Job.objects.update(attempt=4, fruitless=2)
    assert job.again() is (state not in (JobState.QUEUED, JobState.RUNNING, JobState.STOPPING))
    job.refresh_from_db()
    assert (job.attempt, job.fruitless) == (4, 0 if job.state == JobState.QUEUED != state else 2)


# ── Devices ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def held(job: Job) -> list[str]:
    return list(job.devices.values_list("device", flat=True))


def test_a_training_gets_the_devices_that_are_free_and_none_waits_in_vain() -> None:
    first, second, third = (job_in(JobState.QUEUED) for _ in range(3))
    assert Job.claim(first.pk, "one", 60, ["h/cuda:0"]) is not None
    assert Job.claim(second.pk, "two", 60, ["h/cuda:0", "h/cuda:1", "h/cuda:2"]) is not None
    assert held(second) == ["h/cuda:1", "h/cuda:2"]
    assert Job.claim(third.pk, "three", 60, ["h/cuda:0", "h/cuda:1"]) is None
    third.refresh_from_db()
    assert (third.state, third.fruitless, third.lease_owner) == (JobState.QUEUED, 0, "")


@pytest.mark.parametrize("how", ["finish", "give back", "lease", "stopped lease"])
def test_devices_are_free_when_the_job_is_held_no_more(how: str) -> None:
    other = Job.claim(job_in(JobState.QUEUED).pk, "another", 3600, ["h/cuda:0"])
    claimed = Job.claim(job_in(JobState.QUEUED).pk, "one", 60, ["h/cpu"])
    assert claimed is not None and held(claimed) == ["h/cpu"]
    assert not claimed.finish("two", JobState.SUCCEEDED) and held(claimed) == ["h/cpu"]
    if how == "finish":
        claimed.finish("one", JobState.SUCCEEDED)
    elif how == "give back":
        claimed.give_back("one")
    else:
        if how == "stopped lease":
            claimed.request_stop()
        Job.recover_expired(timezone.now() + timedelta(seconds=61))
    assert held(claimed) == []
    assert other is not None and held(other) == ["h/cuda:0"]


def test_a_device_that_another_takes_in_this_very_moment_is_the_other_s(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Job.claim(job_in(JobState.QUEUED).pk, "one", 60, ["h/cpu"]) is not None
    late = job_in(JobState.QUEUED)
    seen_free = DeviceLease(device="h/cpu", job=late)
    monkeypatch.setattr(job_module, "_take", lambda _devices, _job: DeviceLease.objects.bulk_create([seen_free]))
    assert Job.claim(late.pk, "two", 60, ["h/cpu"]) is None
    late.refresh_from_db()
    assert (late.state, late.fruitless) == (JobState.QUEUED, 0)


def test_a_place_that_another_takes_in_this_very_moment_is_looked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    first, late = taken(), taken(owner="two")
    assert first.share("one", ["h/cuda:0", "h/cuda:1"]) == "h/cuda:0"
    looks = iter([("h/cuda:0", 1)])  # what it sees is already over
    look = job_module._least_used
    monkeypatch.setattr(job_module, "_least_used", lambda devices: next(looks, None) or look(devices))
    assert late.share("two", ["h/cuda:0", "h/cuda:1"]) == "h/cuda:1" and held(late) == ["h/cuda:1"]
    late.finish("two", JobState.SUCCEEDED)
    assert held(late) == []


def test_a_job_that_is_taken_again_runs_since_it_was_first_taken() -> None:
    job = Job.objects.create(kind="ict")
    first = taken(job)
    assert first.give_back("one")
    again = taken(job, "two")
    assert again.started_at == first.started_at
    assert again.finish("two", JobState.STOPPED) and again.resume()
    assert taken(job, "three").started_at > first.started_at, "whoever resumes it starts it anew"
