"""The page that removes an artefact: what would be removed, or what uses it, and the button."""

from __future__ import annotations

from typing import Final, cast

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.template.defaultfilters import filesizeformat

from realm_core.errors import RealmError
from webapp.artefacts import removing
from webapp.artefacts.uses import Removable, resumable, uses
from webapp.models import CorpusSnapshot, IndexGeneration, ModelVersion, QuestionSet
from webapp.pages.guards import console_form, curator_form, staff_member

_LISTS: Final[dict[type[Removable], str]] = {
    CorpusSnapshot: "manage-corpora",
    ModelVersion: "manage-models",
    IndexGeneration: "manage-indexes",
    QuestionSet: "manage-questions",
}


@console_form
def remove_artefact(request: HttpRequest, kind: type[Removable], pk: int) -> HttpResponse:
    """Remove a corpus, a model or an index."""
    return _remove(request, kind, pk)


@curator_form
def remove_questions(request: HttpRequest, pk: int) -> HttpResponse:
    return _remove(request, QuestionSet, pk)


def _remove(request: HttpRequest, kind: type[Removable], pk: int) -> HttpResponse:
    record = cast(Removable, get_object_or_404(kind, pk=pk))
    if request.method == "POST":
        try:
            size = removing.remove(record, by=staff_member(request))
        except RealmError as error:
            messages.error(request, str(error))
        else:
            messages.success(request, f"{record} is removed, {filesizeformat(size)}.")
            return redirect(_LISTS[kind])
    context = {
        "record": record,
        "word": removing.WORDS[kind],
        "back": _LISTS[kind],
        "uses": uses(record),
        "resumable": resumable(record),
        "size_bytes": removing.size_bytes(record),
    }
    return render(request, "manage/remove.html", context, status=409 if request.method == "POST" else 200)
