"""Jobs that are done in parts: an index build whose shards every worker may embed, a pre-training with its builder.

    whole ── wait_for ──▶ held by its parts ── the last part ends: settle ──▶ queued again, or ended as they did

    whole ── run_beside ──▶ part runs as long as the whole does ── end_beside ──▶ part is stopped, which is success

Parts are jobs like any other: claimed, leased, queued again when their worker is lost. Whoever ends a part settles its
whole; `repair`, which the scheduler calls, does it for those who died before they could.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from webapp.kinds import KINDS
from webapp.models import Job, JobKind, JobState
from webapp.models.job import ACTIVE, HELD, ITS_PARTS
from webapp.queue import enqueue

BESIDE = (JobKind.REFRESH,)  # kinds whose process runs as long as the whole's; it has no end of its own
_FAILED = (JobState.FAILED, JobState.INTERRUPTED)


@dataclass(frozen=True)
class Part:
    """A part that a whole wants. parameters: what tells it from the other parts."""

    kind: JobKind
    parameters: dict[str, Any]


def wait_for(whole: Job, owner: str, wanted: Sequence[Part]) -> bool:
    """Leave `whole`, which `owner` holds, to its parts until all are done. False: they are done already."""
    with transaction.atomic():
        parts = [_part_of(whole, one) for one in wanted]
        if all(part.state == JobState.SUCCEEDED for part in parts) or not whole.wait_for_parts(owner):
            return False
        for part in parts:
            if part.state == JobState.SUCCEEDED or not (part.state == JobState.QUEUED or part.again()):
                continue
            enqueue(part)
    return True


def run_beside(whole: Job, wanted: Sequence[Part]) -> None:
    """Have these parts run as long as `whole` does; `whole` waits for none of them."""
    for one in wanted:
        part = _part_of(whole, one)
        if part.state == JobState.QUEUED or part.again():
            enqueue(part)


def end_beside(whole: Job) -> None:
    """End the parts that ran beside `whole`; those that run notice within a heartbeat."""
    for part in whole.parts.filter(kind__in=BESIDE, state=JobState.QUEUED):
        part.request_stop()


def is_needed(part: Job) -> bool:
    """Whether a part that runs beside a whole is still wanted: as long as the whole is not over."""
    if part.kind not in BESIDE or part.parent_id is None:
        return True
    return Job.objects.filter(pk=part.parent_id, state__in=ACTIVE).exists()


def settle(whole: Job) -> None:
    """Bring a whole that is held by its parts to where they are: its progress, its turn, or its end."""
    parts = list(whole.parts.exclude(kind__in=BESIDE).defer("log"))
    failed = next((part for part in parts if part.state in _FAILED), None)
    active = [part for part in parts if part.state in ACTIVE]
    if failed is not None:
        for part in active:
            part.request_stop()
        active = [part for part in active if part.state in ACTIVE]
    if active:
        _add_up(whole, parts)
    elif failed is not None:
        whole.parts_ended(JobState.FAILED, error=f"{failed.get_kind_display()} ({failed.pk}): {failed.error}")
    elif all(part.state == JobState.SUCCEEDED for part in parts):
        _add_up(whole, parts)
        with transaction.atomic():
            if whole.parts_ended(JobState.QUEUED):
                enqueue(whole)
            else:  # somebody asked it to stop, too late for its parts
                whole.parts_ended(JobState.STOPPED)
    else:
        whole.parts_ended(JobState.STOPPED)


def settle_whole_of(part: Job) -> None:
    """Settle the whole that `part` belongs to, if it waits for its parts."""
    if part.parent_id is None:
        return
    whole = Job.objects.filter(pk=part.parent_id, lease_owner=ITS_PARTS, state__in=HELD).defer("log").first()
    if whole is not None:
        settle(whole)


def repair() -> None:
    """What was left undone by workers that died: settle every whole, run and end what runs beside one."""
    for whole in Job.objects.filter(lease_owner=ITS_PARTS, state__in=HELD).defer("log"):
        settle(whole)
    for part in Job.objects.filter(kind__in=BESIDE, state=JobState.QUEUED).exclude(parent__state__in=ACTIVE):
        part.request_stop()
    # Told to stop or to end with the whole, which then went on before it had.
    ended = (JobState.STOPPED, JobState.SUCCEEDED)
    for part in Job.objects.filter(kind__in=BESIDE, state__in=ended, parent__state=JobState.RUNNING):
        if part.again():
            enqueue(part)


def _part_of(whole: Job, wanted: Part) -> Job:
    """The part of `whole` with these parameters; made if there is none."""
    for part in whole.parts.filter(kind=wanted.kind).defer("log"):
        if part.parameters == wanted.parameters:
            return part
    return Job.objects.create(
        kind=wanted.kind,
        queue=KINDS[wanted.kind].queue,
        parameters=wanted.parameters,
        parent=whole,
        created_by=whole.created_by,
    )


def _add_up(whole: Job, parts: Sequence[Job]) -> None:
    """The progress of a whole is the sum of its parts'."""
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
    Job.objects.filter(pk=whole.pk, lease_owner=ITS_PARTS).update(progress=progress)
