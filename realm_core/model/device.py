"""Where to compute and in what precision."""

from __future__ import annotations

import os
from contextlib import suppress

import torch

from realm_core.errors import RealmError

# oneDNN keeps what it has compiled for each shape of a product, half a megabyte each, the last 1,024. `inference.py`
# asks for few shapes; trainings, whose batches have a shape of their own each, would find next to nothing again. It
# looks at this when it first computes.
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "256")


def pick_device(name: str = "auto") -> torch.device:
    """`auto` is the first GPU where there is one, else the CPU; otherwise what torch calls it (cpu, cuda, cuda:1)."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    device = None
    with suppress(RuntimeError):
        device = torch.device(name)
    if device is None or device.type not in ("cpu", "cuda"):
        raise RealmError(f"device must be auto, cpu, cuda or cuda:N, not {name!r}.")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise RealmError(f"There is no GPU here that torch can use, so device {name!r} cannot be had; try cpu.")
    return device


def fast_dtype(device: torch.device) -> torch.dtype:
    """bfloat16 where the device multiplies it in hardware, else float32."""
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float32
    capable = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return torch.bfloat16 if capable else torch.float32
