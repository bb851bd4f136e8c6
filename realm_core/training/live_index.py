"""The index that a trainer retrieves from while its parameters move on, and how it is replaced.

    trainer   writes snapshots/step-N/ (a model folder) every `refresh_every` steps
    builder   another process (`refresh.py`): newest snapshot → generations/step-N/
    trainer   moves to the newest generation that is complete, between two steps, without waiting for it

Both folders change by renames alone, so either side may be killed at any instant and be started again. A trainer that
goes on from a checkpoint may go back behind a snapshot that a builder is still at: snapshots/known.json has a random id
for each snapshot of this run's parameters, and a generation of another id is neither published nor taken.

`Never` and `InLoop` are the schedule's two ends: an index that grows old, and one that is rebuilt while training waits
(deterministic: for tests and small corpora).

Legend: B queries, N blocks, D dimension, K results.
"""

from __future__ import annotations

import dataclasses
import threading
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import torch
from torch import Tensor

from realm_core.errors import RealmError
from realm_core.files import read_json, remove_folder, write_json
from realm_core.index.generation import Generation
from realm_core.index.manifest import read_manifest
from realm_core.index.search import ExactSearch
from realm_core.model.checkpoint import Model, save_model
from realm_core.runs.activity import Activity
from realm_core.training.distributed import World
from realm_core.training.threads import TrainerThreads

KNOWN = "known.json"
_BEGAN = "began.json"  # when the first index's parameters were the trainer's, in seconds since the epoch
_POLL_S = 0.2
_LONGEST_PAUSE_S = 10.0  # between two attempts to take an index, each of which waits twice as long as the one before


