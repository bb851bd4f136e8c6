"""The devices of this worker: their names, their load, and how a process is restricted to some of them.

REALM_DEVICES names them (cpu, cuda:0, cuda:1, … with commas between); without it nvidia-smi is queried, and without
that the processor is the only device. Numbers are nvidia-smi's. Workers in several containers of a machine have the
same devices: REALM_HOST tells them that they share it. Nothing here imports torch.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from functools import cache
from typing import Any

import psutil
from django.core.exceptions import ImproperlyConfigured

from webapp.environment import envlist
from webapp.models import DeviceLease, Job, Queue, Worker
from webapp.models.job_states import HELD
from webapp.models.process import host

CPU = "cpu"
_NAME = re.compile(r"cpu|cuda:\d+")
_SMI_TIMEOUT_S = 10
_FIELDS = ("index", "memory.used", "memory.total", "utilization.gpu")


@cache
def own() -> tuple[str, ...]:
    """The devices of this worker, at least one."""
    return named() or tuple(f"cuda:{index}" for index in _gpus()) or (CPU,)


def named() -> tuple[str, ...]:
    """The devices in REALM_DEVICES; ImproperlyConfigured for an invalid name."""
    names = envlist("REALM_DEVICES", [])
    for name in names:
        if not _NAME.fullmatch(name):
            raise ImproperlyConfigured(f"REALM_DEVICES must be cpu or cuda:N, with commas between, not {name!r}.")
    return tuple(dict.fromkeys(names))


def leased_as(device: str) -> str:
    """The name of a device among those of all machines."""
    return f"{host()}/{device}"


def device_of(lease: str) -> str:
    """The device that a lease names."""
    return lease.rpartition("/")[2]


def not_leased(names: Sequence[str]) -> list[str]:
    """The devices that no training holds."""
    taken = DeviceLease.held()
    return [name for name in names if leased_as(name) not in taken]


def free_elsewhere() -> bool:
    """Whether a worker of another host or of other devices could take a training, and has a free device."""
    taken = DeviceLease.held() | {leased_as(name) for name in own()}
    return any(
        f"{worker.host}/{device['name']}" not in taken
        for worker in Worker.objects.all()
        if worker.is_alive and Queue.TRAIN in worker.queues and _running(worker) < worker.slots
        for device in worker.devices
    )


def builds_indexes_here() -> bool:
    """Whether a worker of this host takes jobs that compute indexes."""
    return any(worker.is_alive and Queue.INDEX in worker.queues for worker in Worker.objects.filter(host=host()))


def _running(worker: Worker) -> int:
    return Job.objects.filter(state__in=HELD, lease_owner__startswith=f"{worker.name}:").count()


def environment(devices: Sequence[str]) -> dict[str, str]:
    """Environment variables that restrict a process to these devices, where it counts GPUs from 0."""
    numbers = [name.partition(":")[2] for name in devices if name != CPU]
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(numbers)}


def report() -> list[dict[str, Any]]:
    """For each device its name, kind, memory_used and memory_total (bytes), utilisation (0 to 1); None if unknown."""
    gpus = _gpus() if any(name != CPU for name in own()) else {}
    found = []
    for name in own():
        if name == CPU:
            found.append({"name": name, "kind": CPU, **_processor()})
        else:
            used, total, busy = gpus.get(int(name.partition(":")[2]), (None, None, None))
            found.append(
                {"name": name, "kind": "cuda", "memory_used": used, "memory_total": total, "utilisation": busy}
            )
    return found


def _gpus() -> dict[int, tuple[int | None, int | None, float | None]]:
    """Memory used and in total (bytes) and utilisation (0 to 1) of each GPU that nvidia-smi reports."""
    command = ["nvidia-smi", f"--query-gpu={','.join(_FIELDS)}", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=_SMI_TIMEOUT_S, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return {}
    return read_smi(answer)


def read_smi(answer: str) -> dict[int, tuple[int | None, int | None, float | None]]:
    """Parse nvidia-smi's output, one line per GPU: number, MiB used, MiB in total, percent. "[N/A]" is None.

    Other lines, such as warnings, are ignored.
    """
    gpus = {}
    for line in answer.splitlines():
        words = [_number(word) for word in line.split(",")]
        if len(words) != len(_FIELDS):
            continue
        index, used, total, busy = words
        if index is not None:
            gpus[index] = (
                None if used is None else used << 20,
                None if total is None else total << 20,
                None if busy is None else busy / 100,
            )
    return gpus


def _number(word: str) -> int | None:
    return int(word) if word.strip().isdecimal() else None


def _processor() -> dict[str, int | float | None]:
    """utilisation: of all cores, since the previous call in this process."""
    memory = psutil.virtual_memory()
    return {
        "memory_used": memory.total - memory.available,
        "memory_total": memory.total,
        "utilisation": psutil.cpu_percent(interval=None) / 100,
    }
