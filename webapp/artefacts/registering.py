"""Records folders on the disk. Every function may be repeated: a recorded artefact is found again by its hash (without
one, by its place), and a folder that was moved gets its new place."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from realm_core.errors import RealmError, printable
from realm_core.files import disk_errors, read_json, remove_folder
from realm_core.index.choice import search_of
from realm_core.index.manifest import SHIPPED, is_complete, read_manifest
from realm_core.model.identity import read_hashes
from realm_core.object_store import publish
from webapp.models import CorpusSnapshot, IndexGeneration, Job, ModelVersion, SpanSet
from webapp.storage.places import models_dir, portable, resolve


def record_corpus(folder: Path, *, job: Job | None = None) -> CorpusSnapshot:
    """Record the corpus snapshot in `folder`, made by `job`.

    If a job read the same articles as an existing corpus, under another name perhaps, that row does not change: edits
    above it are kept by its name.
    """
    manifest = _manifest(folder, "a corpus snapshot", {"snapshot_id", "name", "articles", "blocks"})
    known = CorpusSnapshot.objects.filter(snapshot_id=manifest["snapshot_id"]).first()
    if known is not None and job is not None and (resolve(known.path) / "manifest.json").exists():
        return known
    snapshot, _ = CorpusSnapshot.every.update_or_create(
        snapshot_id=manifest["snapshot_id"],
        defaults={"path": portable(folder), "removed_at": None},
        create_defaults={
            "path": portable(folder),
            "name": manifest["name"],
            "source": manifest.get("source", ""),
            "language": manifest.get("language", ""),
            "articles": manifest["articles"],
            "dictionary_entries": _dictionary_entries(folder),
            "blocks": manifest["blocks"],
            "share": manifest.get("share", 1.0),
            "licence": manifest.get("licence", ""),
            "attribution": manifest.get("attribution", ""),
            "job": job,
        },
    )
    return snapshot


def _dictionary_entries(folder: Path) -> int:
    """How many articles of a snapshot are entries of the dictionary, by their addresses."""
    from realm_core.corpus.store import Snapshot  # imports pyarrow, which other processes do not need
    from realm_core.corpus.wordnet import ADDRESS

    with suppress(RealmError):  # that it is damaged is said where it is used
        return Snapshot.open(folder).count_from(ADDRESS)
    return 0


def record_model(
    folder: Path,
    *,
    name: str = "",
    parent: ModelVersion | None = None,
    corpus: CorpusSnapshot | None = None,
    job: Job | None = None,
) -> ModelVersion:
    """Record the model in `folder`; its name is `name` or the folder's, its version the start of its hash.

    parent, corpus, job: what it was trained from, on what, and by which job. If a job made the same weights as an
    existing model, that row does not change.
    """
    model_hash, block_hash = read_hashes(folder)
    known = ModelVersion.every.filter(model_hash=model_hash).first()
    if known is not None and job is not None and (resolve(known.path) / "config.json").exists():
        return known
    card = folder / "README.md"
    text = printable(card.read_text(encoding="utf-8", errors="replace")) if card.exists() else ""
    model, _ = ModelVersion.every.update_or_create(
        model_hash=model_hash,
        defaults={"path": portable(folder), "card": text, "removed_at": None},
        create_defaults={
            "path": portable(folder),
            "card": text,
            "name": name or folder.resolve().name,
            "version": model_hash[:8],
            "block_hash": block_hash,
            "parent": parent,
            "corpus": corpus,
            "job": job,
        },
    )
    return model


def adopt_model(folder: Path) -> ModelVersion:
    """Record a shipped model, as a copy in the data folder, with vectors that its block embedder made for any model
    beside it.

    A newer release replaces the shipped folder; the copy remains, named after its hash, for a roll-back. If the model
    is the same and its vectors are of another corpus, they replace those of the copy.
    """
    model_hash, block_hash = read_hashes(folder)
    own = models_dir() / f"{folder.name}-{model_hash[:8]}"
    vectors = folder / SHIPPED if is_complete(folder / SHIPPED) else _vectors_beside(folder, block_hash)
    if not all((own / path.relative_to(folder)).exists() for path in folder.rglob("*")):
        remove_folder(own)
        with disk_errors(own):
            own.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=own.parent, prefix=".adopt-") as temporary:
                made = Path(shutil.copytree(folder, Path(temporary, own.name), copy_function=_link_or_copy))
                if vectors is not None and not (made / SHIPPED).exists():
                    shutil.copytree(vectors, made / SHIPPED, copy_function=_link_or_copy)
                publish(made, own)
    elif vectors is not None and not _is_copy(own / SHIPPED, vectors):
        with disk_errors(own), tempfile.TemporaryDirectory(dir=own, prefix=".vectors-") as temporary:
            made = Path(shutil.copytree(vectors, Path(temporary, "new"), copy_function=_link_or_copy))
            if (own / SHIPPED).exists():
                os.rename(own / SHIPPED, Path(temporary, "old"))
            os.rename(made, own / SHIPPED)
    return record_model(own, name=folder.name)


def _is_copy(vectors: Path, shipped: Path) -> bool:
    return is_complete(vectors) and read_manifest(vectors) == read_manifest(shipped)


def _vectors_beside(folder: Path, block_hash: str) -> Path | None:
    """Vectors that a model in the same folder as this one brings, if they are of the block embedder `block_hash`."""
    complete = (path for path in sorted(folder.parent.glob(f"[!.]*/{SHIPPED}")) if is_complete(path))
    return next((path for path in complete if read_manifest(path)["block_hash"] == block_hash), None)


def is_there(model: ModelVersion) -> bool:
    """Whether the folder of a model exists and holds this model, not another one in its place."""
    try:
        return read_hashes(resolve(model.path)) == (model.model_hash, model.block_hash)
    except RealmError:
        return False


def record_index(folder: Path, *, model: ModelVersion | None = None, job: Job | None = None) -> IndexGeneration:
    """Record the index generation in `folder`, built by `model` (default: found by the manifest's hash)."""
    needed = {"generation", "snapshot_id", "model_hash", "block_hash", "rows", "dim"}
    manifest = _manifest(folder, "an index generation", needed)
    corpus = CorpusSnapshot.objects.filter(snapshot_id=manifest["snapshot_id"]).first()
    if corpus is None:
        raise RealmError(f"{folder} indexes the corpus snapshot {manifest['snapshot_id']}, which is not recorded here.")
    if model is None:
        model = _model_of(manifest)
    if model is None:
        raise RealmError(f"{folder} was built by the model {manifest['model_hash']}, which is not recorded here.")
    index, _ = IndexGeneration.every.update_or_create(
        generation=manifest["generation"],
        defaults={"path": portable(folder), "removed_at": None},
        create_defaults={
            "path": portable(folder),
            "model": model,
            "corpus": corpus,
            "rows": manifest["rows"],
            "dim": manifest["dim"],
            "job": job,
        },
    )
    return index


def search_of_index(index: IndexGeneration) -> str:
    """How an index is searched and why, by its manifest; nothing where its files cannot be read."""
    with suppress(RealmError, KeyError, TypeError, ValueError):
        return search_of(read_manifest(resolve(index.path))).reason
    return ""


def record_spans(
    folder: Path, *, corpus: CorpusSnapshot, tagger: str, counts: Mapping[str, int], job: Job | None = None
) -> SpanSet:
    """Record the salient spans in `folder`. counts: `spans` and `blocks`, as `realm_core spans` gives them."""
    spans, _ = SpanSet.objects.get_or_create(
        path=portable(folder),
        defaults={
            "corpus": corpus,
            "tagger": tagger,
            "spans": counts["spans"],
            "blocks": counts["blocks"],
            "job": job,
        },
    )
    return spans


def _link_or_copy(source: str, target: str) -> str:
    """A hard link to a file; a copy if the file system or the owner does not allow that."""
    with suppress(OSError):
        os.link(source, target)
        return target
    return shutil.copy2(source, target)


def _model_of(manifest: dict[str, Any]) -> ModelVersion | None:
    """The model that an index names: by its own hash, or by its block embedder's."""
    return (
        ModelVersion.objects.filter(model_hash=manifest["model_hash"]).first()
        or ModelVersion.objects.filter(block_hash=manifest["block_hash"]).first()
    )


def _manifest(folder: Path, what: str, needed: set[str]) -> dict[str, Any]:
    manifest = read_json(folder / "manifest.json")
    if not isinstance(manifest, dict) or (missing := needed - manifest.keys()):
        lacking = f": it lacks {', '.join(sorted(missing))}" if isinstance(manifest, dict) else ""
        raise RealmError(f"{folder / 'manifest.json'} does not describe {what}{lacking}.")
    return manifest
