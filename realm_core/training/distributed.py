"""Synchronous data parallelism under torchrun: every process takes its share of a batch, gradients are averaged.

Without torchrun there is one process and nothing is communicated. gloo on CPUs, NCCL on GPUs.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor


@dataclass(frozen=True)
class World:
    """rank: number of this process, from 0; size: how many there are."""

    rank: int = 0
    size: int = 1

    @classmethod
    def join(cls, device: torch.device) -> World:
        """Meet the other processes, if torchrun started any."""
        if int(os.environ.get("WORLD_SIZE", "1")) == 1:
            return cls()
        if not dist.is_initialized():
            dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
        return cls(dist.get_rank(), dist.get_world_size())

    @property
    def leads(self) -> bool:
        """Whether this is the process that writes and speaks."""
        return self.rank == 0

    def share(self, count: int) -> slice:
        """Which of `count` examples this process takes; the shares of all are as equal as can be."""
        return slice(self.rank * count // self.size, (self.rank + 1) * count // self.size)

    def weight(self, part: int, batch: int) -> float:
        """What the mean loss of a process's part of a batch counts, so that the processes' mean is the batch's mean.

        part, batch: how many examples (or whatever the loss is a mean of) there are in it, and over all processes.
        """
        return part * self.size / batch

    def average_gradients(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        """Put into each gradient the mean over the processes; one that is missing counts as zero."""
        if self.size == 1:
            return
        own = list(parameters)
        flat = torch.cat([(p.grad if p.grad is not None else torch.zeros_like(p)).reshape(-1) for p in own])
        dist.all_reduce(flat)
        flat /= self.size
        for parameter, part in zip(own, flat.split([p.numel() for p in own]), strict=True):
            parameter.grad = part.view_as(parameter).clone()

    def average(self, values: dict[str, float], device: torch.device) -> dict[str, float]:
        """The mean of each figure over the processes, which must all have the same figures."""
        if self.size == 1:
            return values
        flat = torch.tensor([values[name] for name in sorted(values)], dtype=torch.float32, device=device)
        dist.all_reduce(flat)
        return dict(zip(sorted(values), (flat / self.size).tolist(), strict=True))

    def any(self, flag: bool, device: torch.device) -> bool:
        """Whether the flag is set in any process."""
        if self.size == 1:
            return flag
        answer: Tensor = torch.tensor(int(flag), device=device)
        dist.all_reduce(answer, dist.ReduceOp.MAX)
        return bool(answer.item())

    def wait(self) -> None:
        """Until every process is here."""
        if self.size > 1:
            dist.barrier()


def place(device: torch.device) -> torch.device:
    """The device of this process: under torchrun each takes the GPU of its local rank."""
    if device.type == "cuda" and device.index is None and "LOCAL_RANK" in os.environ:
        return torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    return device
