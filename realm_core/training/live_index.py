"""The index that a trainer retrieves from while its parameters change, and how it is replaced.

    trainer   writes snapshots/step-N/ (a model folder) every `refresh_every` steps
    builder   another process (`refresh.py`): newest snapshot → generations/step-N/
    trainer   changes to the newest complete generation, between two steps, without waiting for it

Both folders are changed only by renames, so either process may be killed at any time and started again. A trainer that
resumes from a checkpoint may return to a step before a snapshot that a builder is still reading: snapshots/known.json
has a random id for each snapshot of this run's parameters, and a generation of another id is neither published nor
used.

`FixedIndex` and `InLoopRefresh` are the two extremes: an index that is never replaced, and one that is rebuilt while
training waits (deterministic: for tests and small corpora).

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
from realm_core.training.config import PretrainConfig
from realm_core.training.stage import Stage
from realm_core.training.threads import TrainerThreads

KNOWN = "known.json"
_BEGAN = "began.json"  # when the trainer had the parameters of the first index, in seconds since the epoch
_POLL_S = 0.2
_LONGEST_PAUSE_S = 10.0  # between two attempts to load an index; each pause is twice as long as the one before
Build = Callable[[Path, Path, int], object]


class LiveIndex:
    """One generation on the trainer's device. step: of the parameters that it was made with; parameters_at: when the
    trainer had these (seconds since the epoch)."""

    def __init__(self, generation: Generation, step: int, parameters_at: float, device: torch.device) -> None:
        self.generation, self.step, self.parameters_at = generation.name, step, parameters_at
        self._search = ExactSearch(generation.vectors_ND, device)
        self.blocks = generation.vectors_ND.shape[0]

    def search(self, queries_BD: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Rows and (stale) scores of the k best blocks, highest first."""
        return self._search.search(queries_BD, k)


def step_name(step: int) -> str:
    """The folder of what was made at a step; sorting the names sorts the steps."""
    return f"step-{step:09d}"


def newest_step(folder: Path) -> int | None:
    """The last step for which `folder` holds something complete."""
    steps = [int(path.name[5:]) for path in folder.glob("step-*") if path.name[5:].isdecimal()]
    return max(steps, default=None)


def known_snapshots(snapshots: Path) -> dict[str, str]:
    """The ids of this run's snapshots by name, including those that newer ones have replaced."""
    known = read_json(snapshots / KNOWN) if (snapshots / KNOWN).exists() else {}
    if not isinstance(known, dict):
        raise RealmError(f"{snapshots / KNOWN} does not hold the ids of snapshots.")
    return known


def forget_after(folder: Path, step: int) -> None:
    """Remove snapshots and generations of later steps than `step`: a run that resumes there makes them again.

    What a killed run made after its last checkpoint belongs to parameters that are lost, or even to another model. The
    ids are removed first, because a builder may publish at any time.
    """
    if (folder / "snapshots").exists():
        ids = {name: one for name, one in known_snapshots(folder / "snapshots").items() if name <= step_name(step)}
        write_json(folder / "snapshots" / KNOWN, ids)
    if step == 0:  # the run starts from the beginning
        (folder / "snapshots" / _BEGAN).unlink(missing_ok=True)
    for path in [*folder.glob("snapshots/step-*"), *folder.glob("generations/step-*")]:
        if path.name > step_name(step):
            remove_folder(path)


