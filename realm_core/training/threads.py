"""How a trainer and the builder of its index share the threads of a CPU.

Two thread pools of as many threads as there are cores delay each other's barriers; the trainer then ran at a ninth of
its speed (docs/cost.md has the current figures). So each takes half of them where both compute on the CPU of one
machine. The builder, which may run anywhere, notes in the folder of generations where it computes, and the trainer
reads that.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import torch

from realm_core.errors import RealmError
from realm_core.files import write_json
from realm_core.runs.folder import read_object

_NOTE = "builder.json"


def builder_threads(threads: int) -> int:
    """Number of threads of a builder, out of those that a process may have on this CPU."""
    return max(1, threads // 2)


@contextmanager
def noted(generations: Path, device: torch.device) -> Iterator[None]:
    """Note where a builder computes while it does. A killed builder leaves its note to its successor."""
    with suppress(OSError, RealmError):  # such as a full disk: without the note the trainer is only slower
        generations.mkdir(parents=True, exist_ok=True)
        write_json(generations / _NOTE, _note(device))
    try:
        yield
    finally:
        (generations / _NOTE).unlink(missing_ok=True)


class TrainerThreads:
    """All threads of the trainer's process, or those that a builder on the same CPU leaves.

    generations: the folder that the builder publishes in. device: the trainer's.
    """

    def __init__(self, generations: Path, device: torch.device) -> None:
        self._generations, self._device = generations, device
        self._all = torch.get_num_threads()

    def adjust(self) -> None:
        """Release or take back threads when a builder has started or ended. Called by the computing thread."""
        if self._device.type != "cpu":
            return
        shared = read_object(self._generations / _NOTE) == _note(self._device)
        threads = max(1, self._all - builder_threads(self._all)) if shared else self._all
        if threads != torch.get_num_threads():
            torch.set_num_threads(threads)

    def restore(self) -> None:
        torch.set_num_threads(self._all)


def _note(device: torch.device) -> dict[str, str]:
    return {"machine": _machine(), "device": device.type}


def _machine() -> str:
    """An identifier of this machine, the same in all of its containers."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:  # a system other than Linux
        return socket.gethostname()
