"""The base of all REST views: who may, and how they write."""

from __future__ import annotations

from typing import Any, Final

from django.contrib.auth.models import User
from rest_framework.permissions import AllowAny
from rest_framework.renderers import JSONRenderer
from rest_framework.utils import json
from rest_framework.views import APIView

from webapp.rest.authentication import AUTHENTICATION, MayAsk, MayEdit, MayOperate, MayRead, MayReadDocuments

JSON_LINES: Final = "application/jsonl"


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
