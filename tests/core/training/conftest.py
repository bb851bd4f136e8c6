"""What the tests of training share: the towns, and a world to fine-tune in."""

from __future__ import annotations

import pytest
import torch

from realm_core.training import finetune_step
from tests.core.conftest import Deployment
from tests.core.training.finetune_scene import World, make_world
from tests.core.training.towns import Towns, make_towns


@pytest.fixture(scope="session")
def towns(tmp_path_factory: pytest.TempPathFactory) -> Towns:
    """A corpus with its spans, a model with an encoder, and their index."""
    return make_towns(tmp_path_factory.mktemp("towns"))


@pytest.fixture(scope="module")
def world(deployment: Deployment) -> World:
    return make_world(deployment)


@pytest.fixture
def in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of fine-tuning, whatever this machine can do: formulas are compared to many digits."""
    monkeypatch.setattr(finetune_step, "fast_dtype", lambda device: torch.float32)
