"""The manifest of an index generation, read and verified without torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from realm_core.errors import RealmError
from realm_core.files import checksum, plain_name, read_json

FORMAT = 1
MANIFEST_FILE = "manifest.json"
SHIPPED = "vectors"  # folder of a generation that may come with a model: vectors of one snapshot


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a generation; only its format is checked. `RealmError` if it is missing or of another format."""
    manifest = read_json(folder / MANIFEST_FILE)
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise RealmError(f"{folder / MANIFEST_FILE} is not an index of format {FORMAT}.")
    return manifest


def generation_manifest(
    name: str,
    snapshot_id: str,
    block_hash: str | None,
    model_hash: str | None,
    dimension: int,
    shards: Sequence[dict[str, Any]],
) -> dict[str, Any]:
    """The manifest of a new generation, without `search`."""
    return {
        "format": FORMAT,
        "generation": name,
        "snapshot_id": snapshot_id,
        "model_hash": model_hash,
        "block_hash": block_hash,
        "rows": shards[-1]["stop"] if shards else 0,
        "dim": dimension,
        "shards": shards,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def is_complete(folder: Path) -> bool:
    """Whether the manifest and all its files exist; checksums are not compared."""
    try:
        return all((folder / plain_name(file["file"])).exists() for file in _files(read_manifest(folder)))
    except (RealmError, KeyError, TypeError, ValueError, AttributeError):
        return False


def verify(folder: Path) -> int:
    """Check every file against its checksum in the manifest; returns the number of files.

    `RealmError` names the first one that is missing or damaged.
    """
    with _listing(folder):
        return len([verified_file(folder, file) for file in _files(read_manifest(folder))])


def checksums(folder: Path) -> dict[str, str]:
    """The SHA-256 of each file of a generation by its name, as the manifest has it; `RealmError` if it has none."""
    with _listing(folder):
        return {file["file"]: file["sha256"] for file in _files(read_manifest(folder))}


@contextmanager
def _listing(folder: Path) -> Iterator[None]:
    """`RealmError` where the manifest does not list its files as it should."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError):
        raise RealmError(f"{folder / MANIFEST_FILE} does not list its files.") from None


def _files(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    """The entries of all files: shards, and those of a stored approximate search."""
    return [*manifest["shards"], *(manifest.get("search") or {}).get("files", ())]


def verified_file(folder: Path, file: dict[str, Any]) -> Path:
    """The file of a manifest entry; `RealmError` if it is missing or damaged."""
    path = folder / plain_name(file["file"])
    if not path.exists():
        raise RealmError(f"{path} does not exist: the index is incomplete; build it again.")
    if checksum(path) != file["sha256"]:
        raise RealmError(f"{path} is damaged: its checksum is not the manifest's; build the index again.")
    return path
