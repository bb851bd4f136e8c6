"""Manage › Documents: the forms that add, change, remove and restore.

A change is looked at before it is made:

    form ──(look)──► preview ──(change)──► the ledger's page
      ◄──────(edit)─────┘

A file, or what an address led to, is held between the steps, so what is changed is what was looked at. Files are held,
too, where a form is refused, so that they need not be chosen again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, cast

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlencode

from realm_core.errors import CannotStore, RealmError
from webapp.access import limits
from webapp.access.roles import Action
from webapp.bodies import allow_larger_body
from webapp.collections.service import MoreReaders
from webapp.documents import fetching, previewing, restoring, service
from webapp.documents.committing import Edited
from webapp.documents.forms import ADDING, CHANGING, LICENCES, DocumentForm, FileForm, StagedForm, initial
from webapp.documents.inputs import LARGEST_FILE_BYTES, DocumentInput, File, Staged, Unreadable
from webapp.documents.placing import NewCollection
from webapp.documents.versions import ChangedMeanwhile, only
from webapp.documents.viewing import ShownDocument
from webapp.documents.views import shown_document, with_corpus
from webapp.ledger.anew import MOST_ANEW
from webapp.ledger.touched import Touched
from webapp.ledger.views import shown_touched
from webapp.models import GONE, ChangeKind, CorpusChange, Document
from webapp.pages.errors import status_of
from webapp.pages.guards import console_action, console_form, staff_member
from webapp.refusals import REFUSALS
from webapp.text import counted

log = logging.getLogger(__name__)

_REMOVED_MEANWHILE: Final = (
    "It was removed meanwhile, so nothing has been changed. To have it back with this text, add that as a new document."
)
_WARNED: Final = 5  # documents whose warnings are said at once


@allow_larger_body(LARGEST_FILE_BYTES, Action.OPERATE)
@console_form
def add_document(request: HttpRequest) -> HttpResponse:
    """Add documents: pasted, uploaded or from an address; `collection` is the one that the form proposes."""
    kind = _form_for_source(request, ADDING)[1]
    if request.method != "POST":
        return _form_page(request, ADDING, kind(initial={"collection": request.GET.get("collection", "")}))
    form = kind(request.POST, request.FILES)
    if not form.is_valid():
        return _form_page(request, ADDING, _with_files(request, form), status=422)
    given = form.documents()
    try:
        edited = service.add(given, by=staff_member(request))
    except REFUSALS as error:
        return _form_page(request, ADDING, _with_files(request, form), refused=error)
    for one in given:
        fetching.forget_staged(one)
    _say_edited(request, edited)
    return _after_edit(edited)


@allow_larger_body(LARGEST_FILE_BYTES, Action.OPERATE)
@console_form
@with_corpus
def change_document(request: HttpRequest) -> HttpResponse:
    """Replace a document; before that the page shows what the new text touches."""
    shown, kind = shown_document(request), _form_for_source(request, CHANGING)[1]
    if request.method != "POST":
        if shown.status in GONE:
            messages.info(request, "It is removed: there is nothing to change.")
            return redirect(_document_address(shown.document_id))
        return _form_page(request, CHANGING, kind(initial=initial(shown)), shown=shown)
    typed = kind(initial=request.POST.dict())  # the form once more, as it was filled in
    step = request.POST.get("step", "look")
    if step == "edit":
        return _form_page(request, CHANGING, typed, shown=shown)
    staged = "staged" in request.POST and not request.FILES
    form = StagedForm(request.POST) if staged else kind(request.POST, request.FILES)
    if not form.is_valid():
        wrong = typed if staged else _with_files(request, form)
        return _form_page(request, CHANGING, wrong, shown=shown, status=422)
    document_id = shown.document_id
    (given,) = form.documents(document_id)
    try:
        if step != "change":
            given = fetching.staged(given)
            return _preview(request, shown, form, given)
        edited = service.change(document_id, given, by=staff_member(request), versions=form.versions)
    except REFUSALS as error:
        if isinstance(error, ChangedMeanwhile):  # the form is sent again for the version of the other edit
            typed.initial["version"] = error.version
        if isinstance(given.source, Staged):
            if isinstance(typed, FileForm):
                typed = kind(initial={**typed.initial, "staged": str(given.source.fetch_id)})
            else:
                fetching.forget_staged(given)
        refused = RealmError(_REMOVED_MEANWHILE) if shown.status in GONE else error
        return _form_page(request, CHANGING, typed, shown=shown, refused=refused)
    fetching.forget_staged(given)
    _say_edited(request, edited)
    return _after_edit(edited)


def _preview(request: HttpRequest, shown: ShownDocument, form: DocumentForm, given: DocumentInput) -> HttpResponse:
    """What the change touches, with a form that holds what was given, hidden."""
    preview = previewing.of_change(shown.document_id, given, form.versions)
    if isinstance(given.source, Staged):
        form = StagedForm({**request.POST.dict(), "staged": str(given.source.fetch_id)})
    anew = preview.asked_anew(partial(limits.count_questions, request))
    context = {
        "shown": shown,
        "preview": preview,
        "form": form,
        "anew": anew,
        "most_anew": MOST_ANEW,
        "summary": anew.summary if anew.asked else preview.touched.worked_out().summary,
        "rows": anew.asked or anew.rows,
    }
    return render(request, "manage/document_preview.html", context)


@console_form
@with_corpus
def remove_document(request: HttpRequest) -> HttpResponse:
    """Remove a document; first the page shows what that affects."""
    shown = shown_document(request)
    if shown.status in GONE:
        messages.info(request, "It is removed already.")
        return redirect(_document_address(shown.document_id))
    status, overtaken = 200, False
    if request.method == "POST":
        versions = only(request.POST.get("version", ""))
        try:
            edited = service.remove([shown.document_id], by=staff_member(request), versions=versions)
        except REFUSALS as error:
            status, overtaken = status_of(error), isinstance(error, ChangedMeanwhile)
            if not overtaken:
                messages.error(request, str(error))
        else:
            messages.success(request, f"“{shown.title}” is removed. No answer reads it from now on.")
            return _after_edit(edited)
    touched = Touched(previewing.of_removal([shown.document_id]))
    context = {"shown": shown, **shown_touched(request, touched), "overtaken": overtaken}
    return render(request, "manage/document_remove.html", context, status=status)


@console_action
@with_corpus
def restore_document(request: HttpRequest) -> HttpResponse:
    """Restore a removed document; where its collection is not what it was, the page asks first."""
    shown = shown_document(request)
    new, more = (request.POST.get(name) == "yes" for name in ("new_collection", "more_readers"))
    try:
        restoring.restore([shown.document_id], by=staff_member(request), new_collection=new, more_readers=more)
    except (NewCollection, MoreReaders) as doubt:
        new, more = new or isinstance(doubt, NewCollection), more or isinstance(doubt, MoreReaders)
        context = {"shown": shown, "doubt": doubt, "new_collection": new, "more_readers": more}
        return render(request, "manage/document_restore.html", context, status=status_of(doubt))
    except REFUSALS as error:
        messages.error(request, str(error))
    else:
        messages.success(request, f"“{shown.title}” is restored: answers read it as if it had never been removed.")
    return redirect(_document_address(shown.document_id))


def _with_files(request: HttpRequest, form: DocumentForm) -> DocumentForm:
    """A form that is refused, with its files held, unless they themselves cannot be taken."""
    if not isinstance(form, FileForm) or not request.FILES or "file" in form.errors:
        return form
    data = request.POST.copy()
    chosen = [File.of(cast(Any, one)) for one in request.FILES.getlist("file")]
    try:
        staged = [fetching.staged(DocumentInput(one)).source for one in chosen]
    except CannotStore as error:
        log.error("The files of a refused form are not held: %s", error)
        return form
    for fetch_id in form.held:
        fetching.forget_staged(DocumentInput(Staged(fetch_id)))
    data.setlist("staged", [str(one.fetch_id) for one in staged if isinstance(one, Staged)])
    return type(form)(data)


def _document_address(document_id: str) -> str:
    """The page of a document. Its id may hold any characters, so it is not part of the path."""
    return f"{reverse('manage-document')}?{urlencode({'id': document_id})}"


_Forms = Mapping[str, tuple[str, type[DocumentForm]]]


def _form_for_source(request: HttpRequest, forms: _Forms) -> tuple[str, type[DocumentForm]]:
    """(the source that the address names, its form)."""
    way = request.GET.get("from", "")
    way = way if way in forms else "text"
    return way, forms[way][1]


def _form_page(
    request: HttpRequest,
    forms: _Forms,
    form: DocumentForm,
    *,
    shown: ShownDocument | None = None,
    refused: Exception | None = None,
    status: int = 200,
) -> HttpResponse:
    """The form of the chosen source. shown: the document that is to be changed. refused: why the edit was not made."""
    reasons = refused.reasons if isinstance(refused, Unreadable) else (str(refused),) if refused else ()
    context = {
        "form": form,
        "shown": shown,
        "reasons": reasons,
        "present": refused.present if isinstance(refused, Unreadable) else {},
        "overtaken": isinstance(refused, ChangedMeanwhile),
        "way": _form_for_source(request, forms)[0],
        "ways": [(name, label) for name, (label, _) in forms.items()],
        "licences": LICENCES,
    }
    return render(request, "manage/document_form.html", context, status=status_of(refused) if refused else status)


def _say_edited(request: HttpRequest, edited: Edited) -> None:
    """Report the result of an edit."""
    if not edited.changes:
        messages.info(request, "The corpus had it already, word for word: nothing has changed.")
        return
    documents = [change.document for change in edited.changes]
    put = _readers_said(edited.changes, edited.new_collections)
    if len(documents) == 1:
        (document,) = documents
        where, passages = _collections_of(documents), counted(document.blocks, "passage")
        now = "is changed, in" if edited.changes[0].kind == ChangeKind.CHANGED else "is in"
        messages.success(request, f"“{document.title}” {now} {where}, {passages}.{put}")
    else:
        passages = counted(sum(document.blocks for document in documents), "passage")
        where = _collections_of(documents)
        messages.success(request, f"These {len(documents):,} documents are in {where} now: {passages}.{put}")
    warned = [document for document in documents if document.warnings]
    for document in warned[:_WARNED]:
        messages.warning(request, f"“{document.title}”: {' '.join(document.warnings)}")
    if len(warned) > _WARNED:
        more = counted(len(warned) - _WARNED, "more document")
        messages.warning(request, f"There is something to know of {more}, too; the page of each says what.")


def _readers_said(changes: Sequence[CorpusChange], new: Sequence[str]) -> str:
    """Sentences about documents that were moved, and about collections that were made."""
    said = [f" It was moved from “{one.moved_from}” to “{one.collection}”." for one in changes if one.moved_from]
    said += [f" “{name}” is a new collection, which everybody who may ask reads." for name in new]
    return "".join(said[:_WARNED])


def _collections_of(documents: Sequence[Document]) -> str:
    names = sorted({document.collection for document in documents})
    return f"the collection {names[0]}" if len(names) == 1 else f"{len(names):,} collections"


def _after_edit(edited: Edited) -> HttpResponse:
    """The page after an edit: its effects, its document, or the list."""
    gone = [change for change in edited.changes if change.blocks_gone]
    if len(gone) == 1:
        return redirect("manage-document-change-page", gone[0].pk)
    if len(edited.document_ids) == 1:
        return redirect(_document_address(edited.document_ids[0]))
    return redirect("manage-documents")
