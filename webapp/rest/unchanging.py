"""Views of what hardly ever changes: a client that has it already is told so (ETag and 304)."""

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

# A header field of the request, and the response to one who has what it names.
UNLESS: Final = OpenApiParameter(
    "If-None-Match", OpenApiTypes.STR, OpenApiParameter.HEADER, description="An `ETag` of this address."
)

UNCHANGED: Final = {304: OpenApiResponse(description="What `If-None-Match` names is still what is here.")}


@method_decorator(conditional_page, name="dispatch")
class KeptView(PublicView):
    """What hardly ever changes: a copy is good as long as its ETag is. Whether one may read it is asked each time."""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Answer, and say that the copy is for whoever asked, who shall ask before using it again."""
        response = super().dispatch(request, *args, **kwargs)
        patch_cache_control(response, private=True, no_cache=True)
        return response
