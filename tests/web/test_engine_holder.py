"""The engine of a process: loaded late, exchanged between two questions, closed when nobody uses it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from django.db import DatabaseError, InterfaceError
from django.test import Client
from django.utils import timezone

from realm_core.errors import RealmError
from realm_core.living.editing import Embed
from tests.web.conftest import Loader
from tests.web.pages import stored
from webapp.models import Deployment, IndexGeneration, ModelVersion
from webapp.serving import embedding
from webapp.serving.engine import EngineHolder, EngineUnavailable, Status, _watch, holder, load_engine, serving
from webapp.storage.places import resolve

pytestmark = pytest.mark.django_db


def until(condition: Callable[[], bool]) -> None:
    for _ in range(500):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("It did not happen within five seconds.")


def test_nothing_is_deployed(loader: Loader) -> None:
    with pytest.raises(EngineUnavailable, match="Nothing is deployed"), serving():
        pass
    assert holder().status().state == "nothing deployed"


def test_what_is_loaded_is_warmed_up_before_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    deployment = stored.deployment()

    class Slow:
        model_id = f"realm-mini@{deployment.model.model_hash}"
        index_id = deployment.index.generation
        corpus_id = f"vital@{deployment.index.corpus.snapshot_id}"

        def warm_up(self) -> None:
            done.append("warmed up")

    monkeypatch.setattr("realm_core.serving.engine.Engine.load", lambda *_folders, **_about: Slow())
    assert isinstance(load_engine(deployment), Slow) and done == ["warmed up"]


def test_the_search_is_that_of_the_settings(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    asked: list[str] = []

    def load(*_folders: object, search: str, **_about: object) -> None:
        asked.append(search)
        raise RealmError("seen")

    monkeypatch.setattr("realm_core.serving.engine.Engine.load", load)
    for search in ("auto", "ivf"):
        settings.REALM_SEARCH = search
        with pytest.raises(RealmError, match="seen"):
            load_engine(stored.deployment())
    assert asked == ["auto", "ivf"]


def test_the_first_question_starts_the_loading(loader: Loader) -> None:
    deployment = stored.deployment()
    loader.may_go_on.clear()
    for _ in range(3):
        with pytest.raises(EngineUnavailable, match="being loaded") as caught, serving():
            pass
    assert caught.value.retry_after_s > 0
    assert holder().status().state == "loading"
    loader.may_go_on.set()
    until(lambda: holder().status().state == "ready")
    with serving() as service:
        assert service.deployment.pk == deployment.pk
    assert len(loader.engines) == 1


def test_who_waits_for_words_to_be_counted_is_told(
    loader: Loader, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored.deployment()
    loader.may_go_on.clear()
    monkeypatch.setattr("webapp.serving.engine.share_counted", lambda: 0.43)
    told = "The words of the corpus are being counted, once: 43% are done."
    holder().refresh()
    with pytest.raises(EngineUnavailable, match=told) as caught, serving():
        pass
    assert caught.value.retry_after_s == 60
    assert client.get("/readyz").json()["reason"] == holder().status().reason == told
    monkeypatch.setattr("webapp.serving.engine.share_counted", lambda: None)
    assert holder().status().reason == "The model is being loaded."
    loader.may_go_on.set()
    until(lambda: holder().status().state == "ready")


def test_a_new_deployment_is_loaded_beside_the_old_one(loader: Loader) -> None:
    first = stored.deployment()
    holder().refresh(wait=True)
    loader.may_go_on.clear()
    second = stored.deployment()
    with serving() as service:
        assert service.deployment.pk == first.pk  # answers while the other is loading
        loader.may_go_on.set()
        until(lambda: len(loader.engines) == 2)
        until(lambda: holder().status().deployment_id == second.pk)
        until(lambda: service.retired)
        assert not service.unused.is_set() and not loader.engines[0].closed  # this question still uses it
    until(lambda: loader.engines[0].closed)
    with serving() as service:
        assert service.deployment.pk == second.pk
    assert not loader.engines[1].closed


def test_a_deployment_that_cannot_be_loaded_leaves_the_old_one_answering(loader: Loader) -> None:
    first = stored.deployment()
    holder().refresh(wait=True)
    loader.error = RealmError("shard 3 is damaged.")
    stored.deployment()
    holder().refresh(wait=True)
    with serving() as service:
        assert service.deployment.pk == first.pk
    status = holder().status()
    assert (status.state, status.reason) == ("ready", "shard 3 is damaged.")


@pytest.mark.parametrize(
    ("error", "said"), [(RealmError("shard 3 is damaged."), "shard 3 is damaged"), (KeyError("x"), "internal error")]
)
def test_without_an_old_one_the_reason_is_told(loader: Loader, error: Exception, said: str) -> None:
    loader.error = error
    stored.deployment()
    holder().refresh(wait=True)
    with pytest.raises(EngineUnavailable, match=said) as caught, serving():
        pass
    assert caught.value.retry_after_s >= 30
    assert holder().status().state == "failed"


def test_a_process_that_starts_with_a_damaged_pair_answers_with_the_last_good_one(
    loader: Loader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not with one whose files have been removed; and with the active one as soon as it has been repaired."""
    good = stored.deployment()
    bad = stored.deployment()
    gone, active = stored.deployment(), stored.deployment()
    IndexGeneration.objects.filter(pk=gone.index_id).update(removed_at=timezone.now())
    loader.damaged = {bad.pk, active.pk}
    holder().refresh(wait=True)
    with serving() as service:
        assert service.deployment.pk == good.pk
    status = holder().status()
    assert (status.state, status.deployment_id) == ("ready", good.pk)
    assert status.reason == f"shard 3 of {active.index.generation} is damaged."
    assert len(loader.engines) == 1

    loader.damaged = set()
    monkeypatch.setattr("webapp.serving.engine.RETRY_FAILED_AFTER_S", 0.0)
    holder().refresh(wait=True)
    status = holder().status()
    assert (status.state, status.deployment_id, status.reason) == ("ready", active.pk, "")
    until(lambda: loader.engines[0].closed)


