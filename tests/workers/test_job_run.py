"""How the end of a process is recorded: by its status, and also when the database is away just then."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from django.db import OperationalError

from realm_core.errors import RealmError
from realm_core.living.tasks import COPY
from realm_core.runs.folder import RunFolder
from realm_core.runs.processes import EXIT_LOCKED
from realm_core.task import JobPart
from webapp.models import AuditEntry, DeviceLease, Job, JobKind, JobMetric, JobState
from webapp.models.job import MAX_ATTEMPTS
from workers import devices, job_run
from workers.executions import EXECUTIONS, JobExecution
from workers.job_run import JobRun, Timing

pytestmark = pytest.mark.django_db

RESULT = {"rows": 3}
PROGRESS = {"done": 3, "total": 9, "unit": "rows"}
TIMING = Timing(lease_s=5, beat_s=0.01, look_s=0.01)


class Ended:
    """A process that has ended, and left in its run folder what it had to say."""

    pid = 0
    nice: ClassVar[int | None] = None  # of the one that was started last

    def __init__(self, status: int, said: str) -> None:
        self._status, self._said = status, said

    def start(self, folder: RunFolder, command: Sequence[str], /, *, nice: int, **_about: Any) -> Ended:
        Ended.nice = nice
        run = folder.path
        assert command[-1] == f"--run={run}"
        if self._status == 0:
            (run / "result.json").write_text(json.dumps(RESULT))
        (run / "metrics.jsonl").write_text('{"step": 1, "time": 1.7e9, "loss": 2}\n')
        (run / "progress.json").write_text(json.dumps(PROGRESS))
        with open(folder.log_file, "a") as log:
            log.write(self._said)
        return self

    def poll(self) -> int:
        return self._status


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Job]:
    """Run a job whose process ends with a status and what it says; the kind succeeds with its result."""
    monkeypatch.setattr(job_run, "end", lambda process, until: process.poll())

    def run(
        status: int,
        said: str = "",
        *,
        kind: str = "export",
        timing: Timing = TIMING,
        values: dict[str, Any] | None = None,
        **about: Any,
    ) -> Job:
        monkeypatch.setattr(job_run, "start_in", Ended(status, said).start)
        told = {"command": lambda _job: ["module"], "record": lambda _job, result: result, **about}
        monkeypatch.setitem(EXECUTIONS, kind, JobExecution(**told))
        # A builder without a training is taken for needed, so that none has to be made.
        claimed = Job.claim(Job.objects.create(kind=kind, **(values or {})).pk, "me", 60)
        assert claimed is not None
        JobRun(claimed, "me", timing).run()
        claimed.refresh_from_db()
        return claimed

    return run


@pytest.mark.parametrize(
    ("status", "said", "state", "error"),
    [
        (0, "", JobState.SUCCEEDED, ""),
        (2, "error: The disk is full.\n", JobState.FAILED, "The disk is full."),
        (3, "", JobState.STOPPED, ""),
        (1, "", JobState.FAILED, "The process ended with status 1; the end of its log shows where."),
        (-9, "", JobState.QUEUED, "Its process ended by SIGKILL in attempt 1; another one goes on from what is kept."),
    ],
)
def test_the_exit_status_decides_the_state_of_the_job(
    ends: Callable[..., Job], status: int, said: str, state: str, error: str
) -> None:
    job = ends(status, said)
    assert (job.state, job.error) == (state, error)
    assert job.result == (RESULT if state == JobState.SUCCEEDED else {})


@pytest.mark.parametrize(("status", "left"), [(0, False), (3, False), (-9, False), (EXIT_LOCKED, True)])
def test_a_killed_process_leaves_no_copy_of_the_corpus(ends: Callable[..., Job], status: int, left: bool) -> None:
    """Documents may be purged before the job is resumed. What is locked belongs to a process that still runs."""

    def command(job: Job) -> list[str]:
        (job.run_dir / COPY / "index").mkdir(parents=True)
        return ["module"]

    assert (ends(status, command=command).run_dir / COPY).exists() == left


@pytest.mark.parametrize("status", [1, 2])
@pytest.mark.parametrize("said", ["", "error: It is damaged.\n"])
def test_what_cannot_write_its_log_because_the_disk_is_full_says_so(
    ends: Callable[..., Job], monkeypatch: pytest.MonkeyPatch, status: int, said: str
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _folder: SimpleNamespace(free=4096))
    job = ends(status, said)
    assert job.state == JobState.FAILED and (" is full. Free some of it" in job.error) == (not said)


@pytest.mark.parametrize("yields", [0, 4])
def test_its_process_yields_as_the_setting_and_its_kind_say(
    ends: Callable[..., Job], settings: Any, yields: int
) -> None:
    settings.JOB_NICENESS = 5
    ends(0, yields=yields)
    assert Ended.nice == 5 + yields


@pytest.mark.parametrize(("status", "said"), [(0, "Done.\n"), (2, "error: No.\n"), (3, "Stopped.\n"), (1, "Oh.\n")])
def test_the_last_that_it_said_is_kept(ends: Callable[..., Job], status: int, said: str) -> None:
    """There was no heartbeat since."""
    job = ends(status, said)
    assert (job.log, job.progress) == (said, PROGRESS)
    assert job.metrics.get().values == {"loss": 2}


def test_what_is_killed_without_getting_further_is_sent_again_and_then_rests(ends: Callable[..., Job]) -> None:
    further = ends(-9)
    assert (further.state, further.attempt, further.fruitless) == (JobState.QUEUED, 1, 0)
    assert further.sent_at is not None
    assert "SIGKILL in attempt 1" in further.error and further.error in further.log

    def no_further(job: Job) -> list[str]:
        (job.run_dir / "furthest.json").write_text('{"rows": 3}')
        return ["module"]

    def again(attempt: int) -> Job:
        return ends(-9, command=no_further, before=_with_run_dir, values={"fruitless": attempt - 1})

    last_but_one, last = again(MAX_ATTEMPTS - 1), again(MAX_ATTEMPTS)
    assert (last_but_one.state, last_but_one.fruitless) == (JobState.QUEUED, MAX_ATTEMPTS - 1)
    assert last_but_one.sent_at is not None
    assert (last.state, last.interruptions) == (JobState.INTERRUPTED, 1) and "SIGKILL 3 times" in last.error


def _with_run_dir(job: Job) -> Sequence[JobPart]:
    job.run_dir.mkdir(parents=True, exist_ok=True)
    return ()


def test_what_another_process_still_works_on_waits_and_is_not_fruitless(ends: Callable[..., Job]) -> None:
    job = ends(EXIT_LOCKED)
    assert (job.state, job.attempt, job.fruitless, job.sent_at) == (JobState.QUEUED, 1, 0, None)


def test_a_job_that_waits_for_its_parts_was_not_begun(ends: Callable[..., Job]) -> None:
    shard = JobPart(JobKind.INDEX_SHARD, {"rows": 1})
    job = ends(0, before=lambda _job: [shard])
    assert (job.state, job.attempt) == (JobState.RUNNING, 0) and job.parts.count() == 1


def test_an_error_of_the_worker_s_own_fails_the_job(ends: Callable[..., Job]) -> None:
    def broken(_job: Job) -> list[str]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ends(0, command=broken)
    job = Job.objects.get()
    assert job.state == JobState.FAILED and "inside the worker" in job.error


def test_who_lost_the_job_meanwhile_records_nothing(ends: Callable[..., Job]) -> None:
    def lost(job: Job) -> list[str]:
        Job.objects.filter(pk=job.pk).update(lease_owner="you")
        return ["module"]

    def record(job: Job, result: dict[str, Any]) -> dict[str, Any]:
        AuditEntry.record("made", "a record", by=None, job=job)
        return result

    at_once = Timing(lease_s=5, beat_s=5)  # before another heartbeat
    for timing in (at_once, Timing(lease_s=5, beat_s=0)):
        job = ends(0, command=lost, record=record, timing=timing)
        assert (job.state, job.lease_owner, job.result) == (JobState.RUNNING, "you", {})
        assert not AuditEntry.objects.exists()
        assert job.metrics.exists() is (timing is at_once)


def test_of_several_processes_the_first_line_is_the_sentence(
    ends: Callable[..., Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(JobRun, "_devices", lambda _self: ["cuda:0", "cuda:1"])
    job = ends(2, "error: No questions.\nStopped; what was finished is kept.\n", distributed=True)
    assert job.error == "No questions."


def _refuse(_job: Job) -> list[str]:
    raise RealmError("The folder is gone.")


@pytest.mark.parametrize(
    ("status", "told", "error"),
    [
        (1, {}, "status 1"),  # CUDA is out of memory, say
        (2, {}, "without saying why"),
        (0, {"command": _refuse}, "The folder is gone."),
    ],
)
def test_a_builder_is_interrupted_where_another_job_would_fail(
    ends: Callable[..., Job], status: int, told: dict[str, Any], error: str
) -> None:
    job = ends(status, kind=JobKind.REFRESH, **told)
    assert (job.state, job.interruptions) == (JobState.INTERRUPTED, 1) and error in job.error
    assert ends(status, **told).state == (JobState.SUCCEEDED if status == 0 and not told else JobState.FAILED)


# ── The database is away ────────────────────────────────────────────────────────────────────────────────────────────


def away(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """The first so many attempts to record the end fail."""
    left = [times]
    finish = Job.finish

    def broken(self: Job, *args: Any, **values: Any) -> bool:
        left[0] -= 1
        if left[0] >= 0:
            raise OperationalError("the database does not answer")
        return finish(self, *args, **values)

    monkeypatch.setattr(Job, "finish", broken)
    monkeypatch.setattr(job_run, "close_old_connections", lambda: None)  # it is the test's


def test_the_end_is_recorded_when_the_database_is_back(
    ends: Callable[..., Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    away(monkeypatch, 3)
    renewed = []
    heartbeat = Job.heartbeat

    def noted(self: Job, owner: str, lease_s: float, **values: Any) -> JobState | None:
        renewed.append(lease_s)
        return heartbeat(self, owner, lease_s, **values)

    monkeypatch.setattr(Job, "heartbeat", noted)
    job = ends(0)
    assert (job.state, job.result) == (JobState.SUCCEEDED, RESULT)
    assert JobMetric.objects.filter(job=job).count() == 1
    assert renewed  # nobody took it meanwhile


def test_who_cannot_record_as_long_as_the_lease_holds_leaves_the_row(
    ends: Callable[..., Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    away(monkeypatch, 1_000_000)
    monkeypatch.setattr(Job, "heartbeat", Job.finish)  # neither can the lease be renewed
    assert ends(0, timing=Timing(lease_s=0.1, beat_s=0.01, look_s=0.01)).state == JobState.RUNNING


# ── Which devices its process sees ──────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def gets(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Claim jobs of a kind, as many as there are devices named, on a machine of three; the devices that they get."""
    monkeypatch.setattr(devices, "own", lambda: ("cuda:0", "cuda:1", "cuda:2"))

    def claim(kind: str, jobs: int) -> list[str]:
        got = []
        for number in range(jobs):
            owner = f"{kind}-{number}"
            claimed = Job.claim(Job.objects.create(kind=kind).pk, owner, 60)
            assert claimed is not None
            got += JobRun(claimed, owner, TIMING)._devices()
        return got

    return claim


