"""The workers' application with one more kind of job, a small script, and a hurried scheduler."""

from __future__ import annotations

from typing import Any

from workers.app import app  # first: it sets up Django

# isort: split

from webapp.models import Job
from workers import tasks
from workers.kinds import KINDS, Kind

__all__ = ["app"]


def command(job: Job) -> list[str]:
    return ["-m", "tests.workers.script", *(f"--{name}={value}" for name, value in job.parameters.items())]


def record(_job: Job, result: dict[str, Any]) -> dict[str, Any]:
    return {"recorded": result["steps"]}


KINDS["script"] = Kind(command=command, record=record)
app.conf.beat_schedule["requeue-expired"]["schedule"] = 0.5
tasks.RESEND_AFTER_S = 2
