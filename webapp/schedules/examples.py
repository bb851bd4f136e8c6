"""Examples of schedules, for the API's documentation."""

from __future__ import annotations

from typing import Any, Final

NEW_SCHEDULE: Final[dict[str, Any]] = {
    "corpus_name": "handbook",
    "trigger": "at",
    "at": "02:30",
    "weekday": 6,
    "questions": 5,
    "deploy": True,
}

CHANGES: Final[dict[str, Any]] = {"weekday": None, "enabled": True}

SCHEDULE: Final[dict[str, Any]] = {
    "id": 2,
    **NEW_SCHEDULE,
    "when": "every Sunday at 02:30 UTC",
    "hours": None,
    "model": None,
    "ingest": True,
    "enabled": True,
    "stage": "",
    "due_at": "2026-02-01T02:30:00Z",
    "last_run_at": None,
    "last_outcome": "",
    "last_failed": False,
    "last_job": None,
    "runs": [],
    "created_by": "stella",
    "created_at": "2026-01-31T12:00:00Z",
}

_JOB: Final = "1f6c4f0e-2f0b-4f57-8f4c-2b1a6b8b6a10"
_READING: Final = "Reading the source of handbook again."

RUN: Final[dict[str, Any]] = {
    **SCHEDULE,
    "stage": "ingest",
    "last_run_at": "2026-01-31T12:04:00Z",
    "last_outcome": _READING,
    "last_job": _JOB,
    "runs": [{"at": "2026-01-31T12:04:00Z", "outcome": _READING, "failed": False, "job": _JOB}],
}

RETENTION_CHANGES: Final[dict[str, Any]] = {"answer_days": 90}

RETENTION: Final[dict[str, Any]] = {
    "enabled": True,
    "generations": 3,
    "run_days": 30,
    "answer_days": 90,
    "changed_at": "2026-01-31T12:00:00Z",
}
