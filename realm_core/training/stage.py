"""What the trainings of a whole corpus share: the passages held out, the loop, batches made ahead."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from realm_core.errors import RealmError
from realm_core.files import remove_folder
from realm_core.model.checkpoint import Model, save_model
from realm_core.runs.activity import Activity
from realm_core.runs.locks import only_one
from realm_core.training.config import Schedule
from realm_core.training.distributed import World, leads
from realm_core.training.loop import Group, Loop

T = TypeVar("T")
MOST_HELD_OUT = 512
HELD_OUT_BY = "text"  # of an identity: checkpoints from when it was by place have learnt what is held out now


@contextmanager
def run_folder(output: Path, activity: Activity) -> Iterator[Path]:
    """Where checkpoints go: the run's folder, or one beside the model to be made, which must not be there yet.

    No other training works there meanwhile. Of the processes of one training the first speaks for all.
    """
    run = activity.run or output.with_name(f".{output.name}.run")
    _refuse_existing(output)
    if not leads():
        yield run
        return
    try:
        with only_one(run, activity):
            _refuse_existing(output)  # by whom we have waited for
            for left in run.glob(".*.json.*.tmp"):  # by one that was killed just then
                left.unlink(missing_ok=True)
            yield run
    finally:
        if not activity.run:
            with suppress(OSError):
                run.rmdir()  # unless something is kept there that can be gone on with


def _refuse_existing(output: Path) -> None:
    if output.exists():
        raise RealmError(f"{output} exists already; choose another name for the new model.")


def split_passages(hashes_N: NDArray[np.uint64], holdout: float) -> tuple[list[int], list[int]]:
    """(learnt, measured on), places in `hashes_N`, the text hashes of all passages.

    A passage is held out for what it says, so that of the same share no stage learns what another measures on, whatever
    its corpus, order or seed. Of many that are held out those with the smallest hashes are measured on.
    """
    held_N = hashes_N < np.uint64(int(holdout * 2**64))
    held = np.flatnonzero(held_N)
    measured = held[np.argsort(hashes_N[held], kind="stable")[:MOST_HELD_OUT]]
    return np.flatnonzero(~held_N).tolist(), np.sort(measured).tolist()


def check_batch(config: Schedule, world: World, each: int = 1) -> None:
    """Refuse a batch of which a process would have fewer than `each` examples."""
    least = each * world.size
    if config.batch < least:
        examples = "one example" if each == 1 else f"{each} examples"
        raise RealmError(f"batch must be at least {least}, {examples} a process, not {config.batch}.")


def even_parts(count: int, at_once: int) -> Iterator[slice]:
    """As few parts of `count` examples as can be, none larger than `at_once`, all as equal as can be."""
    parts = -(-count // at_once)
    for number in range(parts):
        yield slice(number * count // parts, (number + 1) * count // parts)


def stage_loop(
    name: str, groups: Sequence[Group], config: Schedule, identity: str, run: Path, activity: Activity, world: World
) -> Loop:
    """The loop of a schedule."""
    return Loop(
        name,
        groups,
        steps=config.steps,
        warmup=config.warmup,
        weight_decay=config.weight_decay,
        clip=config.clip,
        seed=config.seed,
        checkpoint_every=config.checkpoint_every,
        metrics_every=config.metrics_every,
        identity=identity,
        folder=run / name,
        activity=activity,
        world=world,
    )


def identity_of(*parts: object) -> str:
    """A short hash of what decides a step's batch."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def publish(
    model: Model,
    output: Path,
    recipe: str,
    measured: dict[str, float],
    run: Path,
    activity: Activity,
    *,
    left: Sequence[str],
) -> None:
    """Save what a training made, with one more line of its recipe, and remove what only resuming needed.

    left: names of such folders in `run`; where `run` was made for this training alone, all of it goes.
    """
    about = {"recipe": [*(model.about or {}).get("recipe", []), recipe], "held_out": measured}
    saved = save_model(model, output, about=about)
    activity.say(f"The model is {output}.")
    activity.result({"path": str(output), "model_hash": saved.hash, "held_out": measured})
    for folder in [run / name for name in left] if activity.run else [run]:
        remove_folder(folder)


class Ahead(Generic[T]):
    """Calls `make(step)` for the next step in another thread while the current one is worked on."""

    def __init__(self, make: Callable[[int], T]) -> None:
        self._make = make
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="batches")
        self._next: tuple[int, Future[T]] | None = None

    def __call__(self, step: int) -> T:
        """What `make(step)` returns."""
        known = self._next
        value = known[1].result() if known is not None and known[0] == step else self._make(step)
        self._next = (step + 1, self._thread.submit(self._make, step + 1))
        return value

    def close(self) -> None:
        """Stop making."""
        self._thread.shutdown(cancel_futures=True)
