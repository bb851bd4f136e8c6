"""The engine of this process, which follows the active deployment.

Every question queries the active deployment (one small query); without questions `watch` does. If it is another pair
than the loaded one, a thread loads and warms up the new pair while the old one answers, and then replaces it between
two questions. The same thread closes the old engine after its last question, so no question waits for that. Nothing is
loaded before the first question (or `readyz`), so a server may fork first.

The same query names the current corpus state. If documents were edited, the next question opens the new state from the
old one, in milliseconds; running questions continue with the state that they started with.

A pair that cannot be loaded is retried periodically; meanwhile the loaded one answers or, in a new process, the newest
earlier one that can be loaded.

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

from realm_core.errors import EngineUnavailable, RealmError
from realm_core.index.word_count import share_counted
from realm_core.object_store import get_folder
from realm_core.text.language import foreign_language
from webapp import metrics
from webapp.models import CorpusState, Deployment, ModelVersion
from webapp.serving.embedding import load_ahead
from webapp.serving.living import current_states, state_of, unshared_store_of
from webapp.serving.repeats import Repeats
from webapp.storage.places import resolve

if TYPE_CHECKING:
    from realm_core.serving.engine import Engine
    from realm_core.serving.provenance import Answer

log = logging.getLogger(__name__)

LOOK_EVERY_S = 2.0  # between two queries of the active deployment, without questions
RETRY_FAILED_AFTER_S = 30.0  # until a failed pair is retried; its files may have been repaired
_EARLIER = 3  # earlier pairs to try if none is loaded and the active one cannot be


@dataclass(eq=False)
class Serving:
    """A loaded engine and its deployment."""

    deployment: Deployment
    engine: Engine
    repeats: Repeats[Answer] = field(default_factory=lambda: Repeats(settings.ASK_CACHE_S))
    state_pk: int = 0  # row of the engine's corpus state; 0: the unchanged base
    users: int = 0  # questions that use it now
    retired: bool = False  # replaced; no new question uses it
    unused: threading.Event = field(default_factory=threading.Event)  # retired, and the last question is done


@dataclass(frozen=True)
class Status:
    """The state for `readyz`: ready, loading, failed or nothing deployed; idle before the first question."""

    state: str
    deployment_id: int | None
    reason: str = ""


def load_engine(deployment: Deployment) -> Engine:
    """Load and warm up the engine of `deployment`; RealmError if files are missing or do not fit together."""
    from realm_core.living.purging import finish_purge
    from realm_core.serving.corpus import LivingCorpus
    from realm_core.serving.engine import Engine

    _freeze_garbage_collector()
    index = deployment.index
    folders = [get_folder(resolve(path)) for path in (deployment.model.path, index.path, index.corpus.path)]
    store, state = unshared_store_of(index), state_of(index, index.current_state)
    finish_purge(store, lambda: current_states(index))  # one that died when it had been committed
    engine = Engine.load(
        *folders,
        device=settings.REALM_DEVICE,
        search=settings.REALM_SEARCH,
        living=LivingCorpus(store, state),
        capacity=settings.ASK_QUEUE,
        deadline_s=settings.ASK_DEADLINE_S,
    )
    _check_identity(engine, deployment)
    engine.warm_up()
    foreign_language("What language is this?")  # loads its model, half a second that no question is to wait for
    engine.on_batch = metrics.batch_done
    return engine


@cache  # once; even asking the collector takes 20 ms, in which no other thread runs Python
def _freeze_garbage_collector() -> None:
    # Modules are half a million permanent objects: scanning them for garbage whenever an engine is closed would delay
    # every question by a quarter of a second.
    gc.freeze()
    # A hundred concurrent questions make many young objects, few of which are garbage in cycles.
    gc.set_threshold(50_000, 20, 100)


def _check_identity(engine: Engine, deployment: Deployment) -> None:
    """RealmError unless the files are the recorded ones; of manifests only the contents can be compared."""
    model, index = deployment.model, deployment.index
    for place, found, recorded in (
        (model.path, engine.model_id.rpartition("@")[2], model.model_hash),
        (index.path, engine.index_id, index.generation),
        (index.corpus.path, engine.corpus_id.rpartition("@")[2].partition("+")[0], index.corpus.snapshot_id),
    ):
        if found != recorded:
            engine.close()
            raise RealmError(f"{resolve(place)} holds {found}, but {recorded} was recorded: it was changed.")


class EngineHolder:
    """The engine of a process; every method may be called from any thread."""

    def __init__(self) -> None:
        self.process_id = os.getpid()
        self._lock = threading.Lock()
        self._serving: Serving | None = None
        self._loader: threading.Thread | None = None
        self._failed_id: int | None = None
        self._failure = ""
        self._failed_at = 0.0
        self._opening = threading.Lock()
        self._unopened: tuple[int, float] = (0, 0.0)  # a state that could not be opened, and the time

    @contextmanager
    def serving(self) -> Iterator[Serving]:
        """The engine for one question. EngineUnavailable if there is none."""
        self.refresh()
        with self._lock:
            serving = self._serving
            if serving is None:
                if self._failure and self._loader is None:
                    raise EngineUnavailable(
                        f"The deployed model could not be loaded: {self._failure}",
                        retry_after_s=round(RETRY_FAILED_AFTER_S),
                    )
                if (share := share_counted()) is not None:
                    raise EngineUnavailable(_counting(share), retry_after_s=60)
                raise EngineUnavailable("The model is being loaded.")
            serving.users += 1
        try:
            yield serving
        finally:
            with self._lock:
                serving.users -= 1
                if serving.retired and serving.users == 0:
                    serving.unused.set()

    def refresh(self, *, wait: bool = False) -> None:
        """Query the active deployment and start loading it if it is not the loaded one.

        wait: return only after the loading has ended. EngineUnavailable if nothing is deployed.
        """
        active = Deployment.active_keys()
        if active is None:
            raise EngineUnavailable(
                "Nothing is deployed yet: no model and index have been activated.", retry_after_s=30
            )
        active_id, _, state_pk = active
        with self._lock:
            recently_failed = self._failed_id == active_id and time.monotonic() - self._failed_at < RETRY_FAILED_AFTER_S
            serves = self._serving is not None and self._serving.deployment.pk == active_id
            needed = not serves and not recently_failed and self._loader is None
            alone = self._serving is None
            if serves:
                self._failed_id, self._failure = None, ""
        if needed:
            # The rows are read here, so the loading thread needs no database connection.
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
        """Switch to a newer corpus state. One that cannot be opened is retried periodically."""
        if (serving := self._serving) is None or serving.deployment.pk != deployment_id or serving.state_pk >= state_pk:
            return
        with self._opening:
            if serving.state_pk >= state_pk:  # another thread has opened it, or a newer one
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

    @property
    def model(self) -> ModelVersion | None:
        """The model that answers; None before one does."""
        serving = self._serving
        return None if serving is None else serving.deployment.model

    def follow(self) -> None:
        """Query the active deployment if something is loaded. Raises as `refresh` does."""
        if self._serving is not None:
            self.refresh()

    def status(self) -> Status:
        """The state; starts loading if nothing is loaded yet."""
        try:
            self.refresh()
        except EngineUnavailable as unavailable:
            return Status("nothing deployed", None, str(unavailable))
        return self.standing()

    def standing(self) -> Status:
        """The state without a database query; starts nothing."""
        with self._lock:
            if self._serving is not None:
                # If a new pair cannot be loaded, a server with an earlier one is still ready.
                return Status("ready", self._serving.deployment.pk, self._failure)
            if self._failure and self._loader is None:
                return Status("failed", self._failed_id, self._failure)
            if self._loader is None:
                return Status("idle", None, "There has been no question yet.")
            share = share_counted()
            return Status("loading", None, "The model is being loaded." if share is None else _counting(share))

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
        """Load `deployment`, or otherwise, until it can be loaded, the first of `earlier` that can."""
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
        """Load it and put it into service; returns why not. After any error the process continues with what it has."""
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
        old = self._exchange(Serving(deployment, engine, state_pk=0 if state is None else state.pk))
        metrics.SWAPS.observe(time.monotonic() - loaded_at)
        log.info(
            "Deployment %s answers: %.1f s to load and warm up, %.1f ms to switch",
            *(deployment.pk, loaded_at - started_at, (time.monotonic() - loaded_at) * 1e3),
        )
        self._retire(old)
        return None

    def _exchange(self, new: Serving | None) -> Serving | None:
        """Replace the serving engine by `new`, between two questions; returns the old one, to be retired."""
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
        """Close the old engine, and release its memory, after its last question."""
        if old is not None:
            old.unused.wait()
            old.engine.close()
            log.info("Deployment %s was unloaded from this process", old.deployment.pk)


def _counting(share: float) -> str:
    return f"The words of the corpus are being counted, once: {share:.0%} are done."


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
    """The engine in service, for one question. EngineUnavailable if there is none.

    While it waits for the engine, a question returns its pooled database connection.
    """
    with holder().serving() as engine_in_service:
        if connection.settings_dict["OPTIONS"].get("pool") and not connection.in_atomic_block:
            connection.close()
        yield engine_in_service


def watch(report: Callable[[Status], None]) -> None:
    """Follow the active deployment also without questions: an idle process must not answer its next question with a
    retired deployment. Called once, in a server's process; it does not load anything before the first question, and the
    block embedder for edits only when the engine answers.
    report: called each time with the current state."""
    threading.Thread(target=_watch, args=(report,), name="watch-deployment", daemon=True).start()


def _watch(report: Callable[[Status], None]) -> None:
    while True:
        time.sleep(LOOK_EVERY_S)
        with _database_errors_logged():
            close_old_connections()
            holder().follow()
            if (model := holder().model) is not None:
                load_ahead(model)
        with _database_errors_logged():
            report(holder().standing())


@contextmanager
def _database_errors_logged() -> Iterator[None]:
    try:
        yield
    except (Error, EngineUnavailable) as error:  # InterfaceError is no DatabaseError
        log.debug("The active deployment cannot be queried: %s", error)
