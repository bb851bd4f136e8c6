"""Builds an index: `python -m realm_core index`, in shards of contiguous rows, each independent and idempotent.

The build works in `.GENERATION.partial/` beside the final folder. Shards are written atomically, as are the pieces of
an unfinished one, so an interrupted build resumes after its last piece. A generation's default name is made of the
hashes of block embedder and snapshot, so that building the same pair twice gives one generation.

`--shard` builds a single shard; other processes, on other machines that share the folder or an object store
(`object_store.py`), may build other shards at the same time. They hold the generation's lock shared; the build that
publishes holds it exclusively.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from realm_core.corpus.store import Snapshot
from realm_core.corpus.tokens import BlockTokens, open_tokens
from realm_core.errors import RealmError
from realm_core.files import disk_errors, read_json, remove_folder, sha256_of_file, write_json
from realm_core.index.approximate_build import build_search, end_build
from realm_core.index.choice import SearchKind, search_of
from realm_core.index.embedding import embed, embed_rows
from realm_core.index.generation import read_vectors
from realm_core.index.manifest import MANIFEST_FILE, SHIPPED, generation_manifest, is_complete, read_manifest, verify
from realm_core.index.postings import keep_postings
from realm_core.index.tasks import SHARD_ROWS, Index
from realm_core.model.checkpoint import Model, load_model
from realm_core.model.device import pick_device
from realm_core.model.joiner import Joiner
from realm_core.object_store import forget, get_file, get_folder, is_published, is_shared, publish, put_file, put_folder
from realm_core.runs.activity import Activity
from realm_core.runs.locks import exclusive, shared
from realm_core.tensors import load_tensors, save_tensors
from realm_core.text.joins import join_block
from realm_core.text.wordpieces import Wordpieces

IDENTITY = "identity.json"  # in a partial folder: model, snapshot and shards
_CHUNK_ROWS = 512  # tokenised and sorted by length together; also the interval of progress and stop requests
_CHUNK_ROWS_GPU = 8192  # about a second on a GPU
_PIECE_ROWS = 8192  # kept together; some minutes of a processor
_Lock = Callable[[Path, str], AbstractContextManager[None]]


def main(task: Index, activity: Activity) -> None:
    """Build and publish; the result names the generation."""
    if task.shard is not None:
        rows = build_shard(task, activity)
        activity.say(f"Shard {task.shard} of {task.generation} is built ({rows:,} blocks).")
        activity.result({"generation": task.generation, "shard": task.shard, "rows": rows})
        return
    folder = build(
        task.model,
        task.corpus,
        task.output,
        activity,
        name=task.generation,
        shard_rows=task.shard_rows,
        search=task.search,
        device=task.device,
    )
    manifest = read_manifest(folder)
    activity.say(f"The index is {folder} ({manifest['rows']:,} blocks).")
    told = {name: manifest[name] for name in ("generation", "rows", "dim", "model_hash", "snapshot_id")}
    activity.result({**told, "path": str(folder), "search": search_of(manifest).reason})


def build(
    model_folder: Path,
    corpus_folder: Path,
    output: Path,
    activity: Activity,
    *,
    name: str | None = None,
    shard_rows: int = SHARD_ROWS,
    search: SearchKind = "auto",
    device: str = "auto",
    tokens: BlockTokens | None = None,
    about: Mapping[str, object] | None = None,
    before_publishing: Callable[[], None] | None = None,
) -> Path:
    """Build the generation of a model and a snapshot under `output`; returns its folder.

    search: how the vectors are to be searched, see `choice.py`. tokens: the snapshot's wordpieces, if loaded already.
    about: further fields of the manifest.
    before_publishing: called when everything is built; if it raises, nothing is published.
    An existing valid generation is returned at once; `RealmError` if it is of another model or corpus.
    """
    work = _GenerationBuild.of(model_folder, corpus_folder, output, name, shard_rows)
    get_folder(work.final, activity)
    with work.held(exclusive):
        if work.model.config.lexical_weight:  # now, rather than when a web server loads the index
            keep_postings(work.snapshot, activity)
        if work.final.exists():
            forget(work.partial)
            existing = _existing(work, activity, search)
            put_folder(existing)
            return existing
        if work.partial.exists() and not work.is_ours():
            remove_folder(work.partial)
        work.open(activity)
        place = pick_device(device)
        if tokens is None and place.type == "cuda":  # a GPU embeds faster than the tokenizer runs
            tokens = open_tokens(work.snapshot, activity)
        shards = _copied_shards(work, activity) or _build_shards(work, place, tokens, activity)
        dimension = work.model.config.dimension
        hashes = work.snapshot.snapshot_id, work.model.block_hash, work.model.hash
        manifest = generation_manifest(work.name, *hashes, dimension, shards)
        manifest["search"] = build_search(work.partial, shards, dimension, activity, wanted=search, device=place)
        write_json(work.partial / MANIFEST_FILE, manifest | dict(about or {}), sealed=True)
        if before_publishing is not None:
            before_publishing()
        (work.partial / IDENTITY).unlink()
        end_build(work.partial)
        for lock in work.partial.glob(".*.lock"):  # of shards; none is held, because the generation's lock is exclusive
            lock.unlink()
        publish(work.partial, work.final)
        forget(work.partial)
    return work.final


def build_shard(task: Index, activity: Activity) -> int:
    """Build the shard of a generation that a task names, which `build` publishes; returns its number of rows.

    Does nothing if the shard or the generation exists already.
    """
    assert task.shard is not None
    work = _GenerationBuild.of(task.model, task.corpus, task.output, task.generation, task.shard_rows)
    shards = work.shards()
    if not task.shard < len(shards):
        raise RealmError(f"The index {work.name} has the shards 0 to {len(shards) - 1}, not {task.shard}.")
    rows = shards[task.shard]
    with work.held(shared):
        if work.final.exists():
            _existing(work, activity)
        elif not is_published(work.final) and not _at_hand(work, everywhere=True):  # else the build copies the shards
            work.open(activity)
            with work.held(exclusive, shard=task.shard):
                place = pick_device(task.device)
                tokens = open_tokens(work.snapshot, activity) if place.type == "cuda" else None
                _ShardEmbedder(work, place, tokens).shard(task.shard, rows, activity, range(len(rows)))
    activity.progress(len(rows), len(rows), "blocks")
    return len(rows)


@dataclass(frozen=True)
class _GenerationBuild:
    """A generation that is being built, and its folders."""

    model: Model
    model_folder: Path
    snapshot: Snapshot
    output: Path
    name: str
    shard_rows: int

    @classmethod
    def of(
        cls, model_folder: Path, corpus_folder: Path, output: Path, name: str | None, shard_rows: int
    ) -> _GenerationBuild:
        if shard_rows < 1:
            raise RealmError(f"shard-rows must be at least 1, not {shard_rows}.")
        model, snapshot = load_model(model_folder), Snapshot.verified(corpus_folder)
        if len(snapshot) == 0:
            raise RealmError(f"{corpus_folder} contains no blocks; there is nothing to index.")
        name = name or f"{snapshot.snapshot_id}-{model.block_hash}"
        if not name or name.startswith(".") or "/" in name:
            raise RealmError(f"{name!r} cannot be a generation's name: it becomes a folder's name.")
        with disk_errors(output):
            output.mkdir(parents=True, exist_ok=True)
        return cls(model, model_folder, snapshot, output, name, shard_rows)

    @property
    def final(self) -> Path:
        return self.output / self.name

    @property
    def partial(self) -> Path:
        return self.output / f".{self.name}.partial"

    def shard_path(self, number: int) -> Path:
        return self.partial / f"vectors-{number:05d}.safetensors"

    def shards(self) -> list[range]:
        """The rows of each shard."""
        rows = len(self.snapshot)
        return [range(start, min(start + self.shard_rows, rows)) for start in range(0, rows, self.shard_rows)]

    def identity(self) -> dict[str, object]:
        """The identity file's content in a partial folder whose shards may be used."""
        return {
            "block_hash": self.model.block_hash,
            "snapshot_id": self.snapshot.snapshot_id,
            "shard_rows": self.shard_rows,
            "rows": len(self.snapshot),
        }

    def is_ours(self) -> bool:
        """Whether the partial folder belongs to this build."""
        known = self.partial / IDENTITY
        return bool(known.exists() and read_json(known) == self.identity())

    def open(self, activity: Activity) -> None:
        """Make the partial folder or resume in it; the rename makes it safe for several processes at once."""
        if not self.partial.exists():
            made = self.partial.with_name(f"{self.partial.name}.{uuid.uuid4().hex}")
            try:
                with disk_errors(made):
                    made.mkdir()
                    write_json(made / IDENTITY, self.identity())
                    os.rename(made, self.partial)
            except (OSError, RealmError):
                remove_folder(made)
                if not self.partial.exists():
                    raise
        elif self.is_ours():
            activity.say("Resuming an earlier build.")
        if not self.is_ours():
            raise RealmError(f"{self.partial} belongs to another model or corpus; choose another name, or remove it.")

    def held(self, lock: _Lock, *, shard: int | None = None) -> AbstractContextManager[None]:
        """The lock of the generation, or of one of its shards.

        The generation's lock file is never removed, because two processes could then lock two different files.
        """
        path = self.output / f".{self.name}.lock" if shard is None else self.partial / f".{shard:05d}.lock"
        what = "The index" if shard is None else f"Shard {shard} of"
        return lock(path, f"{what} {self.name} is being built by another process already.")


