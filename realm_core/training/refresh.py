"""The builder of asynchronous refresh: `python -m realm_core refresh`, a process beside the trainer.

It builds a generation of the newest snapshot, again and again, on a device of its own if there is one. If it is killed
it is started again and resumes after its last finished shard; the trainer never waits for it.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from realm_core.command_line import argv
from realm_core.corpus.store import Snapshot
from realm_core.corpus.tokens import open_tokens
from realm_core.errors import RealmError
from realm_core.files import read_json, remove_folder
from realm_core.index.build import build
from realm_core.model.device import pick_device
from realm_core.runs.activity import Activity
from realm_core.runs.folder import Tail
from realm_core.runs.kept import KeptProcess
from realm_core.runs.launch import lower_priority
from realm_core.training.live_index import known_snapshots, newest_step, step_name
from realm_core.training.tasks import Refresh
from realm_core.training.threads import builder_threads, noted

_POLL_S = 0.2
_LONGEST_PAUSE_S = 10.0  # between two attempts; each pause is twice as long as the one before
_REASONS = ("error: ", "warning: ")  # how lines of a builder's log start that say why there is no new index
_NICENESS = 10  # of a builder on a CPU: answering and training come first


def main(arguments: Refresh, activity: Activity) -> None:
    """Build what the trainer requests, until stopped."""
    snapshots, generations = arguments.trainer_run / "snapshots", arguments.trainer_run / "generations"
    device = pick_device(arguments.device)
    if device.type == "cpu":
        torch.set_num_threads(builder_threads(torch.get_num_threads()))
        lower_priority(_NICENESS)
    open_tokens(Snapshot.verified(arguments.corpus), activity)
    if not snapshots.exists():
        activity.say(f"Waiting for a pre-training that runs with --run {arguments.trainer_run}.")
    try:
        with noted(generations, device):
            _build_requested(arguments, snapshots, generations, activity)
    finally:
        if not snapshots.exists():  # the training has removed its folders, perhaps during a build
            remove_folder(generations)


def _build_requested(arguments: Refresh, snapshots: Path, generations: Path, activity: Activity) -> None:
    pause_s, failed, reported = _POLL_S, 0, ""
    while True:
        activity.check()
        wanted = newest_step(snapshots)
        if wanted is None or wanted <= (newest_step(generations) or 0):
            time.sleep(_POLL_S)
            continue
        if wanted != failed:
            pause_s = _POLL_S
        try:
            build_generation(
                snapshots / step_name(wanted), arguments.corpus, generations, wanted, arguments.device, activity
            )
            reported = ""
        except SnapshotLost:
            time.sleep(_POLL_S)
        except (RealmError, OSError) as error:
            if not (snapshots / step_name(wanted)).exists():  # the trainer has a newer one
                continue
            if str(error) != reported:  # repeating the message could fill the disk
                activity.warn(f"{error} Trying again.")
            failed, reported = wanted, str(error)
            _pause(pause_s, activity)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


def _pause(seconds: float, activity: Activity) -> None:
    until = time.monotonic() + seconds
    while (left_s := until - time.monotonic()) > 0:
        activity.check()
        time.sleep(min(left_s, _POLL_S))


class SnapshotLost(RealmError):
    """A snapshot belongs to parameters that the trainer has lost."""


def build_generation(made: Path, corpus: Path, generations: Path, step: int, device: str, activity: Activity) -> Path:
    """Embed the corpus with the parameters of a step and publish the generation.

    `SnapshotLost` if the trainer has meanwhile resumed before that step and dropped the snapshot.
    """
    parameters_at = (made / "config.json").stat().st_mtime
    snapshot = read_json(made / "config.json").get("about", {}).get("snapshot")

    def check() -> None:
        if known_snapshots(made.parent).get(step_name(step)) != snapshot:
            raise SnapshotLost(f"The trainer no longer has the parameters of step {step}.")

    published = build(
        made,
        corpus,
        generations,
        activity,
        name=step_name(step),
        search="exact",
        device=device,
        tokens=open_tokens(Snapshot.verified(corpus), activity),
        about={"step": step, "parameters_at": parameters_at, "snapshot": snapshot},
        before_publishing=check,
    )
    for unfinished in generations.glob(".step-*.partial"):  # left by a builder that died; nothing resumes it
        if unfinished.name[1:] < step_name(step):
            remove_folder(unfinished)
    return published


def builder_device(name: str, taken: Sequence[torch.device], activity: Activity) -> torch.device:
    """The device of a builder. `auto`: the first GPU that no process of the training uses, or else a shared one.

    taken: the devices of the training's processes on this machine; the first one is shared if necessary.
    """
    if name != "auto":
        return pick_device(name)
    gpus = [torch.device("cuda", number) for number in range(torch.cuda.device_count())]
    if free := [gpu for gpu in gpus if gpu not in taken]:
        return free[0]
    activity.say(f"No GPU is free for the builder of the index: it computes on {taken[0]}, as the training does.")
    return taken[0]


class BuilderProcess:
    """A builder that lives as long as the `with` block; one that dies is started again.

    activity: the trainer's, whose log says why the index is not being renewed; the details are in builder.log.
    """

    def __init__(self, run: Path, corpus: Path, device: torch.device, activity: Activity) -> None:
        task = Refresh(trainer_run=run, corpus=corpus, device=str(device))
        command = [sys.executable, "-m", "realm_core", *argv(task), "--quiet", f"--with-parent={os.getpid()}"]
        # A builder does not belong to torchrun's process group.
        environment = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
        log = run / "builder.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.touch()
        self._builder = KeptProcess("builder", command, log, environment, longest_pause_s=_LONGEST_PAUSE_S)
        self._log = Tail(log, log.stat().st_size)  # earlier lines belong to an earlier run
        self._activity = activity
        self._last_reason = ""
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="builder keeper", daemon=True)

    def __enter__(self) -> BuilderProcess:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._thread.join()

    def _keep(self) -> None:
        while not self._closed.is_set():
            death = self._builder.look()
            new = [line.decode(errors="replace") for line in self._log.take() if line]
            lines = [line for line in new if death or line.startswith(_REASONS)]
            if death and not lines:
                lines = [f"its builder {death}."]
            self._report(*lines[-1:])
            self._closed.wait(_POLL_S)
        self._builder.ask_to_end()
        self._builder.end(time.monotonic())

    def _report(self, reason: str = "") -> None:
        """Log why there is no new index, but not the same reason twice in a row."""
        if reason and reason != self._last_reason:
            self._last_reason = reason
            told = next((reason.removeprefix(one) for one in _REASONS if reason.startswith(one)), reason)
            self._activity.say(f"The index is not being renewed: {told}")
