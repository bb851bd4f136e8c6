"""Static files as they are when they are asked for.

WhiteNoise reads their sizes once, at the start. Where `git pull` changed them beside a running server, a file that had
become longer was sent cut, a shorter one as if the connection had been lost, and one that was gone as an error.
"""

from __future__ import annotations

from email.utils import formatdate
from pathlib import Path
from typing import Any, Final

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from whitenoise.middleware import WhiteNoiseMiddleware
from whitenoise.responders import StaticFile

_ATTEMPTS: Final = 3  # where a file is replaced while it is opened


class StaticFilesMiddleware(WhiteNoiseMiddleware):  # type: ignore[misc]  # which has no types
    """WhiteNoise's; what it knows of a file is read again when that has changed."""

    def __init__(self, get_response: Any) -> None:
        super().__init__(get_response)
        self._known: dict[str, StaticFile] = {}

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        address = request.path_info
        for _ in range(_ATTEMPTS if address.startswith(self.static_prefix) else 0):
            file = self._known.get(address)
            if file is None or not _is_as_described(file):
                file = self.find_file(address)
                if file is None:
                    break
                self._known[address] = file
            try:
                response: HttpResponseBase = self.serve(file, request)
            except FileNotFoundError:  # removed since
                continue
            if _is_as_described(file):  # so is what was opened
                return response
            if (opened := getattr(response, "file_to_stream", None)) is not None:  # `close` would end the request
                opened.close()
        other: HttpResponseBase = self.get_response(request)
        return other


def _is_as_described(file: StaticFile) -> bool:
    """Whether it, and what is there of it in compressed form, has the size and the date that its headers say."""
    for _, path, headers in file.alternatives:
        said = dict(headers)
        try:
            there = Path(path).stat()
        except FileNotFoundError:
            return False
        if str(there.st_size) != said["Content-Length"]:
            return False
        if "Content-Encoding" not in said and formatdate(there.st_mtime, usegmt=True) != said["Last-Modified"]:
            return False
    return True
