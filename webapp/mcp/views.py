"""The endpoint of the Model Context Protocol: Streamable HTTP without sessions or streams, a JSON reply per message."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework.exceptions import ParseError, PermissionDenied, ValidationError
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from webapp.access import limits
from webapp.mcp.protocol import PARSE_ERROR, RpcError, answer
from webapp.mcp.tools import Tool, ToolError
from webapp.refusals import REFUSALS
from webapp.rest.authentication import MayAsk, TokenAuthentication
from webapp.rest.base import Renderer
from webapp.rest.problems import DATABASE_ERRORS, describe


class McpView(APIView):
    """Handles each message separately. Tokens as for REST, or none if everybody may ask."""

    authentication_classes = [TokenAuthentication]  # with sessions, a foreign page could act for the visitor
    permission_classes = [AllowAny, MayAsk]
    renderer_classes = [Renderer]

    @extend_schema(exclude=True)  # not REST; the protocol has its own description
    def post(self, request: Request) -> Response | HttpResponse:
        _check_origin(request)
        try:
            body = request.data
        except (ParseError, RecursionError):
            reply = RpcError(PARSE_ERROR, "The body is not JSON.", status=400).reply(None)
        else:
            reply = answer(body, request.headers, self._call)
        return HttpResponse(status=reply.status) if reply.body is None else Response(reply.body, status=reply.status)

    def _call(self, tool: Tool, arguments: dict[str, Any]) -> dict[str, Any]:
        """The result of a tool for this caller."""
        try:
            given = tool.arguments(data=arguments)
            given.is_valid(raise_exception=True)
            if tool.counted:
                self._count()
            return tool.run(self.request, **given.validated_data)
        except (*REFUSALS, ValidationError, *DATABASE_ERRORS) as error:
            raise ToolError(_sentence(error)) from error

    def _count(self) -> None:
        allowance = limits.count(self.request)
        if allowance is None:
            return
        self.headers = {**self.headers, **allowance.headers()}
        if not allowance.granted:
            self.headers["Retry-After"] = str(allowance.reset_s)
            raise ToolError(f"Too many questions. Ask again in {allowance.reset_s} seconds.")


def _check_origin(request: Request) -> None:
    """Refuse pages of other sites, as the protocol demands: browsers would let them bypass a firewall."""
    origin = request.headers.get("Origin")
    own = f"{request.scheme}://{request.get_host()}"
    if origin is not None and origin != own and origin not in settings.CORS_ALLOWED_ORIGINS:
        raise PermissionDenied(f"Pages of {origin} may not call this server; CORS_ORIGINS names those that may.")


def _sentence(error: Exception) -> str:
    """The message of a problem, in one line."""
    described = describe(error)
    assert described is not None
    wrong = [f"{one['field']}: {one['detail']}".removeprefix(": ") for one in described.body.get("errors", [])]
    wait_s = described.headers.get("Retry-After")
    return " ".join([*(wrong or [described.body["detail"]]), *([f"Ask again in {wait_s} seconds."] if wait_s else [])])