def test_while_another_is_tried_nobody_is_told_that_all_is_lost(loader: Loader) -> None:
    good, active = stored.deployment(), stored.deployment()
    loader.damaged = {active.pk}
    loader.may_go_on.clear()
    assert holder().status().state == "loading"
    loader.may_go_on.set()
    states = set[str]()
    until(lambda: states.add(holder().status().state) or "ready" in states)
    assert states <= {"loading", "ready"} and holder().status().deployment_id == good.pk


def test_earlier_pairs_are_told_once_and_the_newest_first() -> None:
    first, second = stored.deployment(), stored.deployment()
    Deployment.activate(first.index)
    again = Deployment.activate(second.index)
    assert [one.index_id for one in again.earlier(3)] == [first.index_id]
    active = stored.deployment()
    assert [one.pk for one in active.earlier(3)] == [again.pk, again.pk - 1]
    assert [one.pk for one in active.earlier(1)] == [again.pk]


def test_what_failed_is_tried_again_later(loader: Loader, monkeypatch: pytest.MonkeyPatch) -> None:
    loader.error = RealmError("not yet.")
    stored.deployment()
    holder().refresh(wait=True)
    loader.error = None
    holder().refresh(wait=True)
    assert loader.engines == []  # too soon
    monkeypatch.setattr("webapp.serving.engine.RETRY_FAILED_AFTER_S", 0.0)
    holder().refresh(wait=True)
    assert holder().status().state == "ready"


def test_many_threads_load_it_once(loader: Loader) -> None:
    deployment = stored.deployment()
    own = EngineHolder()
    loader.may_go_on.clear()
    threads = [threading.Thread(target=own._begin, args=(deployment,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    loader.may_go_on.set()
    own.close()
    assert len(loader.engines) == 1 and loader.engines[0].closed


def test_a_forked_child_has_a_holder_of_its_own(loader: Loader, monkeypatch: pytest.MonkeyPatch) -> None:
    parent = holder()
    assert holder() is parent
    monkeypatch.setattr("webapp.serving.engine.os.getpid", lambda: parent.process_id + 1)
    child = holder()
    assert child is not parent and holder() is child


def test_a_process_without_questions_follows_the_active_deployment(loader: Loader) -> None:
    stored.deployment()
    holder().follow()
    assert loader.engines == []  # nothing is loaded that nobody asked for
    holder().refresh(wait=True)
    second = stored.deployment()
    holder().follow()
    until(lambda: holder().status().deployment_id == second.pk)
    until(lambda: loader.engines[0].closed)


def test_the_watch_goes_on_after_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a deployment or a database it looks again later."""
    troubles = [EngineUnavailable("nothing is deployed"), DatabaseError("gone"), InterfaceError("shut")]
    met: list[Exception] = []

    class Away:
        def follow(self) -> None:
            if len(met) == len(troubles):
                raise SystemExit  # the test has seen enough
            met.append(troubles[len(met)])
            raise met[-1]

        def standing(self) -> Status:
            return Status("idle", None)

    def tell(status: Status) -> None:
        told.append(status)
        raise DatabaseError("gone")

    told: list[Status] = []

    monkeypatch.setattr("webapp.serving.engine.LOOK_EVERY_S", 0.01)
    monkeypatch.setattr("webapp.serving.engine.close_old_connections", lambda: None)
    monkeypatch.setattr("webapp.serving.engine.holder", Away)
    with pytest.raises(SystemExit):
        _watch(tell)
    assert met == troubles and told == [Status("idle", None)] * len(troubles)


def test_the_embedder_for_edits_is_loaded_once_a_model_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    model = stored.deployment().model
    loaded: list[Path] = []
    looks: list[ModelVersion | None] = []

    class Held:
        model: ModelVersion | None = None

        def follow(self) -> None:
            looks.append(self.model)
            if len(looks) == 2:
                assert loaded == []  # nothing answers yet
                Held.model = model
            elif len(looks) == 5:
                raise SystemExit

        def standing(self) -> Status:
            return Status("ready", 1)

    def load(folder: Path) -> Embed:
        loaded.append(folder)
        return lambda blocks: torch.zeros(len(blocks), 8)

    monkeypatch.setattr(embedding, "_ahead", None)
    monkeypatch.setattr(embedding, "_kept", {})
    monkeypatch.setattr(embedding, "_load", load)
    monkeypatch.setattr("webapp.serving.engine.LOOK_EVERY_S", 0.01)
    monkeypatch.setattr("webapp.serving.engine.close_old_connections", lambda: None)
    monkeypatch.setattr("webapp.serving.engine.holder", Held)
    with pytest.raises(SystemExit):
        _watch(lambda _status: None)
    until(lambda: bool(embedding._kept))
    assert loaded == [resolve(model.path)] and list(embedding._kept) == [model.block_hash]
    assert len(embedding.embedding_of(model)([("Title", "Text")])) == 1 and len(loaded) == 1


def test_an_embedder_that_cannot_be_loaded_is_tried_again_by_an_edit(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    model = stored.deployment().model
    monkeypatch.setattr(embedding, "_ahead", None)
    monkeypatch.setattr(embedding, "_kept", {})  # the record's folder does not exist
    embedding.load_ahead(model)
    until(lambda: "The block embedder could not be loaded" in caplog.text)
    with pytest.raises(RealmError):
        embedding.embedding_of(model)([("Title", "Text")])
