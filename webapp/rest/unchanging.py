"""Views of data that rarely changes: clients revalidate their copies (ETag and 304)."""

from __future__ import annotations

from typing import Any, Final

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.cache import patch_cache_control
from django.utils.decorators import method_decorator
from django.views.decorators.http import conditional_page
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse

from webapp.rest.base import PublicView

# A request header, and the response to a client whose copy is current.
UNLESS: Final = OpenApiParameter(
    "If-None-Match", OpenApiTypes.STR, OpenApiParameter.HEADER, description="An `ETag` of this address."
)

UNCHANGED: Final = {304: OpenApiResponse(description="The copy named by `If-None-Match` is current.")}


@method_decorator(conditional_page, name="dispatch")
class CachedView(PublicView):
    """Data that rarely changes: a copy is valid as long as its ETag is. Permission is checked every time."""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Mark the response as private, to be revalidated before each use."""
        response = super().dispatch(request, *args, **kwargs)
        patch_cache_control(response, private=True, no_cache=True)
        return response
