"""What uses a corpus, a model, an index or a question set, so that it cannot be removed; and its files."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import singledispatch
from pathlib import Path
from typing import Final

from django.conf import settings
from django.db.models import Q

from webapp.models import (
    CorpusSnapshot,
    Deployment,
    IndexGeneration,
    Job,
    ModelVersion,
    QuestionSet,
    Schedule,
    SpanSet,
)
from webapp.models.job_states import RESUMABLE, UNFINISHED
from webapp.storage.places import resolve

Removable = CorpusSnapshot | ModelVersion | IndexGeneration | QuestionSet
DEPLOYMENTS_KEPT: Final = 5  # a roll-back to these is always possible


def uses(record: Removable) -> list[str]:
    """Why a record cannot be removed, one sentence each; empty if it can be."""
    return list(_uses(record))


def recent_deployments() -> list[Deployment]:
    """The deployments that a roll-back can always use, and the active one; none with a folded index."""
    usable = Deployment.objects.filter(index__folded_into=None)
    lately = usable.values_list("pk", flat=True)[:DEPLOYMENTS_KEPT]
    return list(Deployment.objects.filter(Q(pk__in=list(lately)) | Q(is_active=True)))


def unfinished(name: str, pk: int) -> list[Job]:
    """Jobs that are queued, running or will resume, and whose parameter `name` is or holds a record's id."""
    jobs = Job.objects.filter(state__in=UNFINISHED).defer("log")
    return [job for job in jobs if pk in job.records(name)]


def resumable(record: Removable) -> list[Job]:
    """Stopped and failed jobs that work on a record: once it is removed, they cannot be resumed."""
    names = [name for name, kind in _INPUTS.items() if isinstance(record, kind)]
    jobs = Job.objects.filter(state__in=set(RESUMABLE) - set(UNFINISHED)).defer("log")
    return [job for job in jobs if any(record.pk in job.records(name) for name in names)]


def paths_of(record: Removable) -> list[Path]:
    """Its folders, or its file, and what else has a corpus's words, whether this machine has them or not.

    Places outside the data folder do not belong to the program.
    """
    named: list[Removable | SpanSet] = [record]
    if isinstance(record, CorpusSnapshot):
        named += record.span_sets.all()
    data = Path(settings.REALM_DATA).resolve()
    paths = [resolve(one.path) for one in named]
    if isinstance(record, CorpusSnapshot):
        from realm_core.corpus.tables import derived_folders  # loads pyarrow

        paths += derived_folders(paths[0])  # never in the object store
    return [path for path in paths if path.resolve().is_relative_to(data)]


_INPUTS: Final = {  # of jobs, by the record that they name
    "corpus": CorpusSnapshot,
    "sentences": CorpusSnapshot,
    "model": ModelVersion,
    "index": IndexGeneration,
    "questions": QuestionSet,
    "dev": QuestionSet,
}


@singledispatch
def _uses(record: Removable) -> Iterator[str]:
    raise TypeError(record)


@_uses.register
def uses_of_corpus(corpus: CorpusSnapshot, without: Collection[int] = ()) -> Iterator[str]:
    """What uses a corpus. without: ids of indexes that are removed before it."""
    for index in corpus.indexes.exclude(pk__in=without):
        yield f"The index {index.generation} is of this corpus; remove that first."
    for name in ("corpus", "sentences"):
        yield from _jobs(name, corpus.pk)
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