def _existing(work: _GenerationBuild, activity: Activity, search: SearchKind = "auto") -> Path:
    manifest = read_manifest(work.final)
    verify(work.final)
    if not _is_of(manifest, work):
        raise RealmError(f"{work.final} exists and belongs to another model or corpus; choose another name.")
    if search not in ("auto", kind := search_of(manifest).kind):
        raise RealmError(
            f"{work.final} exists and is searched by another way ({kind}); choose another name (--generation): its "
            "vectors are taken from there."
        )
    activity.say(f"The index exists already: {work.final}")
    return work.final


def _is_of(manifest: Mapping[str, object], work: _GenerationBuild) -> bool:
    return (manifest.get("block_hash"), manifest.get("snapshot_id")) == (
        work.model.block_hash,
        work.snapshot.snapshot_id,
    )


def _at_hand(work: _GenerationBuild, *, everywhere: bool = False) -> list[Path]:
    """Folders that have the vectors of this block embedder and snapshot: the model's, those of models beside it, or
    other indexes.

    everywhere: only folders that every building machine has.
    """
    folders = () if everywhere and is_shared(work.final) else sorted(work.output.glob(f"[!.]*/{MANIFEST_FILE}"))
    others = (path.parent for path in folders if path.parent != work.final)
    beside = [] if everywhere else sorted(work.model_folder.parent.glob(f"[!.]*/{SHIPPED}"))
    complete = (folder for folder in (work.model_folder / SHIPPED, *beside, *others) if is_complete(folder))
    return [folder for folder in complete if _is_of(read_manifest(folder), work)]


