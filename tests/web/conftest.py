"""Four people, and an engine that needs no model."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.core.cache import cache
from django.http import HttpRequest, HttpResponse, HttpResponseForbidden
from django.test import Client

import webapp.serving.engine
from realm_core.errors import RealmError
from realm_core.living.collections import CollectionFacts
from realm_core.living.scope import Scope
from realm_core.model.config import ModelConfig
from realm_core.serving.filled import Filling
from realm_core.serving.provenance import Answer
from tests.web.logged_in import logged_in
from tests.web.operating import TokenClient
from tests.web.pages import fillings, stored
from webapp.deployments import service as deploying
from webapp.deployments.service import Finding, PairCheck, Verdict
from webapp.jobs import queue
from webapp.models import Deployment, IndexGeneration, ModelVersion
from webapp.serving.engine import Serving


@dataclass(frozen=True)
class Person:
    """Somebody with a browser."""

    name: str
    user: Any  # a User; None of who has no account
    client: Client


@pytest.fixture
def staff(db: None) -> Person:
    return _log_in(User.objects.create_user("Stella", password="p", is_staff=True))


@pytest.fixture
def curator(db: None) -> Person:
    user = User.objects.create_user("Cora", password="p")
    user.groups.add(Group.objects.get_or_create(name="curators")[0])
    return _log_in(user)


@pytest.fixture
def member(db: None) -> Person:
    return _log_in(User.objects.create_user("Memo", password="p"))


@pytest.fixture
def outsider(db: None) -> Person:
    return Person("outsider", None, Client())


def _log_in(user: User) -> Person:
    return Person(user.username, user, logged_in(user))


@pytest.fixture
def program(staff: Person) -> TokenClient:
    """A program with an admin's token."""
    return TokenClient(staff.user, "operate")


@pytest.fixture
def index(db: None) -> IndexGeneration:
    """The index that is deployed."""
    return stored.deployment().index


@pytest.fixture
def no_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody hears of the jobs that are started."""
    monkeypatch.setattr(queue, "_send", lambda *_: None)


@pytest.fixture
def short_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is refused a page gets the status alone; to write the page takes far longer than to refuse."""
    monkeypatch.setattr("webapp.urls.handler403", _refused, raising=False)


def _refused(_request: HttpRequest, exception: Exception) -> HttpResponse:
    return HttpResponseForbidden(str(exception))


@pytest.fixture
def quality(monkeypatch: pytest.MonkeyPatch) -> list[Verdict]:
    """What the check of a pair finds of how it answers, instead of reading files that are not there."""
    found = [Verdict.GOOD]

    def check(index: IndexGeneration, model: ModelVersion | None = None) -> PairCheck:
        findings = (Finding("Quality", found[0], "As said."),)
        return PairCheck(model or index.model, index, Deployment.active(), findings)

    monkeypatch.setattr(deploying, "check", check)
    return found


@dataclass
class FakeEngine:
    """Answers every question in the same way, or raises `error`; counts what is asked of it."""

    deployment_id: int
    value: dict[str, Any] = field(default_factory=stored.payload)
    error: Exception | None = None
    asked: list[tuple[str, int, tuple[str, ...]]] = field(default_factory=list)
    has_encoder: bool = True
    filled: list[tuple[str, int, tuple[str, ...], str | None]] = field(default_factory=list)
    looked_for: list[tuple[str, tuple[str, ...], int, tuple[str, ...]]] = field(default_factory=list)
    scopes: list[Scope | None] = field(default_factory=list)  # of whatever is asked
    collections: dict[str, CollectionFacts] = field(default_factory=dict)
    rank: int | None = None
    read_as: str = ""  # what every question that may be is read as
    closed: bool = False
    model_id: str = "realm-mini"
    index_id: str = "gen-1"
    corpus_id: str = "0123456789abcdef"
    config: ModelConfig = field(default_factory=ModelConfig)

    def ask(self, question: str, *, k: int = 5, exclude: Sequence[str] = (), **wanted: Any) -> Answer:
        read_as = self._read(wanted)
        self.asked.append((question, k, tuple(exclude)))
        if self.error is not None:
            raise self.error
        return replace(Answer.from_dict(self.value), question=question, read_as=read_as)

    def retrieve(self, question: str, *, k: int = 5, exclude: Sequence[str] = (), **wanted: Any) -> _Found:
        blocks = [_Retrieved(**{name: e[name] for name in _NAMES}) for e in self.value["evidence"][:k]]
        return _Found(self.corpus_id, blocks, self._read(wanted))

    def rank_holding(
        self, question: str, answers: Sequence[str], *, among: int, exclude: Sequence[str] = (), **wanted: Any
    ) -> int | None:
        self._read(wanted)
        self.looked_for.append((question, tuple(answers), among, tuple(exclude)))
        return self.rank

    def fill(
        self, sentence: str, *, k: int = 8, exclude: Sequence[str] = (), truth: str | None = None, **wanted: Any
    ) -> Filling:
        self._read(wanted)
        self.filled.append((sentence, k, tuple(exclude), truth))
        if self.error is not None:
            raise self.error
        return fillings.filling(sentence, truth) if self.has_encoder else fillings.read(sentence, truth)

    def _read(self, wanted: dict[str, Any]) -> str:
        """What a question is read as. wanted: what is said of every question."""
        assert not self.closed and wanted.keys() <= {"scope", "as_typed", "listens"}
        self.scopes.append(wanted.get("scope"))
        return "" if wanted.get("as_typed") else self.read_as

    def close(self) -> None:
        self.closed = True


_NAMES = ("rank", "block_id", "title", "text", "section", "url", "prior")


@dataclass(frozen=True)
class _Found:
    corpus: str
    blocks: list[_Retrieved]
    read_as: str = ""


@dataclass(frozen=True)
class _Retrieved:
    rank: int
    block_id: str
    title: str
    text: str
    section: str
    url: str
    prior: float
    score: float = 1.0
    collection: str = "tiny"


class Loader:
    """Stands in for `load_engine`: hands out FakeEngines when it is let."""

    def __init__(self) -> None:
        self.engines: list[FakeEngine] = []
        self.error: Exception | None = None
        self.damaged: set[int] = set()  # deployments that cannot be loaded
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    def __call__(self, deployment: Deployment) -> FakeEngine:
        assert self.may_go_on.wait(10)
        if self.error is not None:
            raise self.error
        if deployment.pk in self.damaged:
            raise RealmError(f"shard 3 of {deployment.index.generation} is damaged.")
        self.engines.append(FakeEngine(deployment.pk))
        return self.engines[-1]


@pytest.fixture
def loader(monkeypatch: pytest.MonkeyPatch) -> Iterator[Loader]:
    """Loading an engine gives a FakeEngine; nothing is loaded at first and afterwards."""
    stand_in = Loader()
    monkeypatch.setattr(webapp.serving.engine, "load_engine", stand_in)
    monkeypatch.setattr(webapp.serving.engine, "_holder", None)
    yield stand_in
    stand_in.may_go_on.set()
    webapp.serving.engine.holder().close()


@pytest.fixture
def engine(db: None, loader: Loader) -> FakeEngine:
    """The engine of an active deployment, put in its place without a thread and queries that would load it."""
    deployment = stored.deployment()
    engine = loader(deployment)
    webapp.serving.engine.holder()._exchange(Serving(deployment, engine, state_pk=0))
    return engine


@pytest.fixture(autouse=True)
def _empty_cache() -> Iterator[None]:
    cache.clear()
    yield
    cache.clear()
