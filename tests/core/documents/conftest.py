"""A reader for every test of documents."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.core.documents.files import Reader


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    return Reader(tmp_path)