def _copied_shards(work: _GenerationBuild, activity: Activity) -> list[dict[str, Any]] | None:
    """Copy the shards that are at hand; their manifest entries."""
    for folder in _at_hand(work):
        whose = f"came with {folder.parent.name}" if folder.name == SHIPPED else f"are those of the index {folder.name}"
        try:
            verify(folder)
        except RealmError as error:
            if folder.parent == work.model_folder:
                raise
            activity.say(f"Vectors of this corpus that {whose} are not used: {error}")
            continue
        activity.say(f"The vectors of this corpus {whose}; nothing needs to be computed.")
        manifest = read_manifest(folder)
        shards: list[dict[str, Any]] = []
        for shard in manifest["shards"]:
            path = work.partial / shard["file"]
            vectors = read_vectors(folder / shard["file"], shard["stop"] - shard["start"], manifest["dim"])
            save_tensors(path, {"vectors": vectors})  # those shipped with a model are quantised
            shards.append({**shard, "sha256": sha256_of_file(path)})
        activity.progress(len(work.snapshot), len(work.snapshot), "blocks")
        return shards
    return None


def _build_shards(
    work: _GenerationBuild, device: torch.device, tokens: BlockTokens | None, activity: Activity
) -> list[dict[str, Any]]:
    """Build all shards; their manifest entries."""
    counted = range(len(work.snapshot))
    there = sum(len(rows) for number, rows in enumerate(work.shards()) if work.shard_path(number).exists())
    # Otherwise it would show 100 % of the previous step, or 0 % of blocks that shards have already.
    activity.progress(there, len(counted), "blocks", "preparing the block embedder")
    embedder = _ShardEmbedder(work, device, tokens)
    return [embedder.shard(number, rows, activity, counted) for number, rows in enumerate(work.shards())]


