"""Hashes of a model folder, read and verified without torch."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from realm_core.errors import RealmError
from realm_core.files import checksum, read_json


def read_hashes(folder: Path) -> tuple[str, str]:
    """(model hash, block hash) of a model folder; `RealmError` if it is not one."""
    path = folder / "config.json"
    record = read_json(path)
    try:
        return model_hash(record), str(record["block_hash"])
    except (AttributeError, KeyError, TypeError, RecursionError):
        raise RealmError(f"{path} does not describe a model.") from None


def verified_weights(folder: Path, record: dict[str, Any]) -> Path:
    """The path of a model's weights; `RealmError` unless their checksum is the one in config.json (`record`)."""
    weights = folder / "model.safetensors"
    if not weights.exists():
        raise RealmError(f"{weights} does not exist.")
    if checksum(weights) != record["weights_sha256"]:
        raise RealmError(f"{weights} is damaged: its checksum is not the one in config.json.")
    return weights


def model_hash(record: dict[str, Any]) -> str:
    """The hash of architecture and weights, from the content of config.json."""
    identity = repr((sorted(record["model"].items()), record["weights_sha256"]))
    return hashlib.sha256(identity.encode()).hexdigest()[:16]
