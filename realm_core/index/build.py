"""Build an index: `python -m realm_core index`. Shards of contiguous rows, each on its own and idempotent.

Work goes on in `.GENERATION.partial/` beside the final folder; a shard is there whole or not at all, so a build that
died goes on behind its last finished shard. The name of a generation says what it is of, so that the same model and
snapshot built twice are one generation.
"""

from __future__ import annotations

import argparse
import datetime
import fcntl
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch

from realm_core.activity import Activity
from realm_core.corpus.store import Snapshot
from realm_core.corpus.tokens import BlockTokens, open_tokens
from realm_core.errors import RealmError
from realm_core.files import disk_errors, publish_folder, read_json, remove_folder, sha256_of_file, write_json
from realm_core.index.embedding import embed, embed_rows
from realm_core.index.generation import FORMAT, Generation, read_shard
from realm_core.model.checkpoint import Model, load_model
from realm_core.model.device import pick_device
from realm_core.model.joining import Joiner
from realm_core.tensors import save_tensors
from realm_core.text.joins import join_block
from realm_core.text.wordpieces import Wordpieces

SHARD_ROWS = 50_000
SHIPPED = "vectors"  # a generation that a model folder may bring along: its vectors of one snapshot
_CHUNK_ROWS = 512  # tokenised and sorted by length together; progress and stop requests come this often
_CHUNK_ROWS_GPU = 8192  # the same where a chunk is a matter of a second


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `index`."""
    parser.add_argument("--model", type=Path, required=True, help="model folder")
    parser.add_argument("--corpus", type=Path, required=True, help="snapshot folder")
    parser.add_argument("--output", type=Path, required=True, help="folder of all generations")
    parser.add_argument("--generation", help="its name (default: made of the model's and the snapshot's hashes)")
    parser.add_argument("--shard-rows", type=int, default=SHARD_ROWS, help=f"blocks a shard (default {SHARD_ROWS})")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N")


def main(arguments: argparse.Namespace, activity: Activity) -> None:
    """Build and publish; the result names the generation."""
    folder = build(
        arguments.model,
        arguments.corpus,
        arguments.output,
        activity,
        name=arguments.generation,
        shard_rows=arguments.shard_rows,
        device=arguments.device,
    )
    manifest = read_json(folder / "manifest.json")
    activity.say(f"The index is {folder} ({manifest['rows']:,} blocks).")
    activity.result(
        {
            "generation": manifest["generation"],
            "path": str(folder),
            "rows": manifest["rows"],
            "dim": manifest["dim"],
            "model_hash": manifest["model_hash"],
            "snapshot_id": manifest["snapshot_id"],
        }
    )


def build(
    model_folder: Path,
    corpus_folder: Path,
    output: Path,
    activity: Activity,
    *,
    name: str | None = None,
    shard_rows: int = SHARD_ROWS,
    device: str = "auto",
    tokens: BlockTokens | None = None,
    about: Mapping[str, object] | None = None,
) -> Path:
    """Build the generation of a model and a snapshot under `output`; returns its folder.

    tokens: the snapshot's wordpieces, where they are at hand. about: what else the manifest shall say.
    One that is there already, and sound, is returned at once; `RealmError` if it is of something else.
    """
    if shard_rows < 1:
        raise RealmError(f"shard-rows must be at least 1, not {shard_rows}.")
    model, snapshot = load_model(model_folder), Snapshot.open(corpus_folder)
    if len(snapshot) == 0:
        raise RealmError(f"{corpus_folder} holds no blocks; there is nothing to index.")
    name = name or f"{snapshot.snapshot_id}-{model.block_hash}"
    if not name or name.startswith(".") or "/" in name:
        raise RealmError(f"{name!r} cannot be a generation's name: it becomes a folder's name.")
    output.mkdir(parents=True, exist_ok=True)
    final, partial = output / name, output / f".{name}.partial"
    with _only_one(output / f".{name}.lock", name):
        if final.exists():
            return _existing(final, model, snapshot, activity)
        identity = {
            "block_hash": model.block_hash,
            "snapshot_id": snapshot.snapshot_id,
            "shard_rows": shard_rows,
            "rows": len(snapshot),
        }
        _open_partial(partial, identity, activity)
        place = pick_device(device)
        if tokens is None and place.type == "cuda":  # a GPU embeds faster than text is cut into wordpieces
            tokens = open_tokens(snapshot, activity)
        shards = _shipped_shards(model_folder / SHIPPED, model, snapshot, partial, activity) or _build_shards(
            model, snapshot, partial, shard_rows, place, tokens, activity
        )
        write_json(
            partial / "manifest.json",
            {
                "format": FORMAT,
                "generation": name,
                "snapshot_id": snapshot.snapshot_id,
                "model_hash": model.hash,
                "block_hash": model.block_hash,
                "rows": len(snapshot),
                "dim": model.config.dimension,
                "shards": shards,
                "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
                **(about or {}),
            },
        )
        (partial / "identity.json").unlink()
        publish_folder(partial, final)
    return final


@contextmanager
def _only_one(lock: Path, name: str) -> Iterator[None]:
    """Hold the lock of a generation that is being built; the system lets go of it if we die.

    The file stays: removing it would let two others lock two different files of that name.
    """
    with open(lock, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RealmError(f"The index {name} is being built by another process already.") from None
        yield


def _existing(final: Path, model: Model, snapshot: Snapshot, activity: Activity) -> Path:
    manifest = Generation.open(final).manifest
    if (manifest["block_hash"], manifest["snapshot_id"]) != (model.block_hash, snapshot.snapshot_id):
        raise RealmError(f"{final} exists and is of another model or corpus; choose another name.")
    activity.say(f"The index is there already: {final}")
    return final


def _open_partial(partial: Path, identity: Mapping[str, object], activity: Activity) -> None:
    if partial.exists():
        known = partial / "identity.json"
        if known.exists() and read_json(known) == identity:
            activity.say("Going on where an earlier build stopped.")
            return
        remove_folder(partial)
    partial.mkdir(parents=True)
    write_json(partial / "identity.json", identity)


def _shipped_shards(
    shipped: Path, model: Model, snapshot: Snapshot, partial: Path, activity: Activity
) -> list[dict[str, object]] | None:
    """Copies of the shards that came with the model, if they are of this block embedder and these very blocks."""
    if not (shipped / "manifest.json").exists():
        return None
    manifest = Generation.open(shipped).manifest  # checks every file
    if (manifest["block_hash"], manifest["snapshot_id"]) != (model.block_hash, snapshot.snapshot_id):
        return None
    activity.say("The model brought the vectors of this corpus along; nothing needs to be computed.")
    with disk_errors(partial):
        for shard in manifest["shards"]:
            shutil.copyfile(shipped / shard["file"], partial / shard["file"])
    activity.progress(len(snapshot), len(snapshot), "blocks")
    shards: list[dict[str, object]] = manifest["shards"]
    return shards


def _build_shards(
    model: Model,
    snapshot: Snapshot,
    partial: Path,
    shard_rows: int,
    device: torch.device,
    tokens: BlockTokens | None,
    activity: Activity,
) -> list[dict[str, object]]:
    embedder, limit = model.block, model.config.block_wordpieces
    embedder.for_inference(device)
    joiner = None if tokens is None else Joiner(tokens, device)
    wordpieces = Wordpieces.default()
    shards = []
    for number, start in enumerate(range(0, len(snapshot), shard_rows)):
        stop = min(start + shard_rows, len(snapshot))
        path = partial / f"vectors-{number:05d}.safetensors"
        if not _finished(path, stop - start, model.config.dimension):
            vectors_RD = torch.empty(stop - start, model.config.dimension, dtype=torch.float16)
            step = _CHUNK_ROWS_GPU if device.type == "cuda" else _CHUNK_ROWS
            for low in range(start, stop, step):
                activity.check()
                high = min(low + step, stop)
                if joiner is None:
                    titles, texts = snapshot.titles_texts(low, high)
                    vectors_BD = embed(embedder, join_block(wordpieces, titles, texts, limit))
                else:
                    vectors_BD = embed_rows(embedder, joiner, range(low, high), limit)
                vectors_RD[low - start : high - start] = vectors_BD.half()
                activity.progress(high, len(snapshot), "blocks")
            save_tensors(path, {"vectors": vectors_RD})
        shards.append({"file": path.name, "start": start, "stop": stop, "sha256": sha256_of_file(path)})
        activity.progress(stop, len(snapshot), "blocks")
    return shards


def _finished(shard: Path, rows: int, dimension: int) -> bool:
    """Whether an earlier build left this shard whole; one that is damaged is made again."""
    try:
        read_shard(shard, rows, dimension)
    except RealmError:
        return False
    return True
