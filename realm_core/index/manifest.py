"""The manifest of an index generation, read and verified without torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from realm_core.errors import RealmError
from realm_core.files import checksum, plain_name, read_json

FORMAT = 1
MANIFEST_FILE = "manifest.json"


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a generation; only its format is checked. `RealmError` if it is missing or of another format."""
    manifest = read_json(folder / MANIFEST_FILE)
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise RealmError(f"{folder / MANIFEST_FILE} is not an index of format {FORMAT}.")
    return manifest


def is_complete(folder: Path) -> bool:
    """Whether the manifest and all shards exist; checksums are not compared."""
    try:
        return all((folder / plain_name(shard["file"])).exists() for shard in read_manifest(folder)["shards"])
    except (RealmError, KeyError, TypeError, ValueError):
        return False


def verify(folder: Path) -> int:
    """Check every shard against its checksum in the manifest; returns the number of shards.

    `RealmError` names the first one that is missing or damaged.
    """
    manifest = read_manifest(folder)
    try:
        return len([verified_shard(folder, shard) for shard in manifest["shards"]])
    except (KeyError, TypeError, ValueError):
        raise RealmError(f"{folder / MANIFEST_FILE} does not list its files.") from None


def verified_shard(folder: Path, shard: dict[str, Any]) -> Path:
    """The file of a manifest entry; `RealmError` if it is missing or damaged."""
    path = folder / plain_name(shard["file"])
    if not path.exists():
        raise RealmError(f"{path} does not exist: the index is incomplete; build it again.")
    if checksum(path) != shard["sha256"]:
        raise RealmError(f"{path} is damaged: its checksum is not the manifest's; build the index again.")
    return path
