"""Finds the salient spans of a corpus in shards and several processes: `python -m realm_core spans`.

Shards are written atomically, so an interrupted run resumes after the finished ones.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from realm_core.corpus.store import Snapshot
from realm_core.errors import RealmError
from realm_core.files import disk_errors, read_json, write_json
from realm_core.runs.activity import Activity
from realm_core.runs.locks import exclusive
from realm_core.runs.pipes import Workers
from realm_core.salient.cache import (
    FORMAT,
    IDENTITY_FILE,
    MANIFEST_FILE,
    LabelsM,
    SalientSpans,
    SpansM5,
    read_spans,
    write_manifest,
    write_spans,
)
from realm_core.salient.spans import Tagger
from realm_core.salient.taggers import WITHOUT_TORCH, TaggerOptions
from realm_core.salient.tasks import SHARD_BLOCKS, Spans
from realm_core.salient.worker import ONE_THREAD, command, tag, to_array

_LOCK = ".lock"
_REQUEST_BLOCKS = 100  # blocks per request to a worker, and per progress report


def main(task: Spans, activity: Activity) -> None:
    labels = tuple(filter(None, task.labels.split(","))) if task.labels else None
    options = TaggerOptions(task.tagger, labels, task.dates)
    spans = extract(
        task.corpus,
        task.output,
        activity,
        options,
        blocks=task.blocks or None,
        seed=task.seed,
        processes=task.processes,
        shard_blocks=task.shard_blocks,
    )
    looked_at = spans.manifest["blocks"]
    activity.say(f"{task.output}: {len(spans):,} salient spans in {len(spans.rows_N):,} of {looked_at:,} blocks.")
    activity.result(
        {
            "path": str(task.output),
            "snapshot_id": spans.manifest["snapshot_id"],
            "blocks": looked_at,
            "blocks_with_spans": len(spans.rows_N),
            "spans": len(spans),
            "spans_by_label": spans.manifest["spans_by_label"],
        }
    )


def extract(
    corpus: Path,
    output: Path,
    activity: Activity,
    options: TaggerOptions,
    *,
    blocks: int | None = None,
    seed: int = 0,
    processes: int | None = 1,
    shard_blocks: int = SHARD_BLOCKS,
) -> SalientSpans:
    """Make, resume or (if finished) read the cache `output` of a snapshot's salient spans.

    blocks:     size of a random sample of blocks, drawn with `seed`; None: all.
    processes:  1 works in this process; None starts one per processor, or uses 1 with a GPU.
    `RealmError` if `output` belongs to other settings, or no span is found.
    """
    for name, number in (("blocks", blocks), ("shard-blocks", shard_blocks), ("processes", processes)):
        if number is not None and number < 1:
            raise RealmError(f"{name} must be at least 1, not {number}.")
    snapshot = Snapshot.verified(corpus)
    tagger = options.tagger(snapshot)
    if not len(snapshot):
        raise RealmError(f"{corpus} contains no blocks.")
    drawn = blocks is not None and blocks < len(snapshot)
    rows = sorted(random.Random(seed).sample(range(len(snapshot)), blocks)) if drawn else range(len(snapshot))  # type: ignore[arg-type]
    identity = {
        "format": FORMAT,
        "snapshot_id": snapshot.snapshot_id,
        "tagger": tagger.description,
        "labels": list(tagger.labels),
        "blocks": len(rows),
        "drawn_by_seed": seed if drawn else None,
        "shards": -(-len(rows) // shard_blocks),
    }
    with disk_errors(output):
        output.mkdir(parents=True, exist_ok=True)
    with exclusive(output / _LOCK, f"{output} is being filled by another process already."):
        _claim(output, identity, activity)
        if not (output / MANIFEST_FILE).exists():
            _fill(output, identity, snapshot, tagger, options, rows, processes or _processes(options), activity)
    return SalientSpans.open(output, snapshot)


def _processes(options: TaggerOptions) -> int:
    if options.name not in WITHOUT_TORCH:
        from realm_core.model.device import pick_device

        if pick_device().type == "cuda":
            return 1
    return os.cpu_count() or 1


def _claim(output: Path, identity: dict[str, Any], activity: Activity) -> None:
    """Write the identity file into an empty folder, or check that the existing one matches."""
    path = output / IDENTITY_FILE
    if not path.exists():
        if any(child.name != _LOCK for child in output.iterdir()):
            raise RealmError(f"{output} contains other files; name a new folder for the spans.")
        write_json(path, identity)
        return
    known = read_json(path)
    if known != identity:
        differing = [key for key in identity if not isinstance(known, dict) or known.get(key) != identity[key]]
        raise RealmError(
            f"{output} contains salient spans of another run (different: {', '.join(differing)}); name another folder, "
            "or remove this one."
        )
    finished = (output / MANIFEST_FILE).exists()
    activity.say(f"The spans exist already: {output}" if finished else "Resuming an earlier run.")


def _fill(
    output: Path,
    identity: dict[str, Any],
    snapshot: Snapshot,
    tagger: Tagger,
    options: TaggerOptions,
    rows: Any,
    processes: int,
    activity: Activity,
) -> None:
    """Make the missing shards, then the manifest."""
    shards: int = identity["shards"]
    missing = [number for number in range(shards) if read_spans(output, number) is None]
    requests = (
        (list(rows[number::shards][low : low + _REQUEST_BLOCKS]), number)
        for number in missing
        for low in range(0, len(rows[number::shards]), _REQUEST_BLOCKS)
    )
    done = len(rows) - sum(len(rows[number::shards]) for number in missing)
    activity.progress(done, len(rows), "blocks")
    open_shard: list[tuple[SpansM5, LabelsM]] = []
    pending = 0
    with _answers(requests, snapshot, tagger, options, processes, activity) as answers:
        for spans, labels, count, number in answers:
            open_shard.append((spans, labels))
            pending += count
            done += count
            if pending == len(rows[number::shards]):
                write_spans(
                    output,
                    number,
                    np.concatenate([spans for spans, _ in open_shard]),
                    np.concatenate([labels for _, labels in open_shard]),
                )
                open_shard, pending = [], 0
            activity.progress(done, len(rows), "blocks")
    write_manifest(output, identity, _counts(output, identity))


@contextmanager
def _answers(
    requests: Iterator[tuple[list[int], int]],
    snapshot: Snapshot,
    tagger: Tagger,
    options: TaggerOptions,
    processes: int,
    activity: Activity,
) -> Iterator[Iterator[tuple[SpansM5, LabelsM, int, int]]]:
    """(spans, labels, number of blocks, shard) for each request, in order."""
    if processes == 1:

        def in_this_process() -> Iterator[tuple[SpansM5, LabelsM, int, int]]:
            for rows, number in requests:
                activity.check()
                yield *tag(snapshot, tagger, rows), len(rows), number

        yield in_this_process()
        return
    with closing(Workers(processes, command(str(snapshot.folder), options), "tags names", ONE_THREAD)) as workers:
        messages = ((json.dumps(rows).encode(), (len(rows), number)) for rows, number in requests)
        yield (
            (to_array(spans), to_array(labels), count, number)
            for (spans, labels), (count, number) in workers.answers(messages, activity.check)
        )


def _counts(output: Path, identity: dict[str, Any]) -> dict[str, Any]:
    """The number of spans, in total and by label, and of blocks with spans."""
    by_label = np.zeros(len(identity["labels"]), np.int64)
    blocks_with_spans = 0
    for number in range(identity["shards"]):
        shard = read_spans(output, number)
        assert shard is not None
        spans, labels = shard
        by_label += np.bincount(labels, minlength=len(by_label))
        blocks_with_spans += len(np.unique(spans[:, 0]))
    return {
        "spans": int(by_label.sum()),
        "blocks_with_spans": blocks_with_spans,
        "spans_by_label": dict(zip(identity["labels"], by_label.tolist(), strict=True)),
    }
