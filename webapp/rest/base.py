"""The base of all REST views: who may, how they write, and when clients' copies are valid (ETag and 304)."""

from __future__ import annotations

from typing import Any, Final

from django.contrib.auth.models import User
from django.db.models import Model
from django.http import HttpResponse, HttpResponseBase, HttpResponseNotModified
from django.middleware.http import ConditionalGetMiddleware
from django.utils.decorators import decorator_from_middleware, method_decorator
from django.utils.http import parse_etags
from django.views.decorators.cache import cache_control
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse
from rest_framework.permissions import AllowAny
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse
from rest_framework.serializers import BaseSerializer
from rest_framework.utils import json
from rest_framework.views import APIView

from webapp.rest.authentication import AUTHENTICATION, MayAsk, MayEdit, MayOperate, MayRead, MayReadDocuments

JSON_LINES: Final = "application/jsonl"
# A request header, and the response to a client whose copy is current.
UNLESS: Final = OpenApiParameter(
    "If-None-Match", OpenApiTypes.STR, OpenApiParameter.HEADER, description="An `ETag` of this address."
)
UNCHANGED: Final = {304: OpenApiResponse(description="The copy named by `If-None-Match` is current.")}


def unless_current(request: Request, response: Response, version: str) -> HttpResponseBase:
    """A response of this version; that nothing has changed (304), if the client's copy is of it."""
    response["ETag"] = tag = f'"{version}"'
    known = parse_etags(request.headers.get("If-None-Match", ""))  # the other conditions are for edits
    if tag in (one.removeprefix("W/") for one in known) or "*" in known:
        return HttpResponseNotModified(headers={"ETag": tag})
    return response


class Renderer(JSONRenderer):
    """JSON for any text: a lone surrogate, which UTF-8 cannot encode, becomes a question mark."""

    def render(self, data: Any, *arguments: Any, **options: Any) -> bytes:
        try:
            return super().render(data, *arguments, **options)
        except UnicodeEncodeError:
            return json.dumps(data, cls=self.encoder_class, ensure_ascii=False).encode(errors="replace")


class LinesRenderer(Renderer):
    """JSON lines. If there are none to send, because all failed, one line."""

    media_type = JSON_LINES


class PublicView(APIView):
    """For all who may read; on an open site everybody may."""

    authentication_classes = AUTHENTICATION
    permission_classes = [AllowAny, MayRead]  # the first makes authentication optional in the description
    renderer_classes = [Renderer]


class _ConditionalGet(ConditionalGetMiddleware):
    def needs_etag(self, response: HttpResponse) -> bool:  # type: ignore[override]
        """Whether a response gets one: a refusal is no version of anything."""
        return response.status_code == 200 and super().needs_etag(response)


@method_decorator(
    [decorator_from_middleware(_ConditionalGet), cache_control(private=True, no_cache=True)], name="dispatch"
)
class CachedView(PublicView):
    """Data that rarely changes: a private copy is valid as long as its ETag is. Permission is checked every time."""


class DocumentsReadView(PublicView):
    """For all who may read, and for tokens for documents."""

    permission_classes = [AllowAny, MayReadDocuments]


class AskingView(PublicView):
    """For all who may ask; a token needs the scope for asking."""

    permission_classes = [AllowAny, MayAsk]


class OperatorView(PublicView):
    """For admins, with a session or a token for operating."""

    permission_classes = [MayOperate]

    @property
    def operator(self) -> User:
        """The caller; the permission has refused anonymous ones."""
        assert isinstance(self.request.user, User)
        return self.request.user

    def made(self, kind: type[BaseSerializer[Any]], record: Model, view: str, *, new: bool = True) -> Response:
        """A record that a request has made, and its address; of status 200 if it was there already."""
        address = reverse(view, args=[record.pk], request=self.request)
        return Response(kind(record).data, status=201 if new else 200, headers={"Location": address})


class EditorView(OperatorView):
    """For admins, with a session or a token for documents."""

    permission_classes = [MayEdit]
