"""The vectors of the corpus in Milvus: asked, edited, away, back, removed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import LazySettings
from django.test import Client

from realm_core.errors import EngineUnavailable
from realm_core.index import allowed_rows
from realm_core.index.milvus import drop
from realm_core.living.search import MilvusSearch, open_base
from tests.core.index.test_approximate import drawn, generation
from tests.core.living.test_search import CPU
from tests.milvus import LocalMilvus, running_milvus
from tests.waiting import wait_until
from tests.web.conftest import Person
from tests.web.operating import post, problem
from webapp.artefacts import retention
from webapp.documents import service as documents
from webapp.models import Deployment
from webapp.serving.engine import holder
from webapp.storage.places import indexes_dir

QUESTION = "Which river flows through Egypt?"


@pytest.fixture(scope="module")
def running() -> Iterator[LocalMilvus]:
    with running_milvus() as milvus:
        yield milvus


@pytest.fixture
def milvus(
    running: LocalMilvus, deployed: Deployment, settings: LazySettings, monkeypatch: pytest.MonkeyPatch
) -> LocalMilvus:
    """It searches the tiny deployment, also the few rows that a mask leaves."""
    monkeypatch.setattr(allowed_rows, "_FEW_ROWS", 0)
    settings.REALM_SEARCH, settings.ASK_CACHE_S = running.server, 0
    wait_until(lambda: _connects(running), patience_s=20.0)
    return running


def _connects(running: LocalMilvus) -> bool:
    """Not at once where an earlier test killed the server: gRPC waits longer after each attempt in vain."""
    try:
        return drop(running.server, "no such index") == []
    except EngineUnavailable:
        return False


def evidence(client: Client) -> list[tuple[str, float]]:
    """Title and prior of each block that an answer was read from."""
    answer: dict[str, Any] = post(client, "ask", {"question": QUESTION, "k": 20}).json()
    return [(block["title"], block["prior"]) for block in answer["evidence"]]


def loaded() -> None:
    holder().close()
    holder().refresh(wait=True)


def test_what_is_asked_is_answered_as_by_exact_search(
    milvus: LocalMilvus, settings: LazySettings, staff: Person
) -> None:
    loaded()
    with holder().serving() as service:
        assert isinstance(service.engine._corpus.index._base[1], MilvusSearch)  # type: ignore[index]
    whole = evidence(staff.client)
    documents.remove(["Nile"], by=staff.user)
    without = evidence(staff.client)
    assert len(whole) == 12 and len(without) == 11 and "Nile" in dict(whole) and "Nile" not in dict(without)
    settings.REALM_SEARCH = "exact"
    loaded()
    exact = evidence(staff.client)
    assert [title for title, _ in exact] == [title for title, _ in without]
    assert [prior for _, prior in without] == pytest.approx([prior for _, prior in exact], rel=1e-5)


def test_while_it_is_away_askers_are_told_when_to_come_back(milvus: LocalMilvus, client: Client) -> None:
    loaded()
    milvus.kill()
    refused = problem(post(client, "ask", {"question": QUESTION}), 503)
    assert refused["detail"] == "The vector database does not answer."
    page = client.post("/", {"question": QUESTION})
    assert page.status_code == 503 and int(page["Retry-After"]) > 0
    assert "The vector database does not answer." in page.content.decode()
    milvus.start()
    wait_until(lambda: post(client, "ask", {"question": QUESTION}).status_code in (200, 201), patience_s=20.0)


def test_an_index_that_is_removed_is_dropped_there_too(
    milvus: LocalMilvus, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    """Later, if Milvus is away at that moment; an engine that is loaded until then says so."""
    first, second, third = (generation(indexes_dir() / name, drawn(50), 50) for name in ("one", "two", "three"))
    for folder in (first, second, third):
        open_base(folder, CPU, milvus.server)
    retention.take_away(first)
    assert not first.exists() and drop(milvus.server, "one") == []
    milvus.kill()
    with pytest.raises(EngineUnavailable):
        retention.take_away(second)
    retention.remove(by=None)
    assert ".two.removed is removed later: Milvus at" in caplog.text
    holder().refresh(wait=True)
    said = f"Milvus at {milvus.server.uri} does not answer."
    assert (holder().status().state, holder().status().reason) == ("failed", said)
    ready = client.get("/readyz")
    assert ready.status_code == 503 and said in ready.content.decode()
    milvus.start()
    wait_until(lambda: not retention.remove(by=None) and not (indexes_dir() / ".two.removed").exists(), patience_s=20.0)
    assert drop(milvus.server, "two") == [] and len(drop(milvus.server, "three")) == 1
