"""What the tests of realm_core share: one tiny deployment, made once, and property tests without a clock."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from realm_core.serving.engine import Engine
from tests.core.engines import engine_of
from tests.nightly import NIGHTLY, examples
from tests.tiny import tiny_deployment

# For matrices this small a second thread costs more than it gives, and with one all sums are made in one order.
torch.set_num_threads(1)
# How long an example takes says nothing on a machine that does other things too. No change is refused for an example
# that the one before it was not tried on: new ones are drawn at night.
settings.register_profile("realm_core", deadline=None, derandomize=not NIGHTLY, max_examples=examples(100))
settings.load_profile("realm_core")


@dataclass(frozen=True)
class Deployment:
    """Folders that fit together, and one that others may write beside."""

    model: Path
    index: Path
    corpus: Path
    root: Path

    def arguments(self) -> list[str]:
        """How a command line is told of them."""
        return ["--model", str(self.model), "--index", str(self.index), "--corpus", str(self.corpus)]


@pytest.fixture(scope="session")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    root = tmp_path_factory.mktemp("deployment")
    return Deployment(*tiny_deployment(root), root)


@pytest.fixture(scope="session")
def engine(deployment: Deployment) -> Iterator[Engine]:
    engine = Engine.load(deployment.model, deployment.index, deployment.corpus, device="cpu")
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def precise(deployment: Deployment) -> Iterator[Engine]:
    engine = engine_of(deployment)
    yield engine
    engine.close()
