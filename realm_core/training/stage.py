"""Shared by all trainings: run folder, devices, loop, published model, held-out passages, prefetched batches."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset

from realm_core.corpus.store import Snapshot
from realm_core.corpus.tokens import BlockTokens, open_tokens
from realm_core.errors import RealmError
from realm_core.files import refuse_existing, remove_folder
from realm_core.model.checkpoint import Model, save_model
from realm_core.model.device import pick_device
from realm_core.runs.activity import Activity
from realm_core.runs.locks import only_one
from realm_core.training.config import TrainingSettings
from realm_core.training.distributed import World, leads, place
from realm_core.training.identity import Identity
from realm_core.training.loop import Loop, LoopSettings, ParameterGroup

T = TypeVar("T")
MOST_HELD_OUT = 512
# Part of the identity: older checkpoints held passages out by row, and have learnt some of those held out now.
HELD_OUT_BY = "text"


@dataclass(frozen=True)
class Stage:
    """One training. name: of the folder of its checkpoints in `run`, prefix of its metrics. device: of this process."""

    name: str
    settings: LoopSettings
    output: Path
    run: Path
    activity: Activity
    device: torch.device
    world: World

    @property
    def reporting(self) -> Activity:
        """For what all processes do, and one reports."""
        return self.activity if self.world.leads else Activity(quiet=True)

    def tell_none_held_out(self, held_out: int, given: int, what: str, holdout: float) -> None:
        """Say that a share of so few came to none: a hash decides about each of them, so 3 % of 60 may be none."""
        if holdout and not held_out:
            self.reporting.say(
                f"None of the {given:,} {what} is held out, as a hash of each decides about it: nothing is measured "
                f"during the training. A share (holdout) above {holdout:g} may hold some out."
            )

    def open_tokens(self, snapshot: Snapshot) -> BlockTokens:
        """The wordpieces of a snapshot, which one process makes if they are missing."""
        if self.world.leads:
            open_tokens(snapshot, self.activity)
        self.world.wait()
        return open_tokens(snapshot, self.activity)

    def loop(
        self,
        groups: Sequence[ParameterGroup],
        identity: Identity,
        *,
        steps: int,
        reported: Callable[[dict[str, float]], dict[str, float]] = dict,
    ) -> Loop:
        told = self.settings, identity, self.run / self.name, self.activity, self.world
        return Loop(self.name, groups, *told, steps=steps, reported=reported)

    def publish(
        self,
        model: Model,
        recipe: str,
        measured: dict[str, float],
        *,
        left: Sequence[str] = (),
        **counted: Mapping[str, Any],
    ) -> None:
        """Save the trained model with one more line in its recipe, and remove what was kept for resuming.

        left: names of such folders in `run`, beside the checkpoints'; if `run` was made for this training alone, all of
        it is removed. counted: `questions` or `passages`, how many were learnt and held out, for the result.
        """
        if not self.world.leads:
            return
        about = {"recipe": [*(model.about or {}).get("recipe", []), recipe], "held_out": measured}
        saved = save_model(replace(model, config=model.config.uncalibrated()), self.output, about=about)
        self.activity.say(f"The model is {self.output}.")
        self.activity.result({"path": str(self.output), "model_hash": saved.hash, "held_out": measured, **counted})
        for folder in [self.run / name for name in (self.name, *left)] if self.activity.run else [self.run]:
            remove_folder(folder)


@contextmanager
def run_folder(output: Path, activity: Activity) -> Iterator[Path]:
    """The folder for checkpoints: the run's, or one beside the model to be made, which must not exist yet.

    No other training works there meanwhile. Of the processes of one training the first one takes the lock.
    """
    run = activity.run or output.with_name(f".{output.name}.run")
    refuse_existing(output)
    if not leads():
        yield run
        return
    try:
        with only_one(run, activity):
            refuse_existing(output)  # perhaps made by the process that held the lock
            for left in run.glob(".*.json.*.tmp"):  # left by a process that was killed while it wrote
                left.unlink(missing_ok=True)
            yield run
    finally:
        if not activity.run:
            with suppress(OSError):
                run.rmdir()  # unless it holds a checkpoint to resume from


def in_run_folder(train: Callable[[Any, Stage], None]) -> Callable[[Any, Activity], None]:
    """The `main` of a training: `train(task, stage)` in its `run_folder`, together with torchrun's other processes."""

    @wraps(train)
    def main(task: Any, activity: Activity) -> None:
        with run_folder(task.output, activity) as run:
            device = place(pick_device(task.device))
            world = World.join(device) if task.distributed else World()
            train(task, Stage(task.activity, task.settings, task.output, run, activity, device, world))

    return main


