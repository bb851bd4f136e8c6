"""Static files that are changed beside a running server, as `git pull` does, come as they are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from django.conf import LazySettings
from django.http import HttpRequest, HttpResponse
from django.http.response import FileResponse
from django.test import RequestFactory
from whitenoise.responders import StaticFile

from webapp.static_files import StaticFilesMiddleware


@pytest.fixture
def folder(tmp_path: Path, settings: LazySettings) -> Path:
    settings.STATICFILES_DIRS = [tmp_path]
    return tmp_path


@pytest.fixture
def serve(folder: Path) -> StaticFilesMiddleware:
    return StaticFilesMiddleware(lambda _: HttpResponse(status=404))


def get(serve: StaticFilesMiddleware, name: str = "a.css", **headers: str) -> tuple[int, bytes, str]:
    """(status, content, ETag); as many bytes as Content-Length says."""
    response = serve(RequestFactory().get(f"/static/{name}", headers=headers))
    if not isinstance(response, FileResponse):
        return response.status_code, b"", ""
    content = b"".join(response)
    if response.file_to_stream is not None:
        response.file_to_stream.close()
    assert response.status_code == 304 or len(content) == int(response["Content-Length"])
    return response.status_code, content, response["ETag"]


@pytest.mark.parametrize("text", [b"a" * 300, b"a", b""])
def test_a_file_whose_length_changed_is_sent_whole(serve: StaticFilesMiddleware, folder: Path, text: bytes) -> None:
    path = folder / "a.css"
    path.write_bytes(b"b" * 100)
    status, content, tag = get(serve)
    assert (status, content) == (200, b"b" * 100)
    assert get(serve, If_None_Match=tag)[0] == 304
    path.write_bytes(text)
    assert get(serve, If_None_Match=tag)[:2] == (200, text)
    assert get(serve)[1] == text


def test_a_new_file_of_the_same_length_has_another_etag(serve: StaticFilesMiddleware, folder: Path) -> None:
    path = folder / "a.css"
    path.write_bytes(b"old")
    os.utime(path, (1, 1))
    tag = get(serve)[2]
    path.write_bytes(b"new")
    assert get(serve, If_None_Match=tag)[:2] == (200, b"new")


def test_new_ones_come_and_removed_ones_are_not_there(serve: StaticFilesMiddleware, folder: Path) -> None:
    path = folder / "a.css"
    assert get(serve)[0] == 404
    path.write_bytes(b"new")
    assert get(serve)[:2] == (200, b"new")
    path.unlink()
    assert get(serve)[0] == 404
    assert serve(RequestFactory().get("/a.css")).status_code == 404


@pytest.mark.parametrize("by", [b"longer than it was", None])
def test_a_file_may_be_replaced_while_it_is_opened(
    serve: StaticFilesMiddleware, folder: Path, monkeypatch: pytest.MonkeyPatch, by: bytes | None
) -> None:
    path = folder / "a.css"
    path.write_bytes(b"old")
    opened = StaticFile.get_response
    replacements = [by]

    def replaced(self: StaticFile, method: str, headers: dict[str, str]) -> object:
        for content in replacements:
            replacements.clear()
            path.unlink()
            if content is not None:
                path.write_bytes(content)
        return opened(self, method, headers)

    monkeypatch.setattr(StaticFile, "get_response", replaced)
    assert get(serve)[:2] == ((404, b"") if by is None else (200, by))


def test_what_is_no_static_file_is_passed_on(folder: Path) -> None:
    seen: list[str] = []

    def other(request: HttpRequest) -> HttpResponse:
        seen.append(request.path)
        return HttpResponse()

    (folder / "a.css").write_bytes(b"a")
    serve = StaticFilesMiddleware(other)
    for address in ("/static/", "/static/../static/a.css", "/static/b.css", "/manage/", "/static/%00"):
        assert serve(RequestFactory().get(address)).status_code == 200
    assert len(seen) == 5
