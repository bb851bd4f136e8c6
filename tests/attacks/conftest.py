"""People and an engine as in the tests of the pages; one real server for the tests that need one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.attacks.contract import SURROUNDINGS
from tests.served import Served, served
from tests.web.conftest import _empty_cache, curator, engine, loader, member, outsider, staff
from webapp.bodies import Utf8Request

__all__ = ["_empty_cache", "curator", "engine", "loader", "member", "outsider", "site", "staff"]


@pytest.fixture(autouse=True)
def _as_the_server_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Django's test client makes requests of Django's own class, the server those of ours."""
    monkeypatch.setattr("django.test.client.WSGIRequest", Utf8Request)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The server: JSON lines in its log, no limit on questions, little patience."""
    with served(tmp_path_factory.mktemp("attacks"), WEB_PATIENCE_S="2", **SURROUNDINGS) as running:
        yield running
