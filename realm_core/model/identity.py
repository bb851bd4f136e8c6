"""Hashes of a model folder, read and verified without torch."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from realm_core.errors import RealmError
from realm_core.files import checksum, read_json

WEIGHTS_FILE = "model.safetensors"
ADAPTER_FILE = "adapter.safetensors"


def read_hashes(folder: Path) -> tuple[str, str]:
    """(model hash, block hash) of a model folder; `RealmError` if it is not one."""
    path = folder / "config.json"
    record = read_json(path)
    try:
        return model_hash(record), str(record["block_hash"])
    except (AttributeError, KeyError, TypeError, RecursionError):
        raise RealmError(f"{path} does not describe a model.") from None


def verified_weights(folder: Path, record: dict[str, Any]) -> list[Path]:
    """A model's files of tensors: its weights, and its adapter if it has one.

    `RealmError` unless their checksums are those in config.json (`record`).
    """
    files = [(folder / WEIGHTS_FILE, record["weights_sha256"])]
    if "adapter_sha256" in record:
        files.append((folder / ADAPTER_FILE, record["adapter_sha256"]))
    for path, expected in files:
        if not path.exists():
            raise RealmError(f"{path} does not exist.")
        if checksum(path) != expected:
            raise RealmError(f"{path} is damaged: its checksum is not the one in config.json.")
    return [path for path, _ in files]


def model_hash(record: dict[str, Any]) -> str:
    """The hash of architecture and weights, from the content of config.json."""
    weights = [record[key] for key in ("weights_sha256", "adapter_sha256") if key in record or key == "weights_sha256"]
    identity = repr((sorted(record["model"].items()), *weights))
    return hashlib.sha256(identity.encode()).hexdigest()[:16]