class IndexRefresh(ABC):
    """Holds a trainer's index: `before(step)` returns the one to use in this step.

    first: the generation to start with. stage: in its run folder are snapshots/ and generations/.
    """

    def __init__(self, model: Model, first: Generation, config: PretrainConfig, stage: Stage) -> None:
        self._model, self._every, self._device, self._world = model, config.refresh_every, stage.device, stage.world
        self._snapshots, self._generations = stage.run / "snapshots", stage.run / "generations"
        for place in (self._snapshots, self._generations):
            place.mkdir(parents=True, exist_ok=True)
        self._index = LiveIndex(first, 0, self._began_at(), stage.device)

    @abstractmethod
    def before(self, step: int) -> LiveIndex:
        """The index for a step."""

    def close(self) -> None:  # noqa: B027 — most have nothing to close
        """Release what the index uses."""

    def _began_at(self) -> float:
        """When this run started, however often it was killed since."""
        path = self._snapshots / _BEGAN
        if self._world.leads and not path.exists():
            write_json(path, time.time())
        return float(read_json(path)) if path.exists() else time.time()

    def _write_snapshot(self, step: int) -> Path:
        """Publish the parameters for a builder; older ones are removed, because only the newest are built from."""
        folder = self._snapshots / step_name(step)
        if not folder.exists():
            snapshot_id = uuid.uuid4().hex
            write_json(self._snapshots / KNOWN, known_snapshots(self._snapshots) | {folder.name: snapshot_id})
            with self._keep_random_state():
                save_model(dataclasses.replace(self._model, encoder=None), folder, about={"snapshot": snapshot_id})
        for path in self._snapshots.glob("step-*"):
            if path.name < folder.name:
                remove_folder(path)
        return folder

    def _keep_random_state(self) -> AbstractContextManager[None]:
        """Keep the trainer's random numbers: creating a model draws some, and dropout must not depend on that."""
        return torch.random.fork_rng([self._device] if self._device.type == "cuda" else [])

    def _open(self, step: int) -> LiveIndex:
        generation = Generation.open(self._generations / step_name(step))
        return LiveIndex(generation, step, generation.manifest["parameters_at"], self._device)

    def _remove_generations_before(self, step: int) -> None:
        for path in self._generations.glob("step-*"):
            if path.name < step_name(step):
                remove_folder(path)


class FixedIndex(IndexRefresh):
    """The first index, never replaced."""

    def before(self, step: int) -> LiveIndex:
        return self._index


class InLoopRefresh(IndexRefresh):
    """Rebuilt every `every` steps while training waits.

    A resumed run loads the generation of its last refresh from the disk, so its results are bitwise the same.
    build(model folder, generations folder, step): publishes the generation of a step.
    """

    def __init__(self, model: Model, first: Generation, config: PretrainConfig, stage: Stage, build: Build) -> None:
        super().__init__(model, first, config, stage)
        self._build, self._back = build, config.checkpoint_every  # so many steps a killed run can lose at most

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
                with self._keep_random_state():
                    self._build(self._write_snapshot(step), self._generations, step)
        self._world.wait()
        self._index = self._open(due)
        self._world.wait()
        oldest = max(0, step - self._back)
        self._remove_generations_before(oldest - oldest % self._every)
        return self._index


class BackgroundRefresh(IndexRefresh):
    """Built by another process; a thread loads what that publishes, so that training never waits."""

    def __init__(self, model: Model, first: Generation, config: PretrainConfig, stage: Stage) -> None:
        super().__init__(model, first, config, stage)
        self._activity = stage.activity
        self._threads = TrainerThreads(self._generations, stage.device)
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

    def _belongs_to_this_run(self, step: int) -> bool:
        manifest = read_manifest(self._generations / step_name(step))
        return bool(manifest.get("snapshot") == known_snapshots(self._snapshots).get(step_name(step)))

    def _watch(self) -> None:
        seen, reported, pause_s = 0, (0, object), _POLL_S
        while not self._closed.wait(pause_s):
            newest = newest_step(self._generations)
            if newest is None or newest <= seen:
                continue
            try:
                if not self._belongs_to_this_run(newest):  # it belongs to parameters that a killed run has lost
                    if self._world.leads:
                        remove_folder(self._generations / step_name(newest))
                    continue
                self._arrived = self._open(newest)
            except Exception as error:  # training continues; for one, a device has no room for two indexes
                if newest_step(self._generations) != newest:
                    continue  # another process of the training removed it for a newer one
                if (newest, type(error)) != reported:  # not the text, in which numbers of bytes may change
                    self._activity.warn(
                        f"The index of step {newest:,} cannot be loaded: {str(error).rstrip('.')}. Training continues "
                        "with the previous one, and tries again."
                    )
                reported, pause_s = (newest, type(error)), min(2 * pause_s, _LONGEST_PAUSE_S)
                continue
            seen, pause_s = newest, _POLL_S
            if self._world.leads:
                self._remove_generations_before(newest)