def training_on(*names: str) -> None:
    training = Job.objects.create(kind="ict", queue="train")
    assert Job.claim(training.pk, "training", 60, [devices.leased_as(name) for name in names]) is not None


def test_shards_use_all_devices_of_a_machine(gets: Callable[..., list[str]]) -> None:
    assert gets(JobKind.INDEX_SHARD, 4) == ["cuda:0", "cuda:1", "cuda:2", "cuda:0"]
    Job.objects.get(lease_owner="index-shard-1").finish("index-shard-1", JobState.SUCCEEDED)
    assert gets(JobKind.EVALUATE, 3) == ["cuda:1", "cuda:1", "cuda:2"]  # 2 jobs, 1, 1; then 2, 2, 1


def test_other_jobs_avoid_the_devices_of_trainings(gets: Callable[..., list[str]]) -> None:
    training_on("cuda:0")
    assert gets(JobKind.EVALUATE, 3) == ["cuda:1", "cuda:2", "cuda:1"]
    training_on("cuda:1", "cuda:2")  # which does not wait for those that share
    assert gets("export", 1) == ["cuda:0"]
    assert DeviceLease.held() == {devices.leased_as(f"cuda:{number}") for number in range(3)}


def test_a_worker_that_lost_the_job_takes_no_device(gets: Callable[..., list[str]]) -> None:
    job = Job.objects.create(kind=JobKind.EVALUATE, state=JobState.RUNNING, lease_owner="you")
    assert JobRun(job, "me", TIMING)._devices() == ["cuda:0"]
    assert not DeviceLease.objects.exists()


# ── A whole that is told to stop, or lost, before it could wait for its parts ───────────────────────────────────────


@pytest.mark.parametrize(("values", "state"), [({"state": "stopping"}, "stopped"), ({"lease_owner": "you"}, "running")])
def test_a_whole_that_was_stopped_or_lost_before_its_parts_starts_nothing(
    ends: Callable[..., Job], monkeypatch: pytest.MonkeyPatch, values: dict[str, str], state: str
) -> None:
    def shards(job: Job) -> Sequence[JobPart]:
        Job.objects.filter(pk=job.pk).update(**values)
        return [JobPart(JobKind.INDEX_SHARD, {"shard": 0, "rows": 1})]

    job = ends(0, before=shards)
    assert job.state == state and not job.parts.exists() and not job.run_dir.exists()
