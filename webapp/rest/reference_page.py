"""The API's description, as OpenAPI and as a page."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe
from drf_spectacular.views import SpectacularAPIView

from webapp.rest.authentication import AUTHENTICATION
from webapp.rest.reference import reference


@require_safe
def docs(request: HttpRequest) -> HttpResponse:
    """Operations, requests and responses, with calls to copy."""
    origin = request.build_absolute_uri("/").rstrip("/")
    return render(request, "api/reference.html", {"reference": reference(), "origin": origin})


class SchemaView(SpectacularAPIView):
    """The OpenAPI description; `?format=json` for JSON."""

    authentication_classes = AUTHENTICATION
