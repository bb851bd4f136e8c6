"""What makes a job's process end: being told to, a lost lease, a worker that ends, the end of its whole."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from django.db import OperationalError
from django.utils import timezone

from realm_core.runs.folder import RunFolder
from webapp.models import Job, JobKind, JobMetric, JobState
from webapp.models.job import ITS_PARTS
from workers import job_run
from workers.executions import EXECUTIONS, JobExecution
from workers.job_run import JobRun, Timing

pytestmark = [pytest.mark.django_db, pytest.mark.postgresql_only]

PROGRESS = {"done": 3, "total": 9, "unit": "rows"}


Runs = Callable[..., tuple[Job, list[str]]]


class Running:
    """A process that runs until it is told to end, or is killed; each time it is looked at, something happens.

    answer: the status with which it ends when it is told to; None: it does not listen.
    """

    pid = 0

    def __init__(self, happens: Callable[[], object], answer: int | None) -> None:
        self._happens, self._answer = happens, answer
        self.status: int | None = None
        self.signals: list[str] = []

    def start(self, folder: RunFolder, _command: Sequence[str], /, **_about: Any) -> Running:
        folder.metrics_file.write_text('{"step": 1, "time": 1.7e9}\n')
        return self

    def poll(self) -> int | None:
        if self.status is None:
            self._happens()
        return self.status

    def ask(self) -> None:
        self.signals.append("asked")
        self.status = self._answer

    def end(self, until: float) -> int:
        if self.status is None:
            self.signals.append("killed")
            self.status = -9
        return self.status


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    """Run a job until what happens to it makes it end; the job, and what its process was told."""
    monkeypatch.setattr(job_run, "end", Running.end)
    monkeypatch.setattr(job_run, "ask_to_end", Running.ask)
    monkeypatch.setattr(job_run, "shutting_down", threading.Event())

    def run(
        happens: Callable[[Job], object],
        *,
        answer: int | None = 3,
        lease_s: float = 60,
        stop_s: float = 0.05,
        **values: Any,
    ) -> tuple[Job, list[str]]:
        job = Job.objects.create(**{"kind": "export", **values})
        process = Running(lambda: happens(Job.objects.get(pk=job.pk)), answer)
        monkeypatch.setattr(job_run, "start_in", process.start)
        monkeypatch.setitem(
            EXECUTIONS, job.kind, JobExecution(command=lambda _job: ["module"], record=lambda _job, result: result)
        )
        claimed = Job.claim(job.pk, "me", 60)
        assert claimed is not None
        JobRun(claimed, "me", Timing(lease_s, beat_s=0.01, look_s=0.01, grace_s=0.05, stop_s=stop_s)).run()
        claimed.refresh_from_db()
        return claimed, process.signals

    return run


@pytest.mark.timeout(30)
@pytest.mark.parametrize(("answer", "signals"), [(3, ["asked"]), (1, ["asked"]), (None, ["asked", "killed"])])
def test_a_process_is_asked_to_stop_and_killed_if_it_does_not(
    runs: Runs, answer: int | None, signals: list[str]
) -> None:
    job, told = runs(Job.request_stop, answer=answer)
    assert (job.state, told) == (JobState.STOPPED, signals)


@pytest.mark.timeout(30)
def test_a_step_that_takes_long_is_waited_for_unless_the_worker_ends(runs: Runs) -> None:
    looks = []

    def happens(job: Job) -> None:
        job.request_stop()
        looks.append(time.monotonic())
        if looks[-1] - looks[0] > 0.5:  # ten times the grace of a worker that ends
            job_run.shutting_down.set()

    job, told = runs(happens, answer=None, stop_s=60)
    assert (job.state, told) == (JobState.STOPPED, ["asked", "killed"])
    assert looks[-1] - looks[0] > 0.5


@pytest.mark.timeout(30)
def test_whoever_lost_the_lease_kills_the_process_and_writes_nothing(
    runs: Runs,
) -> None:
    job, told = runs(lambda job: Job.objects.filter(pk=job.pk).update(lease_owner="you"))
    assert (job.state, job.lease_owner, told) == (JobState.RUNNING, "you", ["killed"])
    assert not JobMetric.objects.exists()  # which would stand there twice


@pytest.mark.timeout(30)
@pytest.mark.parametrize("answer", [3, None])
def test_a_worker_that_ends_hands_its_job_back_uncounted(runs: Runs, answer: int | None) -> None:
    job, _ = runs(lambda _job: job_run.shutting_down.set(), answer=answer)
    assert (job.state, job.attempt, job.fruitless, job.sent_at) == (JobState.QUEUED, 1, 0, None)
    assert job.error == "It was stopped with the service, and goes on when that starts again."
    assert job.error in job.log


@pytest.mark.timeout(30)
def test_a_builder_whose_training_is_over_has_succeeded(runs: Runs) -> None:
    training = Job.objects.create(kind="pretrain", state=JobState.RUNNING)

    def over(_job: Job) -> None:
        Job.objects.filter(pk=training.pk).update(state=JobState.FAILED)

    job, told = runs(over, kind=JobKind.REFRESH, parent=training)
    assert (job.state, told) == (JobState.SUCCEEDED, ["asked"])
    job, told = runs(over, kind=JobKind.REFRESH, parent=training)  # claimed when it was over already
    assert (job.state, told, job.run_dir.exists()) == (JobState.SUCCEEDED, [], False)


@pytest.mark.timeout(30)
def test_a_running_part_brings_its_whole_up_to_date(runs: Runs) -> None:
    whole = Job.objects.create(kind=JobKind.INDEX, state=JobState.RUNNING, lease_owner=ITS_PARTS)
    seen = []

    def happens(job: Job) -> None:
        (job.run_dir / "progress.json").write_text(json.dumps(PROGRESS))
        whole.refresh_from_db()
        if whole.progress.get("done"):
            seen.append(whole.progress["done"])
            job.request_stop()

    runs(happens, kind=JobKind.INDEX_SHARD, parent=whole, parameters={"shard": 0, "rows": 9})
    assert seen


@pytest.mark.timeout(30)
@pytest.mark.parametrize(("lease_s", "state"), [(60.0, JobState.STOPPED), (0.0, JobState.RUNNING)])
def test_a_database_that_is_away_is_borne_as_long_as_the_lease_holds(
    runs: Runs, monkeypatch: pytest.MonkeyPatch, lease_s: float, state: str
) -> None:
    heartbeat, missed = Job.heartbeat, []

    def broken(self: Job, owner: str, lease_s: float, **values: Any) -> JobState | None:
        if len(missed) < 3:
            missed.append(owner)
            raise OperationalError("the database does not answer")
        return heartbeat(self, owner, lease_s, **values)

    monkeypatch.setattr(Job, "heartbeat", broken)
    monkeypatch.setattr(job_run, "close_old_connections", lambda: None)  # it is the test's
    job, told = runs(Job.request_stop if lease_s else lambda _job: None, lease_s=lease_s)
    assert told == (["asked"] if lease_s else ["killed"])
    assert job.state == state


@pytest.mark.timeout(30)
def test_the_lease_is_renewed_while_it_runs(runs: Runs) -> None:
    now = timezone.now()
    shortened: list[Job] = []

    def happens(job: Job) -> None:
        if not shortened:
            shortened.append(job)
            Job.objects.filter(pk=job.pk).update(lease_expires_at=now)
        elif job.lease_expires_at is not None and job.lease_expires_at > now:
            job.request_stop()

    assert runs(happens)[0].state == JobState.STOPPED
