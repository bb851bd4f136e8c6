"""Retention: the rule, what it would remove, and the removal.

The rule never removes models and corpora that a person ingested (`removing` does, for a person), what is or recently
was deployed, what is pinned, what a pinned model built, and what an unfinished job works on. Of the corpora that
schedules ingested it removes those that nothing uses: no index, no spans, no model. A generation or a corpus keeps its
row, because lineage and answers name it; its files are removed, and it is not listed any more.

Questions asked without an account are deleted after `answer_days`, whether the rule is enabled or not; feedback that a
curator accepted remains.

Each artefact is claimed before its removal: in a transaction that locks its row, checks again whether it may be
removed, and writes to the audit trail. Its folder is then hidden by one rename; an empty one represents what only the
object store has. What an interrupted removal left is removed by the next one (`finish`).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import Final

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from realm_core.errors import RealmError
from realm_core.files import disk_errors, remove_folder
from realm_core.index.choice import MilvusServer
from realm_core.index.milvus import drop
from realm_core.object_store import forget, is_shared
from webapp.artefacts import receipts
from webapp.artefacts.uses import paths_of, recent_deployments, uses_of_corpus
from webapp.models import (
    AskedAnswer,
    AuditEntry,
    CorpusSnapshot,
    CorpusState,
    Deployment,
    Document,
    Feedback,
    IndexGeneration,
    Job,
    JobKind,
    ModelVersion,
    RetentionRule,
    Review,
    Schedule,
)
from webapp.models.job_states import UNFINISHED
from webapp.storage.places import (
    corpora_dir,
    indexes_dir,
    lock_for_removal,
    models_dir,
    portable,
    resolve,
    runs_dir,
    spans_dir,
)

log = logging.getLogger(__name__)

# Jobs that write into a temporary folder.
_WRITERS_OF_FOLDERS: Final = (JobKind.INGEST, JobKind.INDEX, JobKind.INDEX_SHARD, JobKind.FOLD, JobKind.JOIN)
_REMOVED: Final = ".removed"
_AT_ONCE: Final = 500  # answers deleted in one transaction, so that others do not wait long for the lock


@dataclass(frozen=True)
class Removal:
    """One item that the rule removes.

    record: the generation, the corpus, or the job of the run folder; None: an abandoned build, or a copy of a corpus.
    folders: of its files, the own one first. size_bytes: of all these. copy_of: the corpus; None: this is no copy.
    """

    record: IndexGeneration | CorpusSnapshot | Job | None
    folders: tuple[Path, ...]
    size_bytes: int
    copy_of: CorpusSnapshot | None = None

    def __str__(self) -> str:
        """The item in words."""
        if isinstance(self.record, Job):
            return f"Run folder of job {self.record.pk}: {self.record}"
        if isinstance(self.record, CorpusSnapshot):
            return f"Corpus {self.record}"
        if self.copy_of is not None:
            return f"Copy in {portable(self.folders[0])} of the corpus {self.copy_of}"
        return str(self.record) if self.record is not None else f"Unfinished build {self.folders[0].name}"


def change_rule(*, by: User | str | None, **settings: int) -> RetentionRule:
    """Change fields of the retention rule. ValidationError (Django's) for numbers that are too small."""
    rule = RetentionRule.current()
    for name, value in settings.items():
        setattr(rule, name, value)
    rule.full_clean()
    with transaction.atomic():
        rule.save()
        AuditEntry.record("retention.edit", rule, by=by, **settings)
    return rule


def removable(rule: RetentionRule | None = None, now: datetime | None = None) -> list[Removal]:
    """What a rule (default: the current one, enabled or not) would remove now."""
    rule, now = rule or RetentionRule.current(), now or timezone.now()
    ended = [_removal(job, job.run_dir) for job in _ended_jobs(rule, now).defer("log") if job.run_dir.is_dir()]
    generations = _old_generations(rule)
    going = [one.record.pk for one in generations if isinstance(one.record, IndexGeneration)]
    unnamed = [] if _folders_are_written() else [*_abandoned_builds(rule, now), *_copies(rule, now)]
    return [*generations, *_unused_corpora(rule, going), *ended, *unnamed]


def remove(*, by: User | str | None, now: datetime | None = None) -> list[Removal]:
    """Apply the current rule; returns what was removed. The caller checks whether the rule is enabled.

    RealmError while a backup is being written.
    """
    rule, now = RetentionRule.current(), now or timezone.now()
    gone = []
    with lock_for_removal():
        _finish_removals()
        for removal in removable(rule, now):
            try:
                if not _claim(removal, rule, now, by):
                    continue
                if not isinstance(removal.record, Job):  # the folder of a job is made again for its next attempt
                    _hide(*removal.folders)
            except RealmError as error:
                log.error("%s is removed later: %s", removal.folders[0], error)
                continue
            for folder in removal.folders:
                _finish_logged(_hidden(folder))
            gone.append(removal)
    return gone


def finish() -> None:
    """Finish the removals that were interrupted, whatever the rule says. RealmError while a backup is being written."""
    with lock_for_removal():
        _finish_removals()


def forget_answers(*, by: User | str | None, now: datetime | None = None) -> int:
    """Delete questions asked without an account that the rule no longer keeps; returns their number."""
    rule, now = RetentionRule.current(), now or timezone.now()
    if not rule.answer_days:
        return 0
    before = now - timedelta(days=rule.answer_days)
    accepted = Feedback.objects.filter(review=Review.ACCEPTED).values("answer")
    old = AskedAnswer.objects.filter(asker=None, created_at__lt=before).exclude(pk__in=accepted)
    forgotten = 0
    while some := list(old.order_by("created_at").values_list("pk", flat=True)[:_AT_ONCE]):
        with transaction.atomic():
            AskedAnswer.objects.filter(pk__in=some).delete()
        forgotten += len(some)
    if forgotten:
        AuditEntry.record(
            "answers.forget", rule, by=by, answers=forgotten, asked_before=before.isoformat(timespec="seconds")
        )
    return forgotten


# ---- selection


def _old_generations(rule: RetentionRule) -> list[Removal]:
    """All generations but the newest of each corpus, by its name: snapshots of one corpus succeed each other.

    Includes those marked as removed whose files still exist, because the removal was interrupted.
    """
    seen: dict[str, int] = {}
    found = []
    kept = _kept_indexes()
    for index in IndexGeneration.every.select_related("corpus", "model"):
        if index.removed_at is None:
            seen[index.corpus.name] = seen.get(index.corpus.name, 0) + 1
            old = seen[index.corpus.name] > rule.generations
        else:
            old = resolve(index.path).is_dir()
        if old and index.pk not in kept:
            found.append(_removal(index, resolve(index.path)))
    return found


def _unused_corpora(rule: RetentionRule, going: Collection[int]) -> list[Removal]:
    """Corpora of schedules that nothing uses, but the newest of each name. going: indexes that are removed before them.

    Includes those marked as removed whose files still exist, as `_old_generations` does.
    """
    seen: dict[str, int] = {}
    found = []
    rebuilt = set(
        CorpusSnapshot.every.filter(Exists(Schedule.beginnings().filter(job=OuterRef("job")))).values_list(
            "pk", flat=True
        )
    )
    for corpus in CorpusSnapshot.every.all():
        if corpus.removed_at is None:
            seen[corpus.name] = seen.get(corpus.name, 0) + 1
            old = corpus.pk in rebuilt and seen[corpus.name] > rule.generations
            old = old and not any(_uses_of_rebuilt(corpus, going))
        else:
            old = corpus.pk in rebuilt and resolve(corpus.path).is_dir()
        if old and (paths := paths_of(corpus)):
            found.append(_removal(corpus, *paths))
    return found


def _uses_of_rebuilt(corpus: CorpusSnapshot, going: Collection[int] = ()) -> Iterator[str]:
    """`uses_of_corpus`, and what a person made of it. A schedule at work names its corpus."""
    yield from uses_of_corpus(corpus, going)
    ingests = Job.objects.filter(kind=JobKind.INGEST, result__corpus=corpus.pk)
    by_persons = ingests.exclude(
        Exists(Schedule.beginnings().filter(job=OuterRef("pk")))
    )  # who found the same in the source
    for made in (corpus.span_sets, corpus.model_versions, Schedule.objects.filter(corpus=corpus), by_persons):
        if made.exists():
            yield "Something was made of it, or is being made."


def _kept_indexes() -> set[int]:
    """Generations that are pinned, or their models, that are or were recently deployed, or that a job works on; and the
    one above which documents were edited that may wait to be brought over (`webapp/documents/bringing.py`)."""
    pinned = set(IndexGeneration.every.filter(Q(pinned=True) | Q(model__pinned=True)).values_list("pk", flat=True))
    lately = {deployment.index_id for deployment in recent_deployments()}
    edited = Deployment.objects.filter(Exists(Document.objects.filter(index=OuterRef("index"))))
    before = edited.exclude(index__deployments__is_active=True).values_list("index", flat=True)
    given = chain.from_iterable(job.records("index") for job in Job.objects.filter(state__in=UNFINISHED).defer("log"))
    return pinned | lately | set(before[:1]) | set(given)


def _ended_jobs(rule: RetentionRule, now: datetime) -> QuerySet[Job]:
    """Jobs that ended long ago, except parts of an active parent, and parents in whose run folder a part works."""
    old = Job.objects.exclude(state__in=UNFINISHED).filter(finished_at__lt=_long_ago(rule, now), pinned=False)
    parents = Job.objects.filter(state__in=UNFINISHED).exclude(parent=None).values("parent")
    return old.exclude(parent__state__in=UNFINISHED).exclude(parent__pinned=True).exclude(pk__in=parents)


def _folders_are_written() -> bool:
    return Job.objects.filter(state__in=UNFINISHED, kind__in=_WRITERS_OF_FOLDERS).exists()


def _abandoned_builds(rule: RetentionRule, now: datetime) -> list[Removal]:
    """Folders of ingests and index builds that were not continued for as long as run folders are kept."""
    before = _long_ago(rule, now).timestamp()
    folders = (folder for place in (indexes_dir(), corpora_dir()) for folder in sorted(place.glob(".*.partial*")))
    return [_removal(None, folder) for folder in folders if _changed_at(folder) < before]


def _copies(rule: RetentionRule, now: datetime) -> list[Removal]:
    """Second folders of recorded corpora, which the same articles under another name made until 30 November 2026."""
    return [copy for corpus in CorpusSnapshot.objects.all() for copy in _copies_of(corpus, rule, now)]


def _copies_of(corpus: CorpusSnapshot, rule: RetentionRule, now: datetime) -> list[Removal]:
    from realm_core.corpus.tables import derived_folders  # loads pyarrow

    named, before = resolve(corpus.path), _long_ago(rule, now).timestamp()
    if not (named / "manifest.json").exists():
        return []
    copies = [one for one in sorted(corpora_dir().glob(f"[!.]*/{corpus.snapshot_id}")) if not one.samefile(named)]
    edited = CorpusState.objects.filter(
        state__base__snapshot=corpus.snapshot_id
    )  # a state names its base by its folders
    names = {state["name"] for state in edited.values_list("state", flat=True).iterator()}
    unused = (one for one in copies if one.parent.name not in names and _changed_at(one) < before)
    return [_removal(None, one, *derived_folders(one), copy_of=corpus) for one in unused]


def _long_ago(rule: RetentionRule, now: datetime) -> datetime:
    return now - timedelta(days=rule.run_days)


# ---- removal


def take_away(*folders: Path) -> None:
    """Remove folders, all of which are hidden at once, here and in the object store.

    RealmError if that or Milvus does not answer; `finish` removes the rest.
    """
    _hide(*folders)
    for folder in folders:
        _finish(_hidden(folder))


def _finish(hidden: Path) -> None:
    """Remove a hidden folder; before, what Milvus and the store have of it, unless it was made again since."""
    unfinished_one = hidden.with_name(hidden.name.removesuffix(_REMOVED))
    published = unfinished_one.with_name(unfinished_one.name.removeprefix("."))
    server = settings.REALM_SEARCH
    if not _is_wanted(published):
        if isinstance(server, MilvusServer) and hidden.parent == indexes_dir():
            drop(server, published.name)
        forget(published)
    if not unfinished_one.exists():
        forget(unfinished_one)
    remove_folder(hidden)
    if hidden.parent.parent == corpora_dir():  # the folder of all snapshots of a name
        with suppress(OSError):  # there are others
            hidden.parent.rmdir()


def _is_wanted(folder: Path) -> bool:
    """Whether a folder is there, or recorded as being on another machine."""
    path = portable(folder)
    kinds = (CorpusSnapshot, ModelVersion, IndexGeneration)
    return folder.exists() or any(kind.objects.filter(path=path).exists() for kind in kinds)


def _finish_removals() -> None:
    for hidden in list(_unfinished_removals()):
        _finish_logged(hidden)


def _finish_logged(hidden: Path) -> None:
    """`_finish`; a server that does not answer stops no other removal."""
    try:
        _finish(hidden)
    except RealmError as error:
        log.error("%s is removed later: %s", hidden, error)


def _claim(removal: Removal, rule: RetentionRule, now: datetime, by: User | str | None) -> bool:
    """Check again, with the row locked, and record the removal. False: it is needed meanwhile."""
    with transaction.atomic():
        record = removal.record
        if isinstance(record, IndexGeneration | CorpusSnapshot):
            rows = type(record).every.filter(pk=record.pk)
            held = rows.select_for_update().get()  # deploying it or starting a job on it takes the same lock
            kept = held.pk in _kept_indexes() if isinstance(held, IndexGeneration) else any(_uses_of_rebuilt(held))
            if kept:
                return False
            rows.update(removed_at=now)
        elif removal.copy_of is not None:
            corpus = CorpusSnapshot.objects.select_for_update().filter(pk=removal.copy_of.pk).first()
            if corpus is None or removal not in _copies_of(corpus, rule, now):  # the record may name the copy since
                return False
        elif isinstance(record, Job):
            list(Job.objects.select_for_update().filter(Q(pk=record.pk) | Q(pk=record.parent_id)).order_by("pk"))
            if not _ended_jobs(rule, now).filter(pk=record.pk).exists():
                return False
            _hide(*removal.folders)  # while it cannot be resumed
        receipts.add_removed(*removal.folders)
        AuditEntry.record("retention.remove", str(removal), by=by, bytes=removal.size_bytes)
    return True


def _hidden(folder: Path) -> Path:
    """The place of a folder until its files are removed: hidden from readers, found by the next removal."""
    return folder.with_name(f".{folder.name.removeprefix('.')}{_REMOVED}")


def _hide(*folders: Path) -> None:
    """Hide folders. Where another machine has one, an empty one says that the store still has to forget it."""
    for folder in folders:
        hidden = _hidden(folder)
        with disk_errors(folder):
            if folder.is_dir():
                remove_folder(hidden)
                os.rename(folder, hidden)
            elif is_shared(folder):
                hidden.mkdir(parents=True, exist_ok=True)


def _unfinished_removals() -> Iterator[Path]:
    """Hidden folders that were not removed completely."""
    for place in (indexes_dir(), corpora_dir(), models_dir(), spans_dir(), runs_dir()):
        yield from place.glob(f".*{_REMOVED}")
    yield from corpora_dir().glob(f"*/.*{_REMOVED}")  # snapshots


def _removal(
    record: IndexGeneration | CorpusSnapshot | Job | None, *folders: Path, copy_of: CorpusSnapshot | None = None
) -> Removal:
    size_bytes = sum(one.st_size for place in folders for one in files_in(place))
    return Removal(record, folders, size_bytes, copy_of)


def _changed_at(folder: Path) -> float:
    """The time of the last change in a folder, in seconds since 1970; infinity if it does not exist."""
    return max((one.st_mtime for one in files_in(folder)), default=float("inf"))


def files_in(place: Path) -> Iterator[os.stat_result]:
    """The status of each file in a folder that may be removed concurrently, or of the file that it is itself."""
    for path in chain([place], place.rglob("*")):
        with suppress(FileNotFoundError):
            if path.is_file():
                yield path.stat()
