"""Manage › Documents › Change: the form, what the new text touches, and then the change.

    form ──(look)──► preview ──(change)──► the ledger's page
      ◄──────(edit)─────┘

A file, or what an address led to, is held between the steps, so what is changed is what was looked at.
"""

from __future__ import annotations

from typing import Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from webapp.access.roles import Action
from webapp.bodies import allow_larger_body
from webapp.documents import fetching, previewing, service
from webapp.documents.forms import CHANGING, DocumentForm, StagedForm, initial
from webapp.documents.inputs import DocumentInput, Staged
from webapp.documents.versions import ChangedMeanwhile
from webapp.documents.viewing import ShownDocument
from webapp.documents.views import (
    FILE,
    after_edit,
    form_for_source,
    form_page,
    say_edited,
    shown_document,
    with_corpus,
)
from webapp.ledger.touched import Touched
from webapp.pages.guards import console_form, staff_member
from webapp.refusals import REFUSALS

_ROWS: Final = 25  # answers that the preview lists


@allow_larger_body(FILE.body_bytes, Action.OPERATE)
@console_form
@with_corpus
def change_document(request: HttpRequest) -> HttpResponse:
    """Replace a document; before that the page shows what the new text touches."""
    shown, kind = shown_document(request), form_for_source(request, CHANGING)[1]
    if request.method != "POST":
        return form_page(request, CHANGING, kind(initial=initial(shown)), shown=shown)
    typed = kind(initial=request.POST.dict())  # the form once more, as it was filled in
    step = request.POST.get("step", "look")
    if step == "edit":
        return form_page(request, CHANGING, typed, shown=shown)
    form = StagedForm(request.POST) if "staged" in request.POST else kind(request.POST, request.FILES)
    if not form.is_valid():
        return form_page(request, CHANGING, typed if "staged" in form.fields else form, shown=shown, status=422)
    document_id = shown.document_id
    (given,) = form.documents(document_id)
    try:
        if step != "change":
            return _preview(request, shown, form, fetching.staged(given))
        edited = service.change(document_id, given, by=staff_member(request), versions=form.versions)
    except REFUSALS as error:
        if isinstance(error, ChangedMeanwhile):  # who goes on now knows of the other edit
            typed.initial["version"] = error.version
        return form_page(request, CHANGING, typed, shown=shown, refused=error)
    fetching.forget_staged(given)
    say_edited(request, edited)
    return after_edit(edited)


def _preview(request: HttpRequest, shown: ShownDocument, form: DocumentForm, given: DocumentInput) -> HttpResponse:
    """What the change touches, with a form that holds what was given, hidden."""
    try:
        preview = previewing.of_change(shown.document_id, given, form.versions)
    except Exception:
        fetching.forget_staged(given)
        raise
    if isinstance(given.source, Staged):
        form = StagedForm({**request.POST.dict(), "staged": str(given.source.fetch_id)})
    touched = Touched(preview.gone_ids)
    context = {
        "shown": shown,
        "preview": preview,
        "form": form,
        "summary": touched.summary(),
        "rows": touched.recomputed(touched.rows[:_ROWS]),
    }
    return render(request, "manage/document_preview.html", context)
