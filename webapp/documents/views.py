"""Manage › Documents: the list, one document, and the forms that add, change and remove."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial, wraps
from typing import Final, cast

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlencode

from realm_core.errors import RealmError
from webapp.access.roles import Action
from webapp.bodies import allow_larger_body
from webapp.documents import bringing, folding, listing, previewing, service, sweeping, viewing
from webapp.documents.forms import ADDING, LICENCES, DocumentForm, FileForm
from webapp.documents.inputs import Unreadable
from webapp.documents.service import Edited
from webapp.documents.versions import ChangedMeanwhile, only
from webapp.documents.viewing import DocumentMissing, ShownDocument
from webapp.ledger import service as ledger
from webapp.ledger.touched import Touched
from webapp.models import GONE, Collection, CorpusChange, DocumentStatus
from webapp.pages.errors import status_of
from webapp.pages.guards import View, console_action, console_form, console_page, staff_member
from webapp.pages.paging import numbered_page
from webapp.pages.uploads import FileField
from webapp.refusals import REFUSALS
from webapp.serving.living import active
from webapp.text import counted

_PAGE_SIZE: Final = 50
_TEXT_SHOWN: Final = 20_000  # characters, unless the whole text is requested
_SHOWS: Final = {
    "": "All",
    DocumentStatus.CHANGED.value: "Changed",
    DocumentStatus.REMOVED.value: "Removed",
    DocumentStatus.PURGED.value: "Purged",
}
FILE: Final = cast(FileField, FileForm.base_fields["file"])


def with_corpus(view: View) -> View:
    """Return 404 if the document does not exist, and 503 with the reason if the corpus cannot be read."""

    @wraps(view)
    def guarded(request: HttpRequest) -> HttpResponseBase:
        try:
            return view(request)
        except DocumentMissing:
            raise Http404 from None
        except RealmError as reason:
            return render(request, "manage/documents.html", {"reason": reason}, status=503)

    return guarded


@console_page
@with_corpus
def document_list(request: HttpRequest) -> HttpResponse:
    """The documents of the deployed corpus, edited ones first."""
    title, status = request.GET.get("title", "").strip(), request.GET.get("show", "")
    status = status if status in _SHOWS else ""
    number = request.GET.get("page", "1")
    wanted = min(int(number), 10**9) if number.isascii() and number.isdecimal() and int(number) else 1
    collection = request.GET.get("collection", "")
    listed = partial(listing.listed, listing.Wanted(title, status, collection), count=_PAGE_SIZE)
    found = listed(start=(wanted - 1) * _PAGE_SIZE)
    index = active().index
    page = Paginator(range(found.total), _PAGE_SIZE).get_page(wanted)
    if page.number != wanted:
        found = listed(start=(page.number - 1) * _PAGE_SIZE)
    context = {
        "page": page,
        "documents": found.documents,
        "title": title,
        "show": status,
        "collection": collection,
        "tabs": _SHOWS.items(),
        "waiting": bringing.waiting(),
        "edits": folding.edits(index),
        "fold": folding.under_way(index),
        "earlier": sweeping.earlier(index),
    }
    return render(request, "manage/documents.html", context)


@console_action
def bring_documents(request: HttpRequest) -> HttpResponse:
    """Bring over what was edited above the index that answered before."""
    try:
        brought = bringing.bring(by=staff_member(request))
    except REFUSALS as error:
        messages.error(request, str(error))
    else:
        were = "was" if len(brought) == 1 else "were"
        messages.success(request, f"{counted(len(brought), 'document')} {were} brought over.")
        for sentence in brought.left_out:
            messages.warning(request, sentence)
    return redirect("manage-documents")


@console_action
def fold_documents(request: HttpRequest) -> HttpResponse:
    """Start the job that folds what was edited into a new index."""
    try:
        job = folding.start(by=staff_member(request))
    except REFUSALS as error:
        messages.error(request, str(error))
        return redirect("manage-documents")
    return redirect("manage-job", job.pk)


@console_page
@with_corpus
def document_page(request: HttpRequest) -> HttpResponse:
    """One document: its text, its blocks, its history, and the stored answers that read it."""
    shown = shown_document(request)
    whole = request.GET.get("text") == "all"
    row = shown.row
    changes = row.changes.select_related("by", "document") if row else CorpusChange.objects.none()
    context = {
        "shown": shown,
        "gone": shown.status in GONE,
        "text": shown.text if whole else shown.text[:_TEXT_SHOWN],
        "more": not whole and len(shown.text) > _TEXT_SHOWN,
        "page": numbered_page(request, shown.passages, _PAGE_SIZE),
        "summary": Touched([block.block_id for block in shown.passages]).summary(),
        "history": ledger.with_summaries(changes[:_PAGE_SIZE]),
    }
    return render(request, "manage/document.html", context)


@allow_larger_body(FILE.body_bytes, Action.OPERATE)
@console_form
def add_document(request: HttpRequest) -> HttpResponse:
    """Add documents: pasted, uploaded or from an address; `collection` is the one that the form proposes."""
    kind = form_for_source(request, ADDING)[1]
    if request.method != "POST":
        return form_page(request, ADDING, kind(initial={"collection": request.GET.get("collection", "")}))
    form = kind(request.POST, request.FILES)
    if not form.is_valid():
        return form_page(request, ADDING, form, status=422)
    try:
        edited = service.add(form.documents(), by=staff_member(request))
    except REFUSALS as error:
        return form_page(request, ADDING, form, refused=error)
    say_edited(request, edited)
    return after_edit(edited)


@console_form
@with_corpus
def remove_document(request: HttpRequest) -> HttpResponse:
    """Remove a document; first the page shows what that affects."""
    shown = shown_document(request)
    if shown.status in GONE:
        messages.info(request, "It is removed already.")
        return redirect(document_address(shown.document_id))
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
            return after_edit(edited)
    touched = Touched(previewing.of_removal([shown.document_id]))
    page = numbered_page(request, touched.rows)
    context = {
        "shown": shown,
        "page": page,
        "rows": touched.recomputed(page),
        "summary": touched.summary(),
        "overtaken": overtaken,
    }
    return render(request, "manage/document_remove.html", context, status=status)


def document_address(document_id: str) -> str:
    """The page of a document. Its id may hold any characters, so it is not part of the path."""
    return f"{reverse('manage-document')}?{urlencode({'id': document_id})}"


def shown_document(request: HttpRequest) -> ShownDocument:
    """The document that the address names; DocumentMissing."""
    return viewing.show(request.GET.get("id", ""))


Forms = Mapping[str, tuple[str, type[DocumentForm]]]


def form_for_source(request: HttpRequest, forms: Forms) -> tuple[str, type[DocumentForm]]:
    """(the source that the address names, its form)."""
    way = request.GET.get("from", "")
    way = way if way in forms else "text"
    return way, forms[way][1]


def form_page(
    request: HttpRequest,
    forms: Forms,
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
        "overtaken": isinstance(refused, ChangedMeanwhile),
        "way": form_for_source(request, forms)[0],
        "ways": [(name, label) for name, (label, _) in forms.items()],
        "licences": LICENCES,
        "collections": Collection.objects.values_list("name", flat=True),
    }
    return render(request, "manage/document_form.html", context, status=status_of(refused) if refused else status)


def say_edited(request: HttpRequest, edited: Edited) -> None:
    """Report the result of an edit."""
    if not edited.changes:
        messages.info(request, "The corpus had it already, word for word: nothing has changed.")
        return
    documents = [change.document for change in edited.changes]
    if len(documents) == 1:
        (document,) = documents
        messages.success(request, f"“{document.title}” is in the corpus, {counted(document.blocks, 'block')}.")
    else:
        blocks = sum(document.blocks for document in documents)
        messages.success(request, f"{len(documents):,} documents are in the corpus, {counted(blocks, 'block')}.")


def after_edit(edited: Edited) -> HttpResponse:
    """The page after an edit: its effects, its document, or the list."""
    gone = [change for change in edited.changes if change.blocks_gone]
    if len(gone) == 1:
        return redirect("manage-document-change-page", gone[0].pk)
    if len(edited.document_ids) == 1:
        return redirect(document_address(edited.document_ids[0]))
    return redirect("manage-documents")
