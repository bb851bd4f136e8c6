"""Folding: what was edited above the index that answers becomes a corpus and an index of its own, which then answer.

start → job (realm_core.living.folding, in a process of a worker) → take_over: one transaction

The job folds the state of its first attempt and moves the present one onto the new base. `take_over` happens only if
that still is the present one, so no edit is lost; otherwise the job moves the next one. Documents, their history and
receipts of purges go on above the new index. The old pair is never deployed again: later edits would be missing there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction

from realm_core.errors import RealmError
from realm_core.files import read_json
from realm_core.living.state import BASE, LivingState
from webapp.artefacts.registering import record_corpus, record_index
from webapp.jobs import service as jobs
from webapp.models import (
    AuditEntry,
    Deployment,
    Document,
    IndexGeneration,
    Job,
    JobKind,
    JobState,
    Purge,
)
from webapp.models.job_states import UNFINISHED
from webapp.refusals import StateConflict
from webapp.serving.living import active, folders_of
from webapp.serving.states import EditConflict, state_row

# The scheduler folds above one of these.
MOST_SEGMENTS: Final = 200
MOST_EDITED_SHARE: Final = 0.1  # of the documents of the base
FEWEST_EDITED: Final = 1000  # documents; below, this share of a small corpus makes no difference


class NothingToFold(StateConflict):
    """No document was edited above the index that answers."""

    def __init__(self) -> None:
        super().__init__("There is nothing to fold: the corpus is as its index has it.")


@dataclass(frozen=True)
class Edits:
    """The edits above the base of a corpus, counted.

    segments: one an edit. documents: in these, those included that later edits replaced. gone: marked as removed or
    replaced, in base and segments. base: documents of the base. purged: whether a base that a fold made holds documents
    which were purged.
    """

    segments: int = 0
    documents: int = 0
    gone: int = 0
    base: int = 0
    purged: bool = False

    def __bool__(self) -> bool:
        return bool(self.segments or self.gone)

    @property
    def worth_folding(self) -> bool:
        """Whether the scheduler folds it."""
        edited = self.documents + self.gone
        many = edited >= FEWEST_EDITED and edited > MOST_EDITED_SHARE * self.base
        return bool(self) and (self.segments > MOST_SEGMENTS or many or self.purged)


def edits(index: IndexGeneration) -> Edits:
    """The edits above an index. Reads manifests, no texts."""
    row = index.state_now()
    if row is None:
        return Edits()
    state, segments = LivingState.from_json(row.state), folders_of(index)[0] / "segments"
    return Edits(
        segments=len(state.segments),
        documents=sum(int(read_json(segments / name / "manifest.json")["articles"]) for name in state.segments),
        gone=sum(map(len, state.tombstones.values())),
        base=index.corpus.articles,
        purged=BASE in state.tombstones and _holds_purged(index),
    )


def start(*, by: User | str | None) -> Job:
    """Start the job that folds what is above the index that answers.

    NothingToFold; AlreadyActive where it is under way; EngineUnavailable where nothing is deployed.
    """
    index = active().index
    if not edits(index):
        raise NothingToFold
    return jobs.start(JobKind.FOLD, {"index": index.pk}, by=by)


def under_way(index: IndexGeneration) -> Job | None:
    """The job that folds what is above an index, None if there is none."""
    return _jobs(index, *UNFINISHED)


def start_if_due() -> Job | None:
    """Start the job if it is worth it and `REALM_FOLD` allows it; not again for a state at which it failed."""
    deployment = Deployment.active()
    if settings.REALM_FOLD == "off" or deployment is None:
        return None
    index = deployment.index
    state = index.current_state
    ended = _jobs(index, JobState.FAILED, JobState.STOPPED)
    if state is None or under_way(index) or (ended is not None and ended.created_at > state.created_at):
        return None
    return start(by="folding") if edits(index).worth_folding else None


def _jobs(index: IndexGeneration, *states: JobState) -> Job | None:
    jobs_of_it = Job.objects.filter(kind=JobKind.FOLD, parameters__index=index.pk, state__in=states)
    return jobs_of_it.defer("log").first()


def _holds_purged(index: IndexGeneration) -> bool:
    """Whether a fold made an index, and a receipt names it."""
    if not IndexGeneration.every.filter(folded_into=index).exists():
        return False
    remaining = Purge.objects.filter(index=index).values_list("remaining", flat=True)
    return any(index.path in folders for folders in remaining)


def take_over(index: IndexGeneration, result: Mapping[str, Any], *, job: Job) -> Deployment:
    """Let a new base answer in the place of the one that it was folded from, with the documents and their edits.

    result: of the job's process. EditConflict where documents were edited since; RealmError where another index answers
    by now.
    """
    by = job.created_by or "folding"
    with transaction.atomic():
        answering = Deployment.objects.select_for_update().filter(is_active=True).select_related("model").first()
        if answering is None or answering.index_id != index.pk:
            raise RealmError(f"{index.generation} answers no more, so what was folded from it does not answer either.")
        before = index.states.filter(is_current=True, state_id=result["before"])
        if not before.update(is_current=False):  # of an edit that is being committed, one of the two is repeated
            raise EditConflict
        corpus = record_corpus(Path(result["snapshot"]), job=job)
        into = record_index(Path(result["generation"]), model=index.model, job=job)
        state_row(into, LivingState.from_json(result["state"]), job.created_by)
        for record in (Document, Purge):
            record._default_manager.filter(index=index).update(index=into)
        IndexGeneration.every.filter(pk=index.pk).update(folded_into=into)
        note = f"{index.generation} and the edits above it, folded"
        deployment = Deployment.activate(into, model=answering.model, by=job.created_by, note=note)
        done = {"folded": index.generation, "corpus": corpus.snapshot_id, "deployment": deployment.pk}
        AuditEntry.record("documents.fold", into, by=by, job=job, **done)
    return deployment
