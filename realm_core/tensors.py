"""Tensors on disk: safetensors, never pickle."""

from __future__ import annotations

import os
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from realm_core.errors import RealmError
from realm_core.files import replaced

_PIECE = 1 << 20  # values, which take some milliseconds to copy


def save_tensors(path: Path, tensors: dict[str, Tensor]) -> None:
    """Write `tensors` to `path`, completely or not at all."""
    with replaced(path) as temporary:
        save_file(tensors, temporary)
        # safetensors creates files that only their owner can read; worker and web server may be two users.
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)


def load_tensors(path: Path) -> dict[str, Tensor]:
    """All tensors of `path`, on the CPU; `RealmError` names a file that is missing or damaged."""
    try:
        return load_file(path)
    except FileNotFoundError:
        raise RealmError(f"{path} does not exist.") from None
    except (SafetensorError, OSError, ValueError, TypeError, KeyError, RuntimeError) as error:
        # safetensors validates the header, torch its dtypes and shapes.
        raise RealmError(f"{path} cannot be read: {str(error).rstrip('.')}.") from None


def fill(into: Tensor, values: Tensor) -> None:
    """Copy `values` into a contiguous tensor of the same shape, with any dtype and device.

    In parts, between which the work may rest (`pace`).
    """
    for piece, own in zip(into.view(-1).split(_PIECE), values.reshape(-1).split(_PIECE), strict=True):
        piece.copy_(own)


def copied(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """A contiguous copy, made in parts; a tensor from a memory-mapped file becomes independent of it."""
    copy = torch.empty(tensor.shape, dtype=dtype, device=tensor.device)
    fill(copy, tensor)
    return copy
