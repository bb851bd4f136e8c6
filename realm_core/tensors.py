"""Tensors on disk: safetensors, never pickle."""

from __future__ import annotations

import os
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from realm_core.errors import RealmError
from realm_core.files import disk_errors, sync


def save_tensors(path: Path, tensors: dict[str, Tensor]) -> None:
    """Write `tensors` to `path`, whole or not at all."""
    temporary = path.with_name(f".{path.name}.tmp")
    with disk_errors(path):
        save_file(tensors, temporary)
        # safetensors makes files that their owner alone can read; a worker and a web server may be two users.
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)
        sync(temporary)
        os.replace(temporary, path)


def load_tensors(path: Path) -> dict[str, Tensor]:
    """All tensors of `path`, on the CPU; `RealmError` names a file that is missing or damaged."""
    try:
        return load_file(path)
    except FileNotFoundError:
        raise RealmError(f"{path} does not exist.") from None
    except (SafetensorError, OSError, ValueError, TypeError, KeyError, RuntimeError) as error:
        # The header is checked by safetensors, what it says of dtypes and shapes by torch.
        raise RealmError(f"{path} cannot be read: {str(error).rstrip('.')}.") from None
