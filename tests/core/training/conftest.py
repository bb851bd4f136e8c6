"""What the tests of pre-training share: a corpus with its spans, a model with an encoder, and their index."""

from __future__ import annotations

import pytest

from tests.core.training.towns import Towns, make_towns


@pytest.fixture(scope="session")
def towns(tmp_path_factory: pytest.TempPathFactory) -> Towns:
    return make_towns(tmp_path_factory.mktemp("towns"))
