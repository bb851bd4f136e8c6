"""The engine that answers in this process, kept in step with the active deployment.

Every question costs one small query for the active deployment, and `watch` looks at it when nobody asks. When it
names another pair than the one that is loaded, a thread loads and warms up the new pair beside the old one, questions
go on being answered by the old one, and then the two are exchanged between two questions. The same thread closes the
old engine when the last question that uses it is done, so no question pays for the clearing up. Nothing is loaded
before the first question (or `readyz`), so a server may fork first.

The same query names the corpus state that is current. When documents were edited since, whoever asks next opens the
new state from the old one, in milliseconds; questions under way go on with the state that they began with.

A pair that cannot be loaded is tried again from time to time, and meanwhile the last good one answers: the one that is
loaded, or in a process that has none, because it has just been started, the newest earlier one that can be.

    with serving() as engine_in_service:
        answer = engine_in_service.engine.ask("Who …?")
"""

from __future__ import annotations

import gc
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import Error, close_old_connections, connection
from django.db.models import OuterRef, Subquery

from realm_core.errors import EngineUnavailable, RealmError
from webapp import metrics
from webapp.models import CorpusState, Deployment
from webapp.serving.living import state_of, unshared_store_of
from webapp.serving.repeats import Repeats
from webapp.storage.places import resolve

if TYPE_CHECKING:
    from realm_core.serving.engine import Engine
    from realm_core.serving.provenance import Answer

__all__ = ["EngineHolder", "EngineUnavailable", "Serving", "Status", "holder", "load_engine", "serving", "watch"]

log = logging.getLogger(__name__)

LOOK_EVERY_S = 2.0  # at the active deployment, while nobody asks
RETRY_FAILED_AFTER_S = 30.0  # a pair that could not be loaded is tried again, its files may have been repaired
_EARLIER = 3  # pairs that are tried where nothing answers and the active one cannot be loaded


@dataclass(eq=False)
class Serving:
    """A loaded engine and the deployment that it stands for."""

    deployment_id: int
    engine: Engine
    repeats: Repeats[Answer] = field(default_factory=lambda: Repeats(settings.ASK_CACHE_S))
    state_pk: int = 0  # row of the corpus state that the engine answers from; 0: of the unchanged base
    users: int = 0  # questions that are using it now
    retired: bool = False  # another took its place, and nobody will begin to use it
    unused: threading.Event = field(default_factory=threading.Event)  # retired, and the last question is done


@dataclass(frozen=True)
class Status:
    """What `readyz` tells. state: ready, loading, failed or nothing deployed; idle before anybody has asked."""

    state: str
    deployment_id: int | None
    reason: str = ""


def load_engine(deployment: Deployment) -> Engine:
    """Load and warm up what `deployment` points at; RealmError when files are missing or do not fit together."""
    from realm_core.living.purging import finish_purge
    from realm_core.serving.corpus import LivingCorpus
    from realm_core.serving.engine import Engine

    _spare_the_collector()
    index = deployment.index
    store, state = unshared_store_of(index), state_of(index, index.current_state)
    finish_purge(store, state)  # one that died when it had been committed
    engine = Engine.load(
        resolve(deployment.model.path),
        resolve(index.path),
        resolve(index.corpus.path),
        device=settings.REALM_DEVICE,
        search=settings.REALM_SEARCH,
        living=LivingCorpus(store, state),
        capacity=settings.ASK_QUEUE,
        deadline_s=settings.ASK_DEADLINE_S,
    )
    _check_identity(engine, deployment)
    engine.warm_up()
    engine.on_batch = metrics.batch_done
    return engine


@cache  # once; whether it has been done takes the collector itself 20 ms to say, in which nobody else runs Python
def _spare_the_collector() -> None:
    # Modules, which stay, are half a million objects: to look through them for garbage whenever an engine is closed
    # would keep every question waiting for a quarter of a second.
    gc.freeze()
    # And a hundred askers at once are many young objects, of which few are garbage that only looking finds.
    gc.set_threshold(50_000, 20, 100)


def _check_identity(engine: Engine, deployment: Deployment) -> None:
    """RealmError unless the files are those that were recorded; of manifests only what they say can be compared."""
    model, index = deployment.model, deployment.index
    for place, found, recorded in (
        (model.path, engine.model_id.rpartition("@")[2], model.model_hash),
        (index.path, engine.index_id, index.generation),
        (index.corpus.path, engine.corpus_id.rpartition("@")[2].partition("+")[0], index.corpus.snapshot_id),
    ):
        if found != recorded:
            engine.close()
            raise RealmError(f"{resolve(place)} holds {found}, and {recorded} was recorded: something changed it.")


