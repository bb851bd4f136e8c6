"""The clock of a machine is set forward and back while a worker and a scheduler work."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.waiting import wait_until
from tests.workers.conftest import Workers, make_job, send, steps, wait_for_state
from webapp.models import Scheduler

HOUR_S = 3600


@pytest.fixture
def clock(workers: Workers) -> Iterator[Path]:
    """How many seconds the workers' clock is ahead."""
    workers.application = "tests.workers.jumping"
    path = Path(os.environ["REALM_DATA"]) / "clock"
    path.write_text("0")
    yield path
    path.unlink()


def wait_for_rounds(count: int) -> None:
    """Until the scheduler has reported so many rounds more."""
    reported = set(Scheduler.objects.values_list("seen_at"))
    most = len(reported) + count
    wait_until(lambda: reported.update(Scheduler.objects.values_list("seen_at")) or len(reported) >= most)


def test_no_job_is_lost_or_doubled(workers: Workers, clock: Path) -> None:
    job = make_job(steps=60)
    first = workers.worker()
    workers.scheduler()
    send(job)
    for ahead_s in (HOUR_S, 0, -HOUR_S, HOUR_S):
        done = len(steps(job))
        wait_until(lambda done=done: len(steps(job)) >= done + 3)
        clock.write_text(str(ahead_s))
        wait_for_rounds(3)  # the first may have begun before
    # It is set back, and the worker dies: its lease is of a time that is long to come, and so is the last look.
    clock.write_text("0")
    first.kill()
    first.wait()
    workers.worker()
    wait_for_state(job, "succeeded", patience_s=45)
    assert [step for _, step in steps(job)] == list(range(60))
    assert not (job.run_dir / "two-at-once").exists()