def split_passages(hashes_N: NDArray[np.uint64], holdout: float) -> tuple[list[int], list[int]]:
    """Split the passages into (to train on, to measure on), as indices into `hashes_N`, the hashes of their texts.

    The text alone decides whether a passage is held out: with the same share, no stage trains on what another measures
    on, whatever its corpus, order or seed. Those with the smallest hashes are measured on, at most `MOST_HELD_OUT`.
    """
    held_N = hashes_N < np.uint64(int(holdout * 2**64))
    held = np.flatnonzero(held_N)
    measured = held[np.argsort(hashes_N[held], kind="stable")[:MOST_HELD_OUT]]
    return np.flatnonzero(~held_N).tolist(), np.sort(measured).tolist()


def passage_counts(learnt: Collection[Any], held_out: Collection[Any]) -> dict[str, int]:
    """How many passages were learnt and held out, for the result."""
    return {"learnt": len(learnt), "held_out": len(held_out)}


def check_batch(config: TrainingSettings, world: World, each: int = 1) -> None:
    """Refuse a batch that gives a process fewer than `each` examples."""
    least = each * world.size
    if config.batch < least:
        examples = "one example" if each == 1 else f"{each} examples"
        raise RealmError(f"batch must be at least {least}, {examples} a process, not {config.batch}.")


def even_parts(count: int, at_once: int) -> Iterator[slice]:
    """Split `count` examples into as few parts of at most `at_once` as possible, of nearly equal size."""
    parts = -(-count // at_once)
    for number in range(parts):
        yield slice(number * count // parts, (number + 1) * count // parts)


def question_draw(question: str) -> float:
    """A number in [0, 1) that the question alone decides: it is held out if this is below the share `holdout`."""
    return int(hashlib.sha256(question.encode()).hexdigest()[:8], 16) / 2**32


class Prefetch(Generic[T]):
    """Calls `make(step)` for the next step while the current one is computed: in a second thread, or in `processes`.

    Processes are forked, so `make` can be any function; what it returns is pickled. They make several steps ahead.
    """

    def __init__(self, make: Callable[[int], T], *, processes: int = 0) -> None:
        self._make, self._processes = make, processes
        self._thread = None if processes else ThreadPoolExecutor(1, thread_name_prefix="batches")
        self._next: tuple[int, Future[T]] | None = None
        self._made: Iterator[T] | None = None

    def __call__(self, step: int) -> T:
        """What `make(step)` returns; with `processes`, of one step after another."""
        if self._thread is None:
            if self._made is None:
                self._made = self._from_processes(step)
            return next(self._made)
        known = self._next
        value = known[1].result() if known is not None and known[0] == step else self._make(step)
        self._next = (step + 1, self._thread.submit(self._make, step + 1))
        return value

    def _from_processes(self, first: int) -> Iterator[T]:
        """`make(first)`, `make(first + 1)`, … without end."""
        loader: DataLoader[T] = DataLoader(
            _Steps(self._make),
            sampler=itertools.count(first),
            batch_size=None,
            collate_fn=lambda made: made,
            num_workers=self._processes,
            prefetch_factor=4,
            multiprocessing_context="fork",
        )
        return iter(loader)

    def close(self) -> None:
        self._made = None
        if self._thread is not None:
            self._thread.shutdown(cancel_futures=True)


class _Steps(Dataset[T]):
    def __init__(self, make: Callable[[int], T]) -> None:
        self._make = make

    def __getitem__(self, step: int) -> T:
        return self._make(step)
