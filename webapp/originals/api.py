"""The PDF that a document was read from, over REST."""

from __future__ import annotations

from typing import Final

from django.http import Http404, HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse
from rest_framework.request import Request

from webapp.access.collections import access_of
from webapp.originals import service as originals
from webapp.originals.views import pdf_response
from webapp.rest.base import DocumentsReadView, Renderer
from webapp.rest.headers import CONTENT_DISPOSITION
from webapp.rest.operation import given, operation

_PDF: Final = "application/pdf"


class PdfRenderer(Renderer):
    """For a request that accepts nothing else; what it renders itself are errors."""

    media_type = _PDF


class OriginalView(DocumentsReadView):
    renderer_classes = [PdfRenderer, Renderer]

    @operation(
        "document_original",
        "The PDF that a document was read from",
        "Sections of its passages name their page. 404 if none is kept: the document was read from "
        "something else, or was removed.",
        gives={(200, _PDF): OpenApiResponse(OpenApiTypes.BINARY, description="As it was uploaded or fetched.")},
        headers=[CONTENT_DISPOSITION],
        examples=[given("PDF", "%PDF-1.7 …", media_type=_PDF)],
    )
    def get(self, request: Request, document_id: str) -> HttpResponse:
        found = originals.find(document_id, access_of(request.user).hidden)
        if found is None:
            raise Http404
        return pdf_response(*found)
