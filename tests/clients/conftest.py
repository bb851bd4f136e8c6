"""One web server for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.served import TOP, Served, served

__all__ = ["TOP", "Running", "running"]

Running = Served


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with served(tmp_path_factory.mktemp("clients")) as site:
        yield site