class _ShardEmbedder:
    def __init__(self, work: _GenerationBuild, device: torch.device, tokens: BlockTokens | None) -> None:
        self._work, self._device = work, device
        self._joiner = None if tokens is None else Joiner(tokens, device)
        self._wordpieces = Wordpieces.default()
        work.model.block.for_inference(device)

    def shard(self, number: int, rows: range, activity: Activity, counted: range) -> dict[str, Any]:
        """Make a shard unless a valid one exists; its manifest entry. counted: the rows that progress refers to."""
        path = self._work.shard_path(number)
        dimension = self._work.model.config.dimension
        first = rows.start if len(counted) == len(rows) else 0
        if not _finished(path, len(rows), dimension) and not self._got(path, len(rows), activity):
            pieces = [
                range(start, min(start + _PIECE_ROWS, rows.stop)) for start in range(rows.start, rows.stop, _PIECE_ROWS)
            ]
            kept = [path.with_name(f".{path.stem}-{piece.start}.safetensors") for piece in pieces]
            for piece, own in zip(pieces, kept if len(pieces) > 1 else [path], strict=True):
                if not _finished(own, len(piece), dimension):
                    save_tensors(own, {"vectors": self._embedded(piece, activity, len(counted), first)})
                activity.progress(piece.stop - first, len(counted), "blocks")
            if len(pieces) > 1:
                save_tensors(path, {"vectors": torch.cat([load_tensors(own)["vectors"] for own in kept])})
        for own in path.parent.glob(f".{path.stem}-*"):
            own.unlink()
        put_file(path, self._work.identity())
        activity.progress(rows.stop - first, len(counted), "blocks")
        return {"file": path.name, "start": rows.start, "stop": rows.stop, "sha256": sha256_of_file(path)}

    def _embedded(self, piece: range, activity: Activity, total: int, first: int) -> torch.Tensor:
        """The vectors float16 [R, D] of some rows. total, first: of the progress that is reported."""
        vectors_RD = torch.empty(len(piece), self._work.model.config.dimension, dtype=torch.float16)
        step = _CHUNK_ROWS_GPU if self._device.type == "cuda" else _CHUNK_ROWS
        for low in range(piece.start, piece.stop, step):
            activity.check()
            high = min(low + step, piece.stop)
            vectors_RD[low - piece.start : high - piece.start] = self._embed(low, high).half()
            activity.progress(high - first, total, "blocks")
        return vectors_RD

    def _got(self, path: Path, rows: int, activity: Activity) -> bool:
        """Whether another machine has built the shard, and it is here now."""
        got = get_file(path, self._work.identity(), activity)
        return got and _finished(path, rows, self._work.model.config.dimension)

    def _embed(self, low: int, high: int) -> torch.Tensor:
        embedder, limit = self._work.model.block, self._work.model.config.block_wordpieces
        if self._joiner is not None:
            return embed_rows(embedder, self._joiner, range(low, high), limit)
        titles, texts = self._work.snapshot.titles_texts(low, high)
        return embed(embedder, join_block(self._wordpieces, titles, texts, limit))


def _finished(shard: Path, rows: int, dimension: int) -> bool:
    """Whether a valid shard exists; a damaged one is built again."""
    try:
        read_vectors(shard, rows, dimension)
    except RealmError:
        return False
    return True
