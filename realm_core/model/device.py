"""Choice of device and precision; memory of the device and the process."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress

import torch

from realm_core.errors import RealmError

# oneDNN caches a compiled kernel per shape, half a megabyte each, 1,024 by default. `inference.py` uses few shapes, and
# training batches rarely repeat one. oneDNN reads this variable at its first computation.
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "256")


def pick_device(name: str = "auto") -> torch.device:
    """`auto` is the first GPU if there is one, else the CPU; other names are torch's (cpu, cuda, cuda:1)."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    device = None
    with suppress(RuntimeError):
        device = torch.device(name)
    if device is None or device.type not in ("cpu", "cuda"):
        raise RealmError(f"device must be auto, cpu, cuda or cuda:N, not {name!r}.")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise RealmError(f"The device {name!r} is not available: torch finds no GPU; try cpu.")
    return device


def fast_dtype(device: torch.device) -> torch.dtype:
    """bfloat16 if the device supports it in hardware, else float32."""
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float32
    capable = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return torch.bfloat16 if capable else torch.float32


def free_bytes(device: torch.device) -> int:
    """The free memory of a GPU; 0 for the CPU."""
    return torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else 0


def release_memory() -> None:
    """Release to the system what the process and the GPU keep after large objects were freed.

    glibc keeps freed memory: loading one model beside another fragments the heap with holes of whole layers, which
    malloc_trim returns. Without glibc nothing is done for the process.

    Reference counting frees an engine; a garbage collection would stop all threads for 50 ms.
    """
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