class EngineHolder:
    """The one engine of a process; every method may be called from any thread."""

    def __init__(self) -> None:
        self.process_id = os.getpid()
        self._lock = threading.Lock()
        self._serving: Serving | None = None
        self._loader: threading.Thread | None = None
        self._failed_id: int | None = None
        self._failure = ""
        self._failed_at = 0.0
        self._opening = threading.Lock()
        self._unopened: tuple[int, float] = (0, 0.0)  # a state that could not be opened, and when

    @contextmanager
    def serving(self) -> Iterator[Serving]:
        """The engine for one question. EngineUnavailable while there is none."""
        self.refresh()
        with self._lock:
            serving = self._serving
            if serving is None:
                if self._failure and self._loader is None:
                    raise EngineUnavailable(
                        f"The deployed model could not be loaded: {self._failure}",
                        retry_after_s=round(RETRY_FAILED_AFTER_S),
                    )
                raise EngineUnavailable("The model is being loaded; ask again in a few seconds.")
            serving.users += 1
        try:
            yield serving
        finally:
            with self._lock:
                serving.users -= 1
                if serving.retired and serving.users == 0:
                    serving.unused.set()

    def refresh(self, *, wait: bool = False) -> None:
        """Look at the active deployment and begin to load it if it is not the one that serves.

        wait: return only when the loading is over. EngineUnavailable when nothing is deployed.
        """
        current = CorpusState.objects.filter(index=OuterRef("index"), is_current=True).values("pk")[:1]
        active = Deployment.objects.filter(is_active=True).values_list("pk", Subquery(current)).first()
        if active is None:
            raise EngineUnavailable(
                "Nothing is deployed yet: no model and index have been activated.", retry_after_s=30
            )
        active_id, state_pk = active
        with self._lock:
            recently_failed = self._failed_id == active_id and time.monotonic() - self._failed_at < RETRY_FAILED_AFTER_S
            serves = self._serving is not None and self._serving.deployment_id == active_id
            needed = not serves and not recently_failed and self._loader is None
            alone = self._serving is None
            if serves:
                self._failed_id, self._failure = None, ""
        if needed:
            # The rows are read here, so that the loading thread needs no database connection.
            deployment = Deployment.objects.select_related("model", "index__corpus", "index__model").get(pk=active_id)
            earlier = deployment.earlier(_EARLIER) if alone else []
            for one in (deployment, *earlier):
                _ = one.index.current_state
            self._begin(deployment, earlier)
        elif serves and state_pk is not None:
            self._take_up(active_id, state_pk)
        if wait and (loader := self._loader) is not None:
            loader.join()

    def _take_up(self, deployment_id: int, state_pk: int) -> None:
        """Answer from a newer corpus state from now on. One that cannot be opened is tried again from time to time."""
        if (serving := self._serving) is None or serving.deployment_id != deployment_id or serving.state_pk >= state_pk:
            return
        with self._opening:
            if serving.state_pk >= state_pk:  # another has just opened it, or a newer one
                return
            failed_pk, failed_at = self._unopened
            if failed_pk == state_pk and time.monotonic() - failed_at < RETRY_FAILED_AFTER_S:
                return
            row = CorpusState.objects.select_related("index__corpus").get(pk=state_pk)
            try:
                serving.engine.take_up(state_of(row.index, row))
            except RealmError as error:
                self._unopened = (state_pk, time.monotonic())
                log.error("The corpus state %s cannot be opened: %s", row.state_id, error)
                return
            serving.state_pk = state_pk

    def follow(self) -> None:
        """Look at the active deployment if something is loaded already. Errors as `refresh`."""
        if self._serving is not None:
            self.refresh()

    def status(self) -> Status:
        """How things stand; begins to load when nothing is loaded yet."""
        try:
            self.refresh()
        except EngineUnavailable as unavailable:
            return Status("nothing deployed", None, str(unavailable))
        return self.standing()

    def standing(self) -> Status:
        """The same without a look at the database; begins nothing."""
        with self._lock:
            if self._serving is not None:
                # A pair that cannot be loaded does not make a server unready that answers with another one.
                return Status("ready", self._serving.deployment_id, self._failure)
            if self._failure and self._loader is None:
                return Status("failed", self._failed_id, self._failure)
            if self._loader is None:
                return Status("idle", None, "Nobody has asked anything yet.")
            return Status("loading", None, "The model is being loaded.")

    def close(self) -> None:
        """Wait for a loading thread and release the engine."""
        if (loader := self._loader) is not None:
            loader.join()
        self._retire(self._exchange(None))

    def _begin(self, deployment: Deployment, earlier: Sequence[Deployment] = ()) -> None:
        with self._lock:
            if self._loader is not None:
                return
            self._loader = threading.Thread(
                target=self._load, args=(deployment, earlier), name=f"load-deployment-{deployment.pk}", daemon=True
            )
            self._loader.start()

    def _load(self, deployment: Deployment, earlier: Sequence[Deployment]) -> None:
        """Let `deployment` answer, or else, until it can be loaded, the first of `earlier` that can."""
        failure = self._try(deployment)
        if failure is None:
            return
        with self._lock:
            self._failed_id, self._failure, self._failed_at = deployment.pk, failure, time.monotonic()
        for one in earlier:
            if self._try(one) is None:
                return
        with self._lock:
            self._loader = None

    def _try(self, deployment: Deployment) -> str | None:
        """Load it and let it answer; otherwise why not. Whatever it was, the process goes on with what it has."""
        started_at = time.monotonic()
        try:
            engine = load_engine(deployment)
        except Exception as error:
            metrics.LOADS.labels("failed").observe(time.monotonic() - started_at)
            if not isinstance(error, RealmError):
                log.exception("Deployment %s could not be loaded", deployment.pk)
                return "an internal error, see the log."
            log.error("Deployment %s could not be loaded: %s", deployment.pk, error)
            return str(error)
        loaded_at = time.monotonic()
        metrics.LOADS.labels("loaded").observe(loaded_at - started_at)
        state = deployment.index.current_state
        old = self._exchange(Serving(deployment.pk, engine, state_pk=0 if state is None else state.pk))
        metrics.SWAPS.observe(time.monotonic() - loaded_at)
        log.info(
            "Deployment %s answers: %.1f s to load it and warm it up, %.1f ms to change over",
            *(deployment.pk, loaded_at - started_at, (time.monotonic() - loaded_at) * 1e3),
        )
        self._retire(old)
        return None

    def _exchange(self, new: Serving | None) -> Serving | None:
        """Put `new` in the place of what serves, between two questions; returns the old one, to be retired."""
        with self._lock:
            old, self._serving = self._serving, new
            self._loader = None
            if old is not None:
                old.retired = True
                if old.users == 0:
                    old.unused.set()
        return old

    @staticmethod
    def _retire(old: Serving | None) -> None:
        """Close what served, and give its memory back, as soon as its last question is done."""
        if old is not None:
            old.unused.wait()
            old.engine.close()
            log.info("Deployment %s has left this process", old.deployment_id)


