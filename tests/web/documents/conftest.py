"""A tiny deployment of its own whose corpus is edited."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import LazySettings

import webapp.serving.engine
import webapp.serving.living
from tests.tiny import tiny_deployment
from webapp.artefacts.registering import record_corpus, record_index, record_model
from webapp.deployments.service import deploy
from webapp.models import Deployment
from webapp.serving.engine import holder


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    return tiny_deployment(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def deployed(
    db: None,
    folders: tuple[Path, Path, Path],
    settings: LazySettings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Deployment]:
    """Whatever is edited lies in a data folder of the test's own."""
    settings.REALM_DATA = tmp_path
    monkeypatch.setattr(webapp.serving.engine, "_holder", None)
    webapp.serving.living._views.clear()
    model, index, corpus = folders
    record_corpus(corpus)
    record_model(model)
    yield deploy(record_index(index), by=None, note="tiny")
    holder().close()
    webapp.serving.living._views.clear()


@pytest.fixture
def answering(deployed: Deployment) -> Deployment:
    """The tiny deployment, loaded."""
    holder().refresh(wait=True)
    return deployed
