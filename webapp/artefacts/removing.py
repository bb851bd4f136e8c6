"""Removing a corpus, a model, an index or a question set that nothing uses.

    reasons = removing.uses(record)     # why it cannot be removed, one sentence each
    removing.remove(record, by=person)

Its files are removed; the row remains, marked, because answers, evaluations and lineage name it. The row of a question
set is deleted, but only if no evaluation names it. Ingesting, training or building the same again restores the
artefact.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import singledispatch
from pathlib import Path
from typing import Final

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from realm_core.errors import RealmError
from realm_core.files import disk_errors
from webapp.artefacts.retention import files_in, recent_deployments, take_away, unfinished
from webapp.models import AuditEntry, CorpusSnapshot, IndexGeneration, ModelVersion, QuestionSet, Schedule, SpanSet
from webapp.refusals import StateConflict
from webapp.storage.holding import lock_for_removal
from webapp.storage.places import resolve

log = logging.getLogger(__name__)

Removable = CorpusSnapshot | ModelVersion | IndexGeneration | QuestionSet
SUPERSEDED_KEPT: Final = timedelta(days=1)  # what a fold made and a later one superseded
WORDS: dict[type[Removable], str] = {
    CorpusSnapshot: "corpus",
    ModelVersion: "model",
    IndexGeneration: "index",
    QuestionSet: "question set",
}


class StillUsed(StateConflict, RealmError):
    """The record to be removed is still used; says by what."""


def uses(record: Removable) -> list[str]:
    """Why a record cannot be removed, one sentence each; empty if it can be."""
    return list(_uses(record))


def size_bytes(record: Removable) -> int:
    """Size of the files that would be removed."""
    return sum(file.st_size for path in _paths(record) for file in files_in(path))


def remove(record: Removable, *, by: User | str | None) -> int:
    """Remove it, here and in the object store; returns the bytes freed here.

    StillUsed if something uses it; RealmError while a backup is written, or if the store does not answer: the rest is
    then removed by `retention.finish`.
    """
    with lock_for_removal():
        with transaction.atomic():
            # Deploying it or starting a job on it takes the same lock.
            held: Removable = type(record)._base_manager.select_for_update().get(pk=record.pk)
            if reasons := uses(held):
                raise StillUsed(" ".join(reasons))
            paths, size = _paths(held), size_bytes(held)
            action = f"{WORDS[type(held)].replace(' ', '-')}.remove"
            AuditEntry.record(action, held, by=by, bytes=size, **{WORDS[type(held)].replace(" ", "_"): held.pk})
            _mark(held)
        if isinstance(held, QuestionSet):
            for path in paths:
                with disk_errors(path):
                    path.unlink(missing_ok=True)
        else:
            take_away(*paths)
    return size


def remove_superseded(*, by: User | str | None, now: datetime | None = None) -> list[str]:
    """Remove the indexes, with their corpora, that one fold made and a later one superseded; returns what they were.

    Ingested corpora and their indexes stay, and so does what cannot be removed now, until the next call.
    """
    before = (now or timezone.now()) - SUPERSEDED_KEPT
    made_by_fold = IndexGeneration.every.exclude(folded_into=None).values("folded_into")
    gone = []
    for index in IndexGeneration.every.filter(pk__in=made_by_fold, folded_into__created_at__lt=before):
        for record in (index, index.corpus):
            own = [path for path in _paths(record) if record.removed_at is None or path.exists()]
            if own and not uses(record):
                try:
                    remove(record, by=by)
                except RealmError as error:
                    log.info("%s is removed later: %s", record, error)
                else:
                    gone.append(str(record))
    return gone


def _mark(record: Removable) -> None:
    if isinstance(record, QuestionSet):
        record.delete()
        return
    type(record)._base_manager.filter(pk=record.pk, removed_at=None).update(removed_at=timezone.now())
    if isinstance(record, CorpusSnapshot):
        record.span_sets.all().delete()


def _paths(record: Removable) -> list[Path]:
    """Its folders, or its file, and a corpus's wordpieces, below the data folder, whether this machine has them or not.

    Other places do not belong to the program.
    """
    named: list[Removable | SpanSet] = [record]
    if isinstance(record, CorpusSnapshot):
        named += record.span_sets.all()
    data = Path(settings.REALM_DATA).resolve()
    paths = [resolve(one.path) for one in named]
    if isinstance(record, CorpusSnapshot):
        from realm_core.corpus.tables import tokens_folder  # loads pyarrow

        paths += [tokens for tokens in [tokens_folder(paths[0])] if tokens.exists()]  # never in the object store
    return [path for path in paths if path.resolve().is_relative_to(data)]


# ---- uses


@singledispatch
def _uses(record: Removable) -> Iterator[str]:
    raise TypeError(record)


@_uses.register
def _of_corpus(corpus: CorpusSnapshot) -> Iterator[str]:
    for index in corpus.indexes.all():
        yield f"The index {index.generation} is of this corpus; remove that first."
    yield from _jobs("corpus", corpus.pk)
    for spans in corpus.span_sets.all():
        yield from _jobs("spans", spans.pk)
    alone = not CorpusSnapshot.objects.filter(name=corpus.name).exclude(pk=corpus.pk).exists()
    if alone and Schedule.objects.filter(corpus_name=corpus.name).exists():
        yield f"A schedule builds the index of {corpus.name}."


@_uses.register
def _of_model(model: ModelVersion) -> Iterator[str]:
    if model.pinned:
        yield "It is pinned."
    for deployment in recent_deployments():
        if deployment.model_id == model.pk:
            yield f"Deployment {deployment.pk}, one of the last, answers by it."
    for index in model.indexes.all():
        yield f"The index {index.generation} was built by it; remove that first."
    yield from _jobs("model", model.pk)
    if Schedule.objects.filter(model=model).exists():
        yield "A schedule builds indexes by it."


@_uses.register
def _of_index(index: IndexGeneration) -> Iterator[str]:
    if index.pinned or index.model.pinned:
        yield "It is pinned." if index.pinned else f"It was built by {index.model}, which is pinned."
    for deployment in recent_deployments():
        if deployment.index_id == index.pk:
            yield f"Deployment {deployment.pk}, one of the last, answers from it."
    yield from _jobs("index", index.pk)


@_uses.register
def _of_questions(questions: QuestionSet) -> Iterator[str]:
    if (settings.MODELS_DIR / "questions" / f"{questions.name}.jsonl").exists():
        yield "It comes with the program, and would be there again at the next start."
    if Schedule.objects.filter(questions=questions).exists():
        yield "A schedule checks by it."
    if count := questions.evaluations.count():
        yield "An evaluation was made by it." if count == 1 else f"{count:,} evaluations were made by it."
    yield from _jobs("questions", questions.pk)


def _jobs(name: str, pk: int) -> Iterator[str]:
    for job in unfinished(name, pk):
        yield f"Job {job.pk} ({job.get_kind_display()}) works on it."
