"""Jobs with parts: an index build whose shards any worker may embed, a pre-training with its builder.

    parent ── wait_for ──▶ held by its parts ── the last part ends: settle ──▶ queued again, or ended as they did

    parent ── run_beside ──▶ part runs as long as the parent does ── end_beside ──▶ part is stopped, which is success

A job with parts is their *parent*. Parts are ordinary jobs: claimed, leased, queued again if their worker is lost. The
worker that ends a part settles its parent; `repair`, which the scheduler calls, does so for workers that died before
they could.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Sequence
from typing import Any

from django.db import transaction

from realm_core.task import JobPart
from webapp.jobs.queue import enqueue
from webapp.kinds import KINDS
from webapp.models import Job, JobState
from webapp.models.job import ITS_PARTS
from webapp.models.job_states import ACTIVE, COMPANION_KINDS, FINISHED, HELD

_UNDONE = (
    JobState.FAILED,
    JobState.INTERRUPTED,
)  # a parent ends in the first of these that a part has
_TO_REST = (JobState.QUEUED, JobState.INTERRUPTED)


class Readiness(enum.Enum):
    """Whether a parent may run."""

    READY = "its parts are done"
    WAITING = "it waits for its parts"
    LOST = "it is to stop, or another worker holds it"


def wait_for(parent: Job, owner: str, wanted: Sequence[JobPart]) -> Readiness:
    """Hand `parent`, which `owner` holds, over to its parts until all are done."""
    with transaction.atomic():
        undone = [part for part in _parts_of(parent, wanted) if part.state != JobState.SUCCEEDED]
        if not undone:
            return Readiness.READY
        if not parent.wait_for_parts(owner):
            transaction.set_rollback(True)
            return Readiness.LOST
        enqueue(*[part for part in undone if part.state == JobState.QUEUED or part.again()])
    return Readiness.WAITING


def run_beside(parent: Job, wanted: Sequence[JobPart]) -> None:
    """Run these parts as long as `parent` runs; `parent` does not wait for them."""
    parts = _parts_of(parent, wanted)
    enqueue(*[part for part in parts if part.state == JobState.QUEUED or part.again()])


def end_beside(parent: Job) -> None:
    """End the parts that ran beside `parent`; running ones notice within a heartbeat."""
    Job.stop_all(parent.parts.filter(kind__in=COMPANION_KINDS, state__in=_TO_REST))


def is_needed(part: Job) -> bool:
    """Whether a part that runs beside a parent is still needed: as long as the parent has not ended."""
    if part.kind not in COMPANION_KINDS or part.parent_id is None:
        return True
    return Job.objects.filter(pk=part.parent_id, state__in=ACTIVE).exists()


def settle(parent: Job) -> None:
    """Update a parent that is held by its parts: its progress, its state, or its end."""
    shards = parent.parts.exclude(kind__in=COMPANION_KINDS)
    parts = list(shards.defer("log"))
    ended = next((part for state in _UNDONE for part in parts if part.state == state), None)
    if (ended is not None or parent.state == JobState.STOPPING) and any(part.state in ACTIVE for part in parts):
        Job.stop_all(shards.filter(state__in=ACTIVE))
        parts = list(shards.defer("log"))
    if any(part.state in ACTIVE for part in parts):
        _sum_progress(parent, parts)
    elif all(part.state == JobState.SUCCEEDED for part in parts):
        _sum_progress(parent, parts)
        with transaction.atomic():
            if parent.parts_ended(JobState.QUEUED):
                enqueue(parent)
            else:  # it was asked to stop when its parts had ended
                parent.parts_ended(JobState.STOPPED)
    elif ended is None or not parent.parts_ended(JobState(ended.state), error=_failure_of(ended)):
        parent.parts_ended(JobState.STOPPED)


def settle_whole_of(part: Job) -> None:
    """Settle the parent that `part` belongs to, if it waits for its parts."""
    if part.parent_id is None:
        return
    parent = Job.objects.filter(pk=part.parent_id, lease_owner=ITS_PARTS, state__in=HELD).defer("log").first()
    if parent is None:
        return
    if part.state == JobState.SUCCEEDED and parent.interruptions:  # it has made progress
        Job.objects.filter(pk=parent.pk).update(interruptions=0)
    settle(parent)


def repair() -> None:
    """Do what workers that died did not: settle every parent, start and end parts."""
    for parent in Job.objects.filter(lease_owner=ITS_PARTS, state__in=HELD).defer("log"):
        settle(parent)
    orphans = Job.objects.filter(parent__state__in=FINISHED)
    Job.stop_all(orphans.filter(kind__in=COMPANION_KINDS, state__in=_TO_REST))  # running ones notice it themselves
    Job.stop_all(orphans.exclude(kind__in=COMPANION_KINDS).filter(state__in=ACTIVE))
    # Companions that ended with their parent, after it had been resumed.
    over = (JobState.STOPPED, JobState.SUCCEEDED)
    for part in Job.objects.filter(kind__in=COMPANION_KINDS, state__in=over, parent__state=JobState.RUNNING).defer(
        "log"
    ):
        if part.again():
            enqueue(part)


def _failure_of(part: Job) -> str:
    return f"{part.get_kind_display()} ({part.pk}): {part.error}"


def _parts_of(parent: Job, wanted: Sequence[JobPart]) -> list[Job]:
    """The parts of `parent` with these parameters; created if they do not exist."""
    there = {_key_of(part.kind, part.parameters): part for part in parent.parts.defer("log")}
    missing = [
        Job(
            kind=one.kind,
            queue=KINDS[one.kind].queue,
            parameters=one.parameters,
            parent=parent,
            created_by=parent.created_by,
        )
        for one in wanted
        if _key_of(one.kind, one.parameters) not in there
    ]
    there |= {_key_of(part.kind, part.parameters): part for part in Job.objects.bulk_create(missing, batch_size=500)}
    return [there[_key_of(one.kind, one.parameters)] for one in wanted]


def _key_of(kind: str, parameters: dict[str, Any]) -> str:
    return json.dumps([kind, parameters], sort_keys=True)


def _sum_progress(parent: Job, parts: Sequence[Job]) -> None:
    """Set the progress of a parent to the sum of its parts'."""
    said = [part.progress for part in parts]
    done = sum(one.get("done") or 0 for one in said)
    total = sum(part.parameters.get("rows", 0) for part in parts)
    rate = sum(one.get("rate") or 0 for part, one in zip(parts, said, strict=True) if part.state in HELD)
    latest = max((one.get("time", 0) for one in said), default=0)
    progress = {
        "done": done,
        "total": total,
        "unit": "blocks",
        "rate": rate or None,
        "seconds_left": (total - done) / rate if rate else None,
        "message": f"{sum(part.state == JobState.SUCCEEDED for part in parts)} of {len(parts)} shards",
        "time": latest,
    }
    Job.objects.filter(pk=parent.pk, lease_owner=ITS_PARTS).update(progress=progress)