class LiveIndex:
    """One generation on the trainer's device. step: of the parameters it was made with; parameters_at: when they were
    those of the trainer (seconds since the epoch)."""

    def __init__(self, generation: Generation, step: int, parameters_at: float, device: torch.device) -> None:
        self.generation, self.step, self.parameters_at = generation.name, step, parameters_at
        self._search = ExactSearch(generation.vectors_ND, device)
        self.blocks = generation.vectors_ND.shape[0]

    def search(self, queries_BD: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Rows and (stale) scores of the k best blocks, highest first."""
        return self._search.search(queries_BD, k)


def step_name(step: int) -> str:
    """The folder of what was made at a step; names sort as steps do."""
    return f"step-{step:09d}"


def newest_step(folder: Path) -> int | None:
    """The last step of which `folder` holds something whole."""
    steps = [int(path.name[5:]) for path in folder.glob("step-*") if path.name[5:].isdecimal()]
    return max(steps, default=None)


def known_snapshots(snapshots: Path) -> dict[str, str]:
    """The ids of this run's snapshots by their names, also of those that were removed for newer ones."""
    known = read_json(snapshots / KNOWN) if (snapshots / KNOWN).exists() else {}
    if not isinstance(known, dict):
        raise RealmError(f"{snapshots / KNOWN} does not hold the ids of snapshots.")
    return known


def forget_after(folder: Path, step: int) -> None:
    """Remove snapshots and generations of later steps than `step`: a run that goes on there takes them anew.

    What a killed run made behind its last checkpoint is of parameters that are lost, or even of another model. The ids
    go first, because a builder may publish at any instant.
    """
    if (folder / "snapshots").exists():
        ids = {name: one for name, one in known_snapshots(folder / "snapshots").items() if name <= step_name(step)}
        write_json(folder / "snapshots" / KNOWN, ids)
    if step == 0:  # the run begins again
        (folder / "snapshots" / _BEGAN).unlink(missing_ok=True)
    for path in [*folder.glob("snapshots/step-*"), *folder.glob("generations/step-*")]:
        if path.name > step_name(step):
            remove_folder(path)


class Refreshing(ABC):
    """Keeps a trainer's index: `before(step)` returns the one to use in this step.

    first: the generation to begin with. folder: of snapshots/ and generations/. every: steps between snapshots.
    """

    def __init__(
        self, model: Model, first: Generation, folder: Path, every: int, device: torch.device, world: World
    ) -> None:
        self._model, self._every, self._device, self._world = model, every, device, world
        self._snapshots, self._generations = folder / "snapshots", folder / "generations"
        for place in (self._snapshots, self._generations):
            place.mkdir(parents=True, exist_ok=True)
        self._index = LiveIndex(first, 0, self._began_at(), device)

    @abstractmethod
    def before(self, step: int) -> LiveIndex:
        """The index for a step."""

    def close(self) -> None:  # noqa: B027 — most have nothing to end
        """Training is over."""

    def _began_at(self) -> float:
        """When this run began, however often it was killed."""
        path = self._snapshots / _BEGAN
        if self._world.leads and not path.exists():
            write_json(path, time.time())
        return float(read_json(path)) if path.exists() else time.time()

    def _write_snapshot(self, step: int) -> Path:
        """Publish the parameters for a builder; only the newest is ever built from, so older ones go."""
        folder = self._snapshots / step_name(step)
        if not folder.exists():
            own = uuid.uuid4().hex
            write_json(self._snapshots / KNOWN, known_snapshots(self._snapshots) | {folder.name: own})
            with self._own_draws():
                save_model(dataclasses.replace(self._model, encoder=None), folder, about={"snapshot": own})
        for path in self._snapshots.glob("step-*"):
            if path.name < folder.name:
                remove_folder(path)
        return folder

    def _own_draws(self) -> AbstractContextManager[None]:
        """Models begin with random numbers; the trainer's dropout shall not notice that some were drawn."""
        return torch.random.fork_rng([self._device] if self._device.type == "cuda" else [])

    def _open(self, step: int) -> LiveIndex:
        generation = Generation.open(self._generations / step_name(step))
        return LiveIndex(generation, step, generation.manifest["parameters_at"], self._device)

    def _remove_generations_before(self, step: int) -> None:
        for path in self._generations.glob("step-*"):
            if path.name < step_name(step):
                remove_folder(path)


class Never(Refreshing):
    """The index of the start, for ever."""

    def before(self, step: int) -> LiveIndex:
        return self._index


class InLoop(Refreshing):
    """Rebuilt every `every` steps while training waits.

    A run that is resumed finds the generation of its last refresh on the disk, so it is the same to the bit.
    build(model folder, generations folder, step): publishes the generation of a step. back: a run that is killed goes
    on at most this many steps before; the generations from there on are kept.
    """

    def __init__(
        self,
        model: Model,
        first: Generation,
        folder: Path,
        every: int,
        device: torch.device,
        world: World,
        build: Callable[[Path, Path, int], object],
        back: int,
    ) -> None:
        super().__init__(model, first, folder, every, device, world)
        self._build, self._back = build, back

    def before(self, step: int) -> LiveIndex:
        due = step - step % self._every
        if self._index.step == due:
            return self._index
        if not (self._generations / step_name(due)).exists():
            if step != due:
                raise RealmError(
                    f"{self._generations / step_name(due)} is gone; a run cannot be resumed without the index it used."
                )
            if self._world.leads:
                with self._own_draws():
                    self._build(self._write_snapshot(step), self._generations, step)
        self._world.wait()
        self._index = self._open(due)
        self._world.wait()
        oldest = max(0, step - self._back)
        self._remove_generations_before(oldest - oldest % self._every)
        return self._index


class HandedOver(Refreshing):
    """Built by another process; a thread loads what it publishes, so that training never waits."""

    def __init__(
        self,
        model: Model,
        first: Generation,
        folder: Path,
        every: int,
        device: torch.device,
        world: World,
        activity: Activity,
    ) -> None:
        super().__init__(model, first, folder, every, device, world)
        self._activity = activity
        self._threads = TrainerThreads(self._generations, device)
        self._arrived: LiveIndex | None = None
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="index watcher", daemon=True)
        self._thread.start()

    def before(self, step: int) -> LiveIndex:
        if self._world.leads and step and step % self._every == 0:
            self._write_snapshot(step)
        self._threads.adjust()
        if self._arrived is not None:
            self._index = self._arrived
        return self._index

    def close(self) -> None:
        self._closed.set()
        self._thread.join()
        self._threads.restore()

    def _is_ours(self, step: int) -> bool:
        manifest = read_manifest(self._generations / step_name(step))
        return bool(manifest.get("snapshot") == known_snapshots(self._snapshots).get(step_name(step)))

    def _watch(self) -> None:
        seen, said, pause_s = 0, (0, object), _POLL_S
        while not self._closed.wait(pause_s):
            newest = newest_step(self._generations)
            if newest is None or newest <= seen:
                continue
            try:
                if not self._is_ours(newest):  # of parameters that a killed run has lost
                    if self._world.leads:
                        remove_folder(self._generations / step_name(newest))
                    continue
                self._arrived = self._open(newest)
            except Exception as error:  # whatever it is (a device has no room for two), training goes on
                if newest_step(self._generations) != newest:
                    continue  # another trainer's process removed it for a newer one
                if (newest, type(error)) != said:  # the text may have changing numbers of bytes in it
                    self._activity.warn(
                        f"The index of step {newest:,} cannot be taken: {str(error).rstrip('.')}. Training goes on "
                        "with the one before, and tries again."
                    )
                said, pause_s = (newest, type(error)), min(2 * pause_s, _LONGEST_PAUSE_S)
                continue
            seen, pause_s = newest, _POLL_S
            if self._world.leads:
                self._remove_generations_before(newest)
