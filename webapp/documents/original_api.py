"""The PDF that a document was read from, over REST."""

from __future__ import annotations

from typing import Final

from django.http import Http404, HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiResponse, extend_schema
from rest_framework.request import Request

from webapp.access.collections import access_of
from webapp.documents import originals
from webapp.documents.original_views import pdf_response
from webapp.rest.base import DocumentsReadView, Renderer, problem_responses
from webapp.rest.parameters import only_parameters

_PDF: Final = "application/pdf"


class PdfRenderer(Renderer):
    """For a request that accepts nothing else; what it renders itself are errors."""

    media_type = _PDF


class OriginalView(DocumentsReadView):
    """The kept PDF of a document."""

    renderer_classes = [PdfRenderer, Renderer]

    @extend_schema(
        operation_id="document_original",
        summary="The PDF that a document was read from",
        description="Sections of its passages name their page. 404 if none is kept: the document was read from "
        "something else, or was removed.",
        responses={
            (200, _PDF): OpenApiResponse(OpenApiTypes.BINARY, description="As it was uploaded or fetched."),
            **problem_responses(400, 403, 404),
        },
        examples=[OpenApiExample("PDF", value="%PDF-1.7 …", response_only=True, status_codes=["200"], media_type=_PDF)],
    )
    def get(self, request: Request, document_id: str) -> HttpResponse:
        only_parameters(request, ())
        found = originals.find(document_id, access_of(request.user).hidden)
        if found is None:
            raise Http404
        return pdf_response(*found)
