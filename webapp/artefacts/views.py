"""Models, indexes, corpora and salient spans: what there is, what each was made from, and what was made from it."""

from __future__ import annotations

from typing import Any, Final

from django.contrib import messages
from django.db.models import Count, Prefetch
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render

from realm_core.errors import RealmError
from webapp.artefacts.registering import search_of_index
from webapp.artefacts.shipped import record_shipped, shipped_models
from webapp.evaluations.service import latest_figures
from webapp.feedback.service import by_deployment
from webapp.models import (
    AuditEntry,
    CorpusSnapshot,
    Deployment,
    Evaluation,
    IndexGeneration,
    Job,
    JobKind,
    ModelVersion,
    SpanSet,
)
from webapp.pages.guards import console_action, console_page, staff_member
from webapp.pages.paging import numbered_page
from webapp.storage.places import resolve

_MOST_ANCESTORS: Final = 20
_SETS_SHOWN: Final = 3  # of a model's figures, in the list of all


@console_page
def model_list(request: HttpRequest) -> HttpResponse:
    """All models, the newest first, each with its latest figures."""
    evaluations = Prefetch("evaluations", Evaluation.objects.select_related("questions", "corpus"))
    models = ModelVersion.objects.select_related("parent", "corpus", "job").prefetch_related(evaluations)
    page = numbered_page(request, models)
    rows = [(model, latest_figures(model)[:_SETS_SHOWN]) for model in page]
    unused = [name for name, known in shipped_models().items() if known is None]
    context = {"page": page, "rows": rows, "active": Deployment.active(), "shipped": unused}
    return render(request, "manage/models.html", context)


@console_action
def add_shipped(request: HttpRequest) -> HttpResponse:
    """Record a model that comes with the source."""
    try:
        model, new = record_shipped(request.POST.get("name", ""), by=staff_member(request))
    except RealmError as error:
        messages.error(request, str(error))
        return redirect("manage-models")
    messages.info(request, "It was added, and can be measured and deployed." if new else "It was there already.")
    return redirect("manage-model", model.pk)


@console_page
def model_page(request: HttpRequest, pk: int) -> HttpResponse:
    """One model, also one whose files were removed."""
    model = get_object_or_404(ModelVersion.every.select_related("parent", "corpus", "job"), pk=pk)
    fitting = IndexGeneration.objects.filter(model__block_hash=model.block_hash).select_related("corpus", "model")
    return render(
        request,
        "manage/model.html",
        {
            "model": model,
            "folder": resolve(model.path),
            "ancestors": _ancestors(model),
            "children": model.children.all(),
            "indexes": fitting,
            "evaluations": model.evaluations.select_related("questions", "corpus", "index"),
            "deployments": by_deployment(model.deployments.select_related("model", "index")[:10]),
            "active": Deployment.active(),
        },
    )


@console_page
def index_list(request: HttpRequest) -> HttpResponse:
    """All indexes whose files are there, the newest first."""
    return _list(request, "manage/indexes.html", IndexGeneration.objects.select_related("model", "corpus", "job"))


@console_page
def index_page(request: HttpRequest, pk: int) -> HttpResponse:
    """One index, also one whose files were removed."""
    index = get_object_or_404(IndexGeneration.every.select_related("model", "corpus", "job", "folded_into"), pk=pk)
    return render(
        request,
        "manage/index.html",
        {
            "index": index,
            "search": search_of_index(index),
            "folded_from": IndexGeneration.every.filter(folded_into=index),
            "folder": resolve(index.path),
            "fitting": ModelVersion.objects.filter(block_hash=index.model.block_hash),
            "evaluations": index.evaluations.select_related("questions", "model"),
            "deployments": index.deployments.select_related("model")[:10],
            "active": Deployment.active(),
        },
    )


@console_page
def corpus_list(request: HttpRequest) -> HttpResponse:
    """All snapshots of corpora, the newest first."""
    counted = CorpusSnapshot.objects.select_related("job").annotate(
        index_count=Count("indexes", distinct=True), model_count=Count("model_versions", distinct=True)
    )
    counted = counted.order_by("-created_at", "-pk")  # counting would drop it
    return _list(request, "manage/corpora.html", counted)


def _joined(job: Job | None) -> list[IndexGeneration]:
    """The indexes whose corpora a job joined, in the order that counts."""
    if job is None or job.kind != JobKind.JOIN:
        return []
    there = IndexGeneration.every.select_related("corpus").in_bulk(job.parameters["index"])
    return [there[pk] for pk in job.parameters["index"] if pk in there]


@console_page
def corpus_page(request: HttpRequest, pk: int) -> HttpResponse:
    """One snapshot of a corpus, also one whose files were removed."""
    corpus = get_object_or_404(CorpusSnapshot.every.select_related("job"), pk=pk)
    return render(
        request,
        "manage/corpus.html",
        {
            "corpus": corpus,
            "folder": resolve(corpus.path),
            "joined": _joined(corpus.job),
            "indexes": corpus.indexes.select_related("model"),
            "span_sets": corpus.span_sets.select_related("job"),
            "models": corpus.model_versions.all(),
            "others": CorpusSnapshot.objects.filter(name=corpus.name).exclude(pk=pk),
            "active": Deployment.active(),
        },
    )


@console_page
def spans_page(request: HttpRequest, pk: int) -> HttpResponse:
    """The salient spans of a corpus that one tagger found."""
    spans = get_object_or_404(SpanSet.objects.select_related("corpus", "job"), pk=pk)
    return render(request, "manage/spans.html", {"spans": spans, "folder": resolve(spans.path)})


@console_action
def pin(request: HttpRequest, kind: type[ModelVersion | IndexGeneration], pk: int) -> HttpResponse:
    """Keep an index, or a model and what it built, for ever, or no longer."""
    what, kept = ("model", "The model and its indexes") if kind is ModelVersion else ("index", "Its files")
    record: Any = get_object_or_404(kind, pk=pk)
    pinned = request.POST.get("pinned") == "1"
    if record.pinned != pinned:
        kind.objects.filter(pk=pk).update(pinned=pinned)
        AuditEntry.record(f"{what}.{'pin' if pinned else 'unpin'}", record, by=staff_member(request), **{what: pk})
        says = "are kept until it is unpinned." if pinned else "may be removed by retention."
        messages.info(request, f"{kept} {says}")
    return redirect(f"manage-{what}", pk)


def _list(request: HttpRequest, template: str, records: Any) -> HttpResponse:
    return render(request, template, {"page": numbered_page(request, records), "active": Deployment.active()})


def _ancestors(model: ModelVersion) -> list[ModelVersion]:
    """What it was trained from, and what that was, back to the first."""
    found: list[ModelVersion] = []
    while model.parent is not None and len(found) < _MOST_ANCESTORS:
        model = model.parent
        found.append(model)
    return found