_holder: EngineHolder | None = None
_holder_lock = threading.Lock()


def holder() -> EngineHolder:
    """This process's holder. A forked child gets its own: threads and locks do not survive a fork."""
    global _holder, _holder_lock
    if _holder is not None and _holder.process_id == os.getpid():
        return _holder
    if _holder is not None:
        _holder_lock = threading.Lock()
        _holder = None
    with _holder_lock:
        if _holder is None:
            _holder = EngineHolder()
        return _holder


@contextmanager
def serving() -> Iterator[Serving]:
    """The engine in service, for one question. EngineUnavailable while there is none.

    Who waits for the engine needs no database: a connection out of a pool goes back to it for that time.
    """
    with holder().serving() as engine_in_service:
        if connection.settings_dict["OPTIONS"].get("pool") and not connection.in_atomic_block:
            connection.close()
        yield engine_in_service


def watch(tell: Callable[[Status], None]) -> None:
    """Follow the active deployment also while nobody asks here: a process that was idle must not answer its next
    question with what was taken out of service. For a server's process, once; nothing is loaded by it that was not
    asked for before. tell: whom to tell each time how things stand."""
    threading.Thread(target=_watch, args=(tell,), name="watch-deployment", daemon=True).start()


def _watch(tell: Callable[[Status], None]) -> None:
    while True:
        time.sleep(LOOK_EVERY_S)
        with _whatever_is_away():
            close_old_connections()
            holder().follow()
        with _whatever_is_away():
            tell(holder().standing())


@contextmanager
def _whatever_is_away() -> Iterator[None]:
    try:
        yield
    except (Error, EngineUnavailable) as error:  # InterfaceError is no DatabaseError
        log.debug("The active deployment cannot be looked at: %s", error)
