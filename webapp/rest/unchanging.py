"""Views of data that rarely changes: clients revalidate their copies (ETag and 304)."""

from __future__ import annotations

from typing import Final

from django.utils.decorators import method_decorator
from django.views.decorators.cache import cache_control
from django.views.decorators.http import conditional_page
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse

from webapp.rest.base import PublicView

# A request header, and the response to a client whose copy is current.
UNLESS: Final = OpenApiParameter(
    "If-None-Match", OpenApiTypes.STR, OpenApiParameter.HEADER, description="An `ETag` of this address."
)

UNCHANGED: Final = {304: OpenApiResponse(description="The copy named by `If-None-Match` is current.")}


@method_decorator([conditional_page, cache_control(private=True, no_cache=True)], name="dispatch")
class CachedView(PublicView):
    """Data that rarely changes: a private copy is valid as long as its ETag is. Permission is checked every time."""
