"""Documents over REST: list, show, add, change, remove, restore."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import asdict, astuple, replace
from functools import partial
from typing import Any, Final

from django.http import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse
from rest_framework.parsers import JSONParser, MultiPartParser
from rest_framework.permissions import SAFE_METHODS, AllowAny, BasePermission
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse

from realm_core.corpus.records import LONGEST_COLLECTION
from webapp.access import limits
from webapp.access.collections import access_of
from webapp.access.limits import asker_name
from webapp.documents import examples, previewing, restoring
from webapp.documents import service as documents
from webapp.documents.committing import CommitHook, Edited
from webapp.documents.inputs import LONGEST_TITLE, DocumentInput, checked
from webapp.documents.listing import DocumentQuery, Position, PositionLost, following
from webapp.documents.serializers import (
    AboutSerializer,
    BulkRemovalSerializer,
    BulkSerializer,
    ChangedDocumentSerializer,
    ChangedUploadSerializer,
    DocumentSerializer,
    EditedDocumentSerializer,
    EditSerializer,
    FilesSerializer,
    ListedDocumentSerializer,
    NewDocumentSerializer,
    PreviewSerializer,
    RestoredDocumentSerializer,
    TriedDocumentSerializer,
    TriedUploadSerializer,
    UploadSerializer,
    document_input,
    files_input,
    metadata_input,
    tried_input,
)
from webapp.documents.viewing import DocumentMissing, described, show
from webapp.ledger.anew import LIMIT_S, MOST_ANEW
from webapp.ledger.api import TOUCHED_LIST, TouchedSerializer, touched_page
from webapp.ledger.examples import TOUCHED
from webapp.ledger.touched import Touched
from webapp.models import DocumentStatus
from webapp.refusals import FieldError, InvalidRequest
from webapp.rest.authentication import MayEdit, MayReadDocuments
from webapp.rest.base import UNCHANGED, UNLESS, EditorView, unless_current
from webapp.rest.idempotency import claim
from webapp.rest.lists import PAGING, cursor_in, cursor_link, page_example, page_response, page_size, wrong_cursor
from webapp.rest.operation import FORM, JSON, given, operation, sent
from webapp.rest.parameters import IF_MATCH, idempotency_key, if_match, key_parameter, time_in
from webapp.rest.throttle import EditThrottle
from webapp.serving.living import current_corpus_id

_POSITION: Final = re.compile(r"\d{1,18}(\.\d{1,18}){3}", re.ASCII)
_KEY: Final = key_parameter(
    "1 to 255 visible characters. The same key and request within 24 hours make one edit (the second is "
    "answered with 200, a removal with 204, and `Idempotency-Replayed: true`), another request gets 422, and 409 while "
    "the first is under way. A key stands for one edit, not for a content: sent again behind another edit of the "
    "document, it brings nothing back, and the response describes the document as it is now, with 0 `changes` and "
    "the `version` that this edit left."
)
_FILTERS: Final = (
    OpenApiParameter(
        "title", {"type": "string", "minLength": 1, "maxLength": LONGEST_TITLE}, description="A part of it."
    ),
    OpenApiParameter(
        "status", OpenApiTypes.STR, enum=DocumentStatus.values, description="All existing ones if not given."
    ),
    OpenApiParameter(
        "collection",
        {"type": "string", "minLength": 1, "maxLength": LONGEST_COLLECTION},
        description="Of this collection only.",
    ),
    *(
        OpenApiParameter(name, OpenApiTypes.DATETIME, description=f"Documents that an edit added {says} then.")
        for name, says in (("added_since", "at or after"), ("added_before", "before"))
    ),
)
_REFUSED: Final = "What cannot be read is refused by name and reason (422), and nothing of the edit has happened."
_DONE: Final = {
    200: OpenApiResponse(EditSerializer, description="The edit that the key has made already."),
    201: EditSerializer,
}


class _DocumentsView(EditorView):
    """Reading documents needs permission to read; changing them is for admins."""

    parser_classes = [JSONParser, MultiPartParser]
    throttle_classes = [EditThrottle]

    def get_permissions(self) -> list[BasePermission]:
        return [AllowAny(), MayReadDocuments()] if self.request.method in SAFE_METHODS else [MayEdit()]

    def edited(
        self,
        request: Request,
        sent: dict[str, Any],
        edit: Callable[[CommitHook | None], Edited],
        status: int,
    ) -> Response:
        """Make an edit, once for each key, and describe it."""
        key = idempotency_key(request)
        if key is None:
            return _edit_response(request, edit(None), status, added=status == 201)
        with claim(asker_name(request), key, sent) as claimed:
            if claimed.documents is not None:
                made_before = Edited([*claimed.documents], versions=claimed.documents)
                return _edit_response(
                    request, made_before, 204 if status == 204 else 200, added=status == 201, replayed=True
                )
            done = edit(lambda made: claimed.fulfil(documents=made.versions))
        return _edit_response(request, done, status, added=status == 201)


class DocumentsView(_DocumentsView):
    """The documents of the deployed corpus."""

    @operation(
        "documents",
        "List documents",
        "Edited documents first, then those that came with the corpus. Each that is there from the first "
        "page to the last is listed once, whatever is added, changed and removed meanwhile. It is read forwards only: "
        "`previous` is null. Where another index answers meanwhile (400), begin again.",
        parameters=[*PAGING, *_FILTERS],
        gives=page_response("DocumentPage", ListedDocumentSerializer),
        examples=[page_example("Documents", examples.LISTED, "documents")],
    )
    def get(self, request: Request) -> Response:
        title, status, collection = (request.query_params.get(name, "") for name in ("title", "status", "collection"))
        for name, text, most in (("title", title, LONGEST_TITLE), ("collection", collection, LONGEST_COLLECTION)):
            if len(text) > most or "\0" in text:
                raise InvalidRequest(FieldError(name, f"This must be a text of 1 to {most} characters."))
        if status and status not in DocumentStatus.values:
            raise InvalidRequest(FieldError("status", f"This must be one of {', '.join(DocumentStatus.values)}."))
        count = page_size(request)
        times = (time_in(request, "added_since"), time_in(request, "added_before"))
        query = DocumentQuery(title, status, collection, access_of(request.user).hidden, *times)
        try:
            page, after = following(query, _position(request), count)
        except PositionLost:
            raise wrong_cursor("Another index answers since this list was begun: begin again.") from None
        link = None if after is None else cursor_link(request, ".".join(map(str, astuple(after))))
        return Response({"next": link, "previous": None, "results": ListedDocumentSerializer(page, many=True).data})

    @operation(
        "add_document",
        "Add a document",
        f"A text, an address, or a file as multipart/form-data. {_REFUSED} It is answered from when this returns.",
        takes={JSON: NewDocumentSerializer, FORM: UploadSerializer},
        parameters=[_KEY],
        gives=_DONE,
        problems=[409, 422, 429, 507],
        examples=[
            sent("A text", examples.NEW, media_type=JSON),
            sent("An address", examples.ADDRESS, media_type=JSON),
            given("Edit", examples.EDIT, 201),
        ],
    )
    def post(self, request: Request, body: dict[str, Any]) -> Response:
        one = document_input(body)
        return self.edited(
            request, _fingerprint("add", one), lambda kept: documents.add([one], by=self.operator, kept=kept), 201
        )


class BulkView(_DocumentsView):
    @operation(
        "add_documents",
        "Add many documents",
        "In one edit, all or none: texts and addresses, each with what is said of it; or files as "
        f"multipart/form-data, with what is said of all. {_REFUSED}",
        takes={JSON: BulkSerializer, FORM: FilesSerializer},
        parameters=[_KEY],
        gives=_DONE,
        problems=[409, 422, 429, 507],
        examples=[
            sent("Documents", {"documents": [examples.NEW, examples.ADDRESS]}, media_type=JSON),
            given("Edit", examples.EDIT, 201),
        ],
    )
    def post(self, request: Request, body: dict[str, Any]) -> Response:
        if "documents" in body:
            many = _listed(body)
        else:
            many = files_input(body)
            checked(many[:1])  # the fields beside the files are the same for all
        edit = {"add": [_fingerprint("add", one) for one in many]}
        return self.edited(request, edit, lambda kept: documents.add(many, by=self.operator, kept=kept), 201)

    @operation(
        "put_documents",
        "Add or change many documents",
        "In one edit, all or none, to keep them as they are elsewhere: one whose `id` is there is changed as by `PUT` "
        "of its own address, any other is added. Those that are like that already are not among the `changes`. Nothing "
        "is removed. `If-Match` is refused (400), since a version is of one document: `PUT` that to its own address. "
        + _REFUSED,
        takes={JSON: BulkSerializer},
        parameters=[_KEY],
        gives=EditSerializer,
        problems=[409, 422, 429, 507],
        examples=[sent("Documents", {"documents": [examples.KNOWN, examples.NEW]}), given("Edit", examples.EDIT)],
    )
    def put(self, request: Request, body: dict[str, Any]) -> Response:
        _without_version(request, "PUT")
        many = _listed(body)
        edit = {"put": [_fingerprint("put", one) for one in many]}
        return self.edited(request, edit, lambda kept: documents.add_or_change(many, by=self.operator, kept=kept), 200)


class BulkRemovalView(_DocumentsView):
    @operation(
        "remove_documents",
        "Remove many documents",
        "In one edit, all or none: they are no longer searched, and kept answers do not change. An id of which there "
        "is no document, or one that is removed already, refuses all (400): `errors` names their places (`ids[3]`). "
        "`If-Match` is refused (400), since a version is of one document: `DELETE` that at its own address.",
        takes={JSON: BulkRemovalSerializer},
        parameters=[_KEY],
        gives=None,
        problems=[409, 422, 429, 507],
        examples=[sent("Documents", examples.REMOVED)],
    )
    def post(self, request: Request, body: dict[str, Any]) -> Response:
        _without_version(request, "DELETE")
        ids: list[str] = body["ids"]
        try:
            return self.edited(
                request, {"remove": ids}, lambda kept: documents.remove(ids, by=self.operator, kept=kept), 204
            )
        except DocumentMissing as error:
            places = {one: place for place, one in enumerate(ids)}
            missing = (FieldError(f"ids[{places[one]}]", str(DocumentMissing(one))) for one in error.document_ids)
            raise InvalidRequest(*missing) from None


class DocumentView(_DocumentsView):
    @operation(
        "document",
        "A document with its text",
        "Its `ETag` is its `version`: a copy is current (304) as long as its text and what is said of it are the same, "
        "whatever else of the corpus was changed. A removed document has none.",
        parameters=[UNLESS],
        gives={200: DocumentSerializer, **UNCHANGED},
        examples=[given("Document", examples.DOCUMENT)],
    )
    def get(self, request: Request, document_id: str) -> HttpResponseBase:
        shown = show(document_id, access_of(request.user).hidden)
        told = DocumentSerializer(shown).data
        if shown.row is not None and shown.row.original and shown.version is not None:
            told["original"] = reverse("api-original", args=[document_id], request=request)
        return Response(told) if shown.version is None else unless_current(request, Response(told), shown.version)

    @operation(
        "change_document",
        "Change a document",
        "Replaces title and text (the text that it has stays with its headings). Licence, attribution, "
        "address, language, date, tags and collection stay if they are not given. Unchanged blocks keep their vectors. "
        + _REFUSED,
        takes={JSON: ChangedDocumentSerializer, FORM: ChangedUploadSerializer},
        parameters=[_KEY, IF_MATCH],
        gives=EditSerializer,
        problems=[404, 409, 412, 422, 429, 507],
        examples=[sent("A text", examples.NEW, media_type=JSON), given("Edit", examples.EDIT)],
    )
    def put(self, request: Request, document_id: str, body: dict[str, Any]) -> Response:
        return self._changed(request, document_id, document_input(body))

    @operation(
        "describe_document",
        "Change what is said of a document",
        "Its text stays, with headings, pages and a kept PDF, as does whatever is not given. " + _REFUSED,
        takes={JSON: AboutSerializer},
        parameters=[_KEY, IF_MATCH],
        gives=EditSerializer,
        problems=[409, 412, 422, 429],
        examples=[sent("A licence and tags", examples.ABOUT), given("Edit", examples.EDIT)],
    )
    def patch(self, request: Request, document_id: str, body: dict[str, Any]) -> Response:
        return self._changed(request, document_id, metadata_input(body))

    def _changed(self, request: Request, document_id: str, one: DocumentInput) -> Response:
        versions = if_match(request)
        return self.edited(
            request,
            _fingerprint("change", one) | {"document": document_id},
            lambda kept: documents.change(document_id, one, by=self.operator, kept=kept, versions=versions),
            200,
        )

    @operation(
        "remove_document",
        "Remove a document",
        "It is no longer searched. Kept answers do not change.",
        parameters=[_KEY, IF_MATCH],
        gives=None,
        problems=[409, 412, 422, 429, 507],
    )
    def delete(self, request: Request, document_id: str) -> Response:
        versions = if_match(request)
        return self.edited(
            request,
            {"remove": document_id},
            lambda kept: documents.remove([document_id], by=self.operator, kept=kept, versions=versions),
            204,
        )


class RestoreView(_DocumentsView):
    @operation(
        "restore_document",
        "Restore a removed document",
        "It stands where it stood, so that answers are as if it had never been removed; all that is said of it and a "
        "kept PDF are as they were. `If-Match` has versions that it may have had. Refused (409) where it is not "
        "removed, was purged, or its text is not kept any more: of a document that came with the corpus it is kept "
        "until the edits are folded, of one that was added since for a day at least.",
        takes={JSON: RestoredDocumentSerializer},
        parameters=[_KEY, IF_MATCH],
        gives=EditSerializer,
        problems=[404, 409, 412, 422, 429, 507],
        examples=[sent("Nothing to confirm", {}), given("Edit", examples.RESTORED)],
    )
    def post(self, request: Request, document_id: str, body: dict[str, Any]) -> Response:
        versions = if_match(request)
        return self.edited(
            request,
            {"restore": document_id} | body,
            lambda kept: restoring.restore([document_id], by=self.operator, kept=kept, versions=versions, **body),
            200,
        )


class TouchedView(EditorView):
    """What an edit of a document would touch, which is not made."""

    parser_classes = [JSONParser, MultiPartParser]
    throttle_classes = [EditThrottle]

    @operation(
        "document_touched",
        "The kept answers that read a document",
        "What each would be without the document, from what is stored with it: without the model. Nothing is changed.",
        parameters=TOUCHED_LIST,
        gives=TouchedSerializer,
        examples=[given("Answers", TOUCHED)],
    )
    def get(self, request: Request, document_id: str) -> Response:
        show(document_id)  # or 404
        touched = Touched(previewing.of_removal([document_id]))
        return Response(TouchedSerializer(touched_page(request, touched)).data)

    @operation(
        "preview_change",
        "What a change would do",
        "The body of a change (`PUT`), or one without text, address and file (`PATCH`); `If-Match` has versions of the "
        "document. Says which passages would go, come and stay, and what would become of the kept answers that read "
        f"those that go: their questions are asked of the corpus as it would be, at most {MOST_ANEW}, as many as are "
        f"answered in {LIMIT_S:g} seconds, each where its asker may look, and count as questions of yours. Nothing is "
        "changed or kept. " + _REFUSED,
        takes={JSON: TriedDocumentSerializer, FORM: TriedUploadSerializer},
        parameters=[IF_MATCH],
        gives=PreviewSerializer,
        problems=[412, 422, 429, 507],
        examples=[sent("A text", examples.NEW, media_type=JSON), given("Preview", examples.PREVIEW)],
    )
    def post(self, request: Request, document_id: str, body: dict[str, Any]) -> Response:
        preview = previewing.of_change(document_id, tried_input(body), if_match(request))
        anew = preview.asked_anew(partial(limits.count_questions, request))
        summary = preview.touched.worked_out().summary
        return Response(PreviewSerializer({"preview": preview, "summary": summary, "anew": anew}).data)


def _without_version(request: Request, method: str) -> None:
    """Refuse `If-Match` for many documents. method: by which it is sent for one."""
    if "If-Match" in request.headers:
        says = f"A version is of one document: {method} each that must have one at its own address, with its If-Match."
        raise InvalidRequest(FieldError("If-Match", says))


def _listed(body: dict[str, Any]) -> list[DocumentInput]:
    """The documents of a request that lists them; InvalidRequest names what is wrong in the list."""
    many = [document_input(one) for one in body["documents"]]
    checked(many, "documents")
    return many


def _position(request: Request) -> Position | None:
    """Where the page begins; None: at the beginning of the list."""
    cursor = cursor_in(request)
    if cursor and not _POSITION.fullmatch(cursor):
        raise wrong_cursor()
    return Position(*map(int, cursor.split("."))) if cursor else None


def _edit_response(request: Request, edited: Edited, status: int, *, added: bool, replayed: bool = False) -> Response:
    headers = {"Idempotency-Replayed": "true"} if replayed else {}
    if status == 204:
        return Response(status=status, headers=headers)
    # Another edit may have changed them since, which this client has not seen.
    versions = edited.versions
    there = [replace(one, version=versions.get(one.document_id)) for one in described(edited.document_ids)]
    if added and len(there) == 1:
        headers["Location"] = reverse("api-document", args=[there[0].document_id], request=request)
    body = {
        "corpus": edited.corpus or current_corpus_id(),
        "documents": EditedDocumentSerializer(there, many=True).data,
        "changes": len(edited.changes),
        "new_collections": edited.new_collections,
        "timings_ms": edited.timings_ms,
    }
    return Response(body, status=status, headers=headers)


def _fingerprint(what: str, one: DocumentInput) -> dict[str, Any]:
    """The request that a key stands for; for a file, the hash of its content."""
    told = asdict(one)
    if "content" in told["source"]:
        told["source"]["content"] = hashlib.sha256(told["source"]["content"]).hexdigest()
    told["date"] = str(one.date)
    return {what: told}
