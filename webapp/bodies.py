"""Limits on request bodies: size and encoding, checked before any of the body is read."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import IO, Any, Final, TypeVar

from django.conf import settings
from django.core.handlers.wsgi import LimitedStream, WSGIRequest
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.template.defaultfilters import filesizeformat
from django.utils.http import parse_header_parameters
from gunicorn.http.errors import ParseException

from webapp.access.roles import Action, may
from webapp.pages.errors import refusal, wants_problem
from webapp.pages.guards import to_login
from webapp.rest.authentication import token_of

_View = TypeVar("_View", bound=Callable[..., Any])
_CHARSETS: Final = {"utf-8", "utf8", "us-ascii", "ascii"}
_PIECE: Final = 1 << 16  # bytes
_AROUND_BYTES: Final = 1 << 20  # the parts of a form beside its file


class Utf8Request(WSGIRequest):
    """A request that is always decoded as UTF-8, whatever it declares.

    Django would look the declared encoding up among all of Python's codecs, and decode the address with it, before any
    middleware runs; some codecs decompress, some always fail.
    """

    def _set_content_type_params(self, meta: dict[str, Any]) -> None:
        self.content_type, self.content_params = parse_header_parameters(meta.get("CONTENT_TYPE", ""))


def allow_larger_body(file_bytes: int, action: Action) -> Callable[[_View], _View]:
    """Raise a view's limit to a form with such a file, for users and tokens that may do `action`; all others keep the
    usual limit."""

    def mark(view: _View) -> _View:
        view.larger_body = (file_bytes + _AROUND_BYTES, action)  # type: ignore[attr-defined]
        return view

    return mark


class BodyMiddleware:
    """Refuses bodies that are too large (413), declare another encoding, or have a compressed transfer coding (415).

    Django limits the part of a body that it keeps in memory, but not the files of a form, which it would write to the
    disk for any client. It would misread a body in another encoding (`Utf8Request`). This middleware must come before
    the one that reads the CSRF token from the body.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self._get_response(request)

    def process_view(
        self, request: HttpRequest, view: Callable[..., Any], _args: Any, _kwargs: Any
    ) -> HttpResponseBase | None:
        """None if the request is acceptable."""
        if (request.content_params or {}).get("charset", "utf-8").lower() not in _CHARSETS:
            return refusal(request, 415, "The body must be encoded in UTF-8.")
        most: int = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        larger, action = getattr(view, "larger_body", (most, None))
        codings = {coding.strip().lower() for coding in request.headers.get("Transfer-Encoding", "").split(",")}
        if codings - {"", "identity", "chunked"}:
            return refusal(request, 415, "The body must not be compressed: its only transfer coding may be chunked.")
        if "chunked" in codings:
            return self._receive(request, larger if action is not None and _may(request, action) else most)
        length = request.META.get("CONTENT_LENGTH") or "0"
        if length.isdecimal() and int(length) <= most:
            return None
        if action is not None and _may(request, action):
            most = larger
        elif (
            length.isdecimal()
            and int(length) <= larger
            and not (request.user.is_authenticated or wants_problem(request))
        ):
            return to_login(request)  # the session may have ended: after login the larger limit may apply
        if not length.isdecimal() or int(length) > most:
            return _too_large(request, most)
        return None

    @staticmethod
    def _receive(request: HttpRequest, most: int) -> HttpResponse | None:
        """Read a body without a declared length, which Django would take to be empty."""
        held = tempfile.SpooledTemporaryFile(max_size=settings.DATA_UPLOAD_MAX_MEMORY_SIZE)  # noqa: SIM115 - Django reads it
        try:
            length = _copy(request.META["wsgi.input"], held, most)
        except (OSError, ParseException):
            return refusal(request, 400, "The body is incomplete, or its chunks are malformed.")
        if length > most:
            return _too_large(request, most)
        held.seek(0)
        request.META["CONTENT_LENGTH"] = str(length)
        request._stream = LimitedStream(held, length)  # type: ignore[arg-type, assignment]  # any file object works
        return None


def _may(request: HttpRequest, action: Action) -> bool:
    """Whether the request's session or token may do something."""
    if may(request.user, action):
        return True
    token = token_of(request)
    return token is not None and may(token, action)


def _copy(body: IO[bytes], held: IO[bytes], most: int) -> int:
    """Copy a body; returns its length, or more than `most` as soon as that is exceeded."""
    length = 0
    while length <= most and (piece := body.read(_PIECE)):
        held.write(piece)
        length += len(piece)
    return length


def _too_large(request: HttpRequest, most: int) -> HttpResponse:
    return refusal(request, 413, f"The request may have at most {filesizeformat(most)}.")
