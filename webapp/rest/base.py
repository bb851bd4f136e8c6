"""The base of all REST views: permissions, and strict reading of requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from django.contrib.auth.models import User
from drf_spectacular.utils import OpenApiResponse
from rest_framework.permissions import AllowAny
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.utils import json
from rest_framework.views import APIView

from webapp.refusals import FieldError, InvalidRequest
from webapp.rest.authentication import AUTHENTICATION, MayAsk, MayEdit, MayOperate, MayRead, MayReadDocuments
from webapp.rest.parameters import only_parameters
from webapp.rest.problems import CONTENT_TYPE
from webapp.rest.serializers import ProblemSerializer, StrictSerializer

JSON_LINES: Final = "application/jsonl"

_DESCRIPTIONS: Final = {
    400: "The request is not valid; `errors` names the fields.",
    401: "The token is unknown, has expired or was revoked; or there is none, and one is needed.",
    403: "This caller may not do this.",
    404: "There is no such thing.",
    409: "Not possible as things stand; `detail` says why.",
    412: "The document was changed meanwhile: it has none of the versions in `If-Match`. `version` is its present one.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    422: "This cannot be done; `detail` says why.",
    429: "Too many questions; `Retry-After` says when to come back.",
    503: "No model is ready, or the database does not answer; `Retry-After` says when to come back.",
    507: "The server's disk is full or takes no files.",
}


def problem_responses(*statuses: int) -> dict[Any, Any]:
    """The problems that a view may answer with, for its description; 401 and 503 are always among them."""
    return {
        (status, CONTENT_TYPE): OpenApiResponse(ProblemSerializer, description=_DESCRIPTIONS[status])
        for status in sorted({401, 503, *statuses})
    }


class Renderer(JSONRenderer):
    """JSON for any text: a lone surrogate, which UTF-8 cannot encode, becomes a question mark."""

    def render(self, data: Any, *arguments: Any, **options: Any) -> bytes:
        """The body of a response."""
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


class EditorView(OperatorView):
    """For admins, with a session or a token for documents."""

    permission_classes = [MayEdit]


def checked(request: Request, kind: type[StrictSerializer]) -> dict[str, Any]:
    """The body, validated by `kind`."""
    only_parameters(request, ())
    serializer = kind(data=_body(request))
    serializer.is_valid(raise_exception=True)
    return dict(serializer.validated_data)


def without_body(request: Request, known: Sequence[str] = ()) -> None:
    """Refuse a body where there must be none, and unknown parameters."""
    only_parameters(request, known)
    if _body(request):
        raise InvalidRequest(FieldError("", "Nothing is expected in the body."))


def _body(request: Request) -> Any:
    try:
        return request.data
    except RecursionError:
        raise InvalidRequest(FieldError("", "The body is nested too deeply.")) from None
