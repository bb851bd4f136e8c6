"""What is kept of old work: the rule, what it would remove, and removing it.

Never removed: what is deployed or was lately, what is pinned, what an unfinished job works on. A generation keeps its
row, so that lineage and old answers still name it; its files go, and with them it goes out of every list.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from realm_core.files import remove_folder
from webapp.models import AuditEntry, Deployment, IndexGeneration, Job, RetentionRule
from webapp.models.job import ACTIVE, FINISHED
from webapp.services.places import resolve

DEPLOYMENTS_KEPT: Final = 5  # so many can be gone back to at once


@dataclass(frozen=True)
class Removal:
    """One thing that the rule removes.

    record: the generation, or the job whose run folder it is. folder: where its files lie. size_bytes: of them.
    """

    record: IndexGeneration | Job
    folder: Path
    size_bytes: int

    @property
    def is_index(self) -> bool:
        """An index generation; otherwise the run folder of a job."""
        return isinstance(self.record, IndexGeneration)

    @property
    def name(self) -> str:
        """What it is, in words."""
        return str(self.record) if self.is_index else f"Run folder of job {self.record.pk}: {self.record}"


def change_rule(*, enabled: bool, generations: int, run_days: int, by: User | str | None) -> RetentionRule:
    """Change what is kept. ValidationError (Django's) for numbers below 1."""
    rule = RetentionRule.current()
    rule.enabled, rule.generations, rule.run_days = enabled, generations, run_days
    rule.full_clean()
    with transaction.atomic():
        rule.save()
        AuditEntry.record("retention.edit", rule, by=by, enabled=enabled, generations=generations, run_days=run_days)
    return rule


def removable(rule: RetentionRule | None = None, now: datetime | None = None) -> list[Removal]:
    """What a rule (default: the current one, switched on or not) would remove now."""
    rule = rule or RetentionRule.current()
    return [*_generations(rule), *_runs(rule, now or timezone.now())]


def remove(*, by: User | str | None, now: datetime | None = None) -> list[Removal]:
    """Remove what the current rule says; returns what went. Whether it is switched on is for the caller to ask."""
    gone = []
    for removal in removable(now=now):
        if isinstance(removal.record, IndexGeneration) and not _give_up(removal.record):
            continue  # it was pinned, deployed or taken by a job in the meantime
        remove_folder(removal.folder)
        gone.append(removal)
    if gone:
        AuditEntry.record(
            "retention.remove",
            f"{len(gone)} folders",
            by=by,
            removed=[removal.name for removal in gone],
            bytes=sum(removal.size_bytes for removal in gone),
        )
    return gone


def _generations(rule: RetentionRule) -> list[Removal]:
    """All but the newest of each corpus, by its name: snapshots of one corpus follow one another."""
    seen: dict[str, int] = {}
    found = []
    kept = _kept_indexes()
    for index in IndexGeneration.objects.select_related("corpus", "model"):
        seen[index.corpus.name] = number = seen.get(index.corpus.name, 0) + 1
        if number > rule.generations and not index.pinned and index.pk not in kept:
            found.append(_removal(index, resolve(index.path)))
    return found


def _kept_indexes() -> set[int]:
    """Generations that are deployed or were lately, or that an unfinished job works on."""
    lately = set(Deployment.objects.values_list("index", flat=True)[:DEPLOYMENTS_KEPT])
    active = set(Deployment.objects.filter(is_active=True).values_list("index", flat=True))
    used = {one for job in Job.objects.filter(state__in=ACTIVE) if isinstance(one := job.parameters.get("index"), int)}
    return lately | active | used


def _runs(rule: RetentionRule, now: datetime) -> list[Removal]:
    """Run folders of jobs that ended long ago, but not a part's whose whole goes on."""
    old = Job.objects.filter(state__in=FINISHED, finished_at__lt=now - timedelta(days=rule.run_days), pinned=False)
    old = old.exclude(parent__state__in=ACTIVE).exclude(parent__pinned=True)
    busy = _in_use()
    return [_removal(job, job.run_dir) for job in old.defer("log") if job.pk not in busy and job.run_dir.is_dir()]


def _in_use() -> set[UUID]:
    """Jobs of which a part goes on: its process works in their run folder."""
    parents = Job.objects.filter(state__in=ACTIVE).filter(~Q(parent=None)).values_list("parent", flat=True)
    return {parent for parent in parents if parent is not None}


def _give_up(index: IndexGeneration) -> bool:
    """Mark a generation as removed, unless it is wanted by now."""
    with transaction.atomic():
        if index.pk in _kept_indexes():
            return False
        return bool(IndexGeneration.objects.filter(pk=index.pk, pinned=False).update(removed_at=timezone.now()))


def _removal(record: IndexGeneration | Job, folder: Path) -> Removal:
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else 0
    return Removal(record, folder, size)
