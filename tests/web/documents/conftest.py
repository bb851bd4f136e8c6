"""A tiny deployment of its own whose corpus is edited.

Documents are read in this process: a new one for each of hundreds takes minutes. tests/core/documents has what depends
on the process, and tests/web/test_backups.py adds documents by way of it.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings

import realm_core.serving.engine
import webapp.serving.engine
import webapp.serving.living
from realm_core.corpus.ingest import ingest
from realm_core.corpus.records import RawArticle
from realm_core.documents import reading
from realm_core.documents.readers import read_file, read_typed
from realm_core.documents.records import Limits, ParsedDocument, from_json, to_json
from realm_core.index.build import build
from realm_core.runs.activity import Activity
from tests.in_memory_source import InMemorySource
from tests.tiny import ARTICLES, tiny_deployment
from tests.web.asked import ask
from webapp.artefacts.registering import record_corpus, record_index, record_model
from webapp.deployments.service import NotConfirmed, deploy
from webapp.models import AskedAnswer, Deployment, IndexGeneration
from webapp.serving.engine import holder

Snapshots = Callable[..., IndexGeneration]

# Each model once: that is nearly all that loading an engine takes, and no test changes a model.
_load_model = cache(realm_core.serving.engine._load_model)


def copied(folders: tuple[Path, Path, Path], to: Path) -> tuple[Path, Path, Path]:
    """The tiny deployment in a data folder of its own, for tests that write beside it."""
    model, index, corpus = (to / one.relative_to(folders[0].parent) for one in folders)
    for one, copy in zip(folders, (model, index, corpus), strict=True):
        shutil.copytree(one, copy)
    return model, index, corpus


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
    monkeypatch.setattr(reading, "_run", read_here)
    monkeypatch.setattr(realm_core.serving.engine, "_load_model", _load_model)
    monkeypatch.setattr(realm_core.serving.engine.Engine, "warm_up", lambda _: None)  # half of what loading takes then
    webapp.serving.living._views.clear()
    model, index, corpus = folders
    record_corpus(corpus)
    record_model(model)
    yield Deployment.activate(record_index(index), note="tiny")  # which nothing speaks against
    holder().close()
    webapp.serving.living._views.clear()


@pytest.fixture
def answering(deployed: Deployment) -> Deployment:
    """The tiny deployment, loaded."""
    holder().refresh(wait=True)
    return deployed


@pytest.fixture
def another_index(answering: Deployment, folders: tuple[Path, Path, Path], tmp_path: Path) -> IndexGeneration:
    """Another index of the same model and corpus, not deployed."""
    model, _, corpus = folders
    return record_index(build(model, corpus, tmp_path / "indexes", Activity(quiet=True), name="another"))


def deploy_confirmed(index: IndexGeneration) -> Deployment:
    """Deploy an index, whatever the check says, and load it."""
    try:
        deployed = deploy(index)
    except NotConfirmed as refused:
        deployed = deploy(index, confirmed=refused.check.digest)
    holder().refresh(wait=True)
    return deployed


def titles(asked: AskedAnswer | None = None) -> set[str]:
    """The titles of the blocks that an answer was read from; without one, of all that there are."""
    asked = asked or ask("What is there?", k=50)
    return {block["title"] for block in asked.payload["evidence"]}


def meanwhile(
    monkeypatch: pytest.MonkeyPatch, module: Any, name: str, happens: Callable[[], Any], *, behind: bool = False
) -> None:
    """Let something happen once, before the next call of a function, or behind it."""
    called = getattr(module, name)

    def once(*arguments: Any, **named: Any) -> Any:
        monkeypatch.setattr(module, name, called)
        if not behind:
            happens()
        result = called(*arguments, **named)
        if behind:
            happens()
        return result

    monkeypatch.setattr(module, name, once)


def read_here(arguments: list[str], folder: Path, name: str, limits: Limits) -> list[ParsedDocument]:
    """What `python -m realm_core.documents` does with these arguments, in this process and without its bounds."""
    declared = next((one.partition("=")[2] for one in arguments if one.startswith("--type=")), None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if "--typed" in arguments:
            found = read_typed(Path(arguments[0]), limits)
        else:
            found = read_file(Path(arguments[0]), name, declared, limits, only_one="--only-one" in arguments)
    return from_json(to_json(found).encode())


@pytest.fixture
def snapshots(answering: Deployment, folders: tuple[Path, Path, Path], tmp_path: Path) -> Snapshots:
    """Indexes of later snapshots of the corpus that answers, or of another one, by their texts."""

    def made(texts: dict[str, str], corpus_name: str = "tiny") -> IndexGeneration:
        titles = [one for one in texts if not one.startswith("id of ")]
        at = "https://en.wikipedia.org/wiki/"
        articles = [RawArticle(texts.get(f"id of {one}", one), one, f"{at}{one}", texts[one]) for one in titles]
        source = InMemorySource(articles, name=corpus_name)
        quiet = Activity(quiet=True)
        corpus = ingest(source, name=corpus_name, output=tmp_path / "corpora", activity=quiet, processes=1)
        record_corpus(corpus)
        name = f"later-{IndexGeneration.objects.count()}"
        return record_index(build(folders[0], corpus, tmp_path / "indexes", quiet, name=name))

    return made


@pytest.fixture
def later(snapshots: Snapshots) -> IndexGeneration:
    """With another text of the Nile and one article more."""
    return snapshots({**ARTICLES, "Nile": ARTICLES["Nile"] + " It is long.", "Oslo": "Oslo is in Norway."})


@pytest.fixture
def parts(snapshots: Snapshots) -> Snapshots:
    """Parts of a Wikipedia, whose articles are numbered as its pages are."""

    def made(*titles: str) -> IndexGeneration:
        numbers = {f"id of {title}": f"{number}" for number, title in enumerate(titles, 1)}
        return snapshots({title: ARTICLES[title] for title in titles} | numbers, "wiki")

    return made
