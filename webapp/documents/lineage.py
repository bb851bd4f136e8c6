"""The indexes that have documents in common with another: it was joined of them, or edits were brought over.

Told by the rows of the jobs that join, by folds in between, and by the rows of edited documents.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from webapp.models import Document, IndexGeneration, Job, JobKind, JobState
from webapp.serving.living import indexes_beside


def state_joined(earlier: IndexGeneration, later: IndexGeneration) -> int | None:
    """The row of the state of `earlier` that is part of `later`; 0: nothing was edited; None: none that is known is."""
    parts = _with_folded(earlier)
    for job in _jobs():
        if job.result["index"] in _with_folded(later):
            rows = dict(zip(job.parameters["index"], job.result["states"], strict=True))
            found = [rows[pk] for pk in rows if pk in parts]
            if found:
                return found[0] or 0
    return None


def related(index: IndexGeneration) -> list[IndexGeneration]:
    """The indexes of other corpora that have documents in common with this one, or edited ones of the same ids."""
    jobs = [{job.result["index"], *job.parameters["index"]} for job in _jobs()]
    own = {index.pk, *(one.pk for one in indexes_beside(index))}
    found, size = own | _brought(own), 0
    while len(found) > size:  # what was joined may have been joined again
        size = len(found)
        for pks in jobs:
            if not found.isdisjoint(pks):
                found |= pks | _beside(pks - found)
    return list(IndexGeneration.every.filter(pk__in=found - own).select_related("corpus", "model"))


def _brought(pks: set[int]) -> set[int]:
    """The indexes above which documents of the same ids were edited: so were those that were brought over."""
    ids = Document.objects.filter(index__in=pks).values("document_id")
    others = Document.objects.filter(document_id__in=ids).exclude(index__in=pks)
    return set(others.order_by().values_list("index", flat=True).distinct())


def _beside(pks: Iterable[int]) -> set[int]:
    indexes = IndexGeneration.every.filter(pk__in=pks).select_related("corpus", "model")
    return {one.pk for index in indexes for one in indexes_beside(index)}


def _jobs() -> Iterator[Job]:
    yield from Job.objects.filter(kind=JobKind.JOIN, state=JobState.SUCCEEDED).only("parameters", "result")


def _with_folded(index: IndexGeneration) -> set[int]:
    """The keys of an index and of all that were folded into it."""
    found, latest = {index.pk}, {index.pk}
    while latest:
        latest = set(IndexGeneration.every.filter(folded_into__in=latest).values_list("pk", flat=True))
        found |= latest
    return found
