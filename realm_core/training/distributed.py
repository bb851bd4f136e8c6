"""Synchronous data parallelism under torchrun: every process computes a share of a batch, DDP averages the gradients.

Without torchrun there is one process and no communication. gloo on CPUs, NCCL on GPUs.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

# All wait while one process tokenises the corpus or builds an index, which may take hours (torch's own timeout is ten
# to thirty minutes). torchrun notices a process that has died.
_TIMEOUT = timedelta(days=1)
T = TypeVar("T")


def leads() -> bool:
    """Whether this process will be the one that writes and reports; known before the process group exists."""
    return int(os.environ.get("WORLD_SIZE", "1")) == 1 or os.environ.get("RANK") == "0"


@dataclass(frozen=True)
class World:
    """rank: number of this process, from 0; size: how many there are."""

    rank: int = 0
    size: int = 1

    @classmethod
    def join(cls, device: torch.device) -> World:
        """Join the other processes, if torchrun started any."""
        if int(os.environ.get("WORLD_SIZE", "1")) == 1:
            return cls()
        if not dist.is_initialized():
            dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=_TIMEOUT)
            # Its threads must end before the interpreter does, or the process sometimes aborts after its work is done.
            atexit.register(_leave)
        return cls(dist.get_rank(), dist.get_world_size())

    @property
    def leads(self) -> bool:
        """Whether this is the process that writes and reports."""
        return self.rank == 0

    def share(self, count: int) -> slice:
        """Which of `count` examples this process computes; the shares are of nearly equal size."""
        return slice(self.rank * count // self.size, (self.rank + 1) * count // self.size)

    def weight(self, part: int, batch: int) -> float:
        """The weight of the mean loss of a process's part, such that the processes' mean is the batch's mean.

        part, batch: the number of terms in the part's loss, and in the batch's over all processes.
        """
        return part * self.size / batch

    def replicate(self, step: nn.Module) -> nn.Module:
        """The computation of a step, whose gradients become their mean over the processes (see `averaged`).

        All parameters that require a gradient must take part in every loss.
        """
        if self.size == 1:
            return step
        return DistributedDataParallel(step, forward_sync_buffers=False, gradient_as_bucket_view=True)

    def averaged(self, step: nn.Module, parts: Iterable[T]) -> Iterator[T]:
        """The parts of a step, one at least, to be given to what `replicate` returned.

        Gradients add up, and are averaged while those of the last part are computed.
        """
        if not isinstance(step, DistributedDataParallel):
            yield from parts
            return
        *earlier, last = parts
        with step.no_sync():
            yield from earlier
        yield last

    def gather(self, own_ND: Tensor, counts: Sequence[int]) -> Tensor:
        """The rows of all processes, by rank; counts: how many each has. Gradients return to the row's process."""
        if self.size == 1:
            return own_ND
        gathered: Tensor = _Gather.apply(own_ND, counts, self.rank)  # type: ignore[no-untyped-call]
        return gathered

    def sum(self, values: dict[str, float], device: torch.device) -> dict[str, float]:
        """The sum of each figure over the processes; a figure that a process does not have counts as zero."""
        if self.size == 1:
            return values
        names = self._names_of_all(values, device)
        if not names:
            return {}
        flat = torch.tensor([values.get(name, 0.0) for name in names], dtype=torch.float64).to(device)
        dist.all_reduce(flat)
        return dict(zip(names, flat.tolist(), strict=True))

    def _names_of_all(self, names: Iterable[str], device: torch.device) -> list[str]:
        """Names that any process has, in the same order everywhere, so that all sum vectors of one length."""
        own = torch.tensor(list(" ".join(names).encode()), dtype=torch.uint8, device=device)
        lengths = torch.zeros(self.size, dtype=torch.long, device=device)
        lengths[self.rank] = len(own)
        dist.all_reduce(lengths)
        if not lengths.any():
            return []
        texts = torch.zeros(self.size, int(lengths.max()), dtype=torch.uint8, device=device)
        texts[self.rank, : len(own)] = own
        dist.all_reduce(texts)
        said = [bytes(text[:length].tolist()) for text, length in zip(texts.cpu(), lengths.tolist(), strict=True)]
        return sorted({name for text in said for name in text.decode().split()})

    def any(self, flag: bool, device: torch.device) -> bool:
        if self.size == 1:
            return flag
        answer: Tensor = torch.tensor(int(flag), device=device)
        dist.all_reduce(answer, dist.ReduceOp.MAX)
        return bool(answer.item())

    def agrees(self, number: int, device: torch.device) -> bool:
        if self.size == 1:
            return True
        extremes = torch.tensor([number, -number], device=device)
        dist.all_reduce(extremes, dist.ReduceOp.MAX)
        greatest, least = extremes.tolist()
        return bool(greatest == -least)

    def wait(self) -> None:
        if self.size > 1:
            dist.barrier()


class _Gather(torch.autograd.Function):
    """All processes' rows; the gradient of a row is the sum of its gradients in all processes."""

    @staticmethod
    def forward(ctx: Any, own_ND: Tensor, counts: Sequence[int], rank: int) -> Tensor:
        """The rows [sum of counts, D]."""
        first = sum(counts[:rank])
        ctx.own = slice(first, first + counts[rank])
        padded = own_ND.new_zeros(max(counts), own_ND.shape[1])  # only tensors of equal size can be gathered
        padded[: len(own_ND)] = own_ND
        parts = [torch.empty_like(padded) for _ in counts]
        dist.all_gather(parts, padded)
        return torch.cat([part[:count] for part, count in zip(parts, counts, strict=True)])

    @staticmethod
    def backward(ctx: Any, gradient_ND: Tensor) -> tuple[Tensor, None, None]:
        """The gradient of this process's rows."""
        gradient_ND = gradient_ND.contiguous()
        dist.all_reduce(gradient_ND)
        return gradient_ND[ctx.own], None, None


def _leave() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()


def places(device: torch.device) -> list[torch.device]:
    """The devices of the processes on this machine, by local rank: under torchrun each has a GPU of its own."""
    processes = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    if device.type == "cuda" and device.index is None:
        return [torch.device("cuda", rank) for rank in range(processes)]
    return [device] * processes


def place(device: torch.device) -> torch.device:
    """The device of this process."""
    return places(device)[int(os.environ.get("LOCAL_RANK", "0"))]
