"""A closed engine releases its memory."""

from __future__ import annotations

import weakref
from pathlib import Path

import pytest

from realm_core.errors import RealmError
from realm_core.serving.engine import Engine
from tests.tiny import tiny_deployment


def test_a_closed_engine_releases_its_tensors(tmp_path: Path) -> None:
    engine = Engine.load(*tiny_deployment(tmp_path))
    engine.warm_up()
    vectors, query = weakref.ref(engine._corpus.index), weakref.ref(engine._query)
    engine.close()
    assert vectors() is None and query() is None
    engine.close()  # once more does no harm
    with pytest.raises(RealmError, match="closed"):
        engine.ask("Who?")
