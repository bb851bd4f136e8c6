"""Salient spans of a snapshot on disk: a folder of shards, its manifest written last.

identity.json      snapshot, tagger and selection of blocks; written first
spans-00000.npy    int32 [M, 5]: block row, span start, span end, sentence start, sentence end
labels-00000.npy   uint8 [M]: index of the span's label in the manifest's list of labels
…
manifest.json      identity, counts and checksums

Positions are characters of the block's text. A span is within one sentence, and spans of a block do not overlap. Shard
s of S contains the selected blocks s, s + S, s + 2S, …, so that all shards take about as long.

Legend: M spans, R selected blocks, N blocks with a span.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from realm_core.arrays import open_array, save_array
from realm_core.corpus.store import Snapshot
from realm_core.errors import RealmError, quoted
from realm_core.files import read_json, replaced, sha256_of_file, sync, write_json
from realm_core.salient.spans import Tagger
from realm_core.text.sentences import sentence_spans

FORMAT = 1
IDENTITY_FILE = "identity.json"
MANIFEST_FILE = "manifest.json"

SpansM5 = NDArray[np.int32]
LabelsM = NDArray[np.uint8]


@dataclass(frozen=True)
class SalientSpans:
    """The spans of one snapshot in memory, ordered by block row and position.

    spans_M5:       int32 [M, 5]: block row, span start, span end, sentence start, sentence end.
    labels_M:       uint8 [M], indices into the manifest's "labels".
    rows_N:         the blocks with a span, ascending.
    first_N1:       the spans of block rows_N[i] are first_N1[i] to first_N1[i + 1].
    manifest:       of the cache; "blocks" is R, the number of selected blocks.
    """

    spans_M5: SpansM5
    labels_M: LabelsM
    rows_N: NDArray[np.int32]
    first_N1: NDArray[np.int64]
    manifest: dict[str, Any]

    def __len__(self) -> int:
        return len(self.spans_M5)

    @classmethod
    def open(cls, folder: Path | str, snapshot: Snapshot) -> SalientSpans:
        """Read the spans of `snapshot`; `RealmError` if they are of another one, damaged, incomplete or empty."""
        folder = Path(folder)
        identity = read_json(folder / IDENTITY_FILE)
        if not isinstance(identity, dict) or identity.get("format") != FORMAT:
            raise RealmError(f"{folder} is not a cache of salient spans of format {FORMAT}.")
        if identity.get("snapshot_id") != snapshot.snapshot_id:
            raise RealmError(
                f"{folder} contains the salient spans of the snapshot {quoted(identity.get('snapshot_id'))}, "
                f"not of {snapshot.snapshot_id}."
            )
        try:
            manifest, shards = _shards(folder)
            return cls._from_shards(manifest, shards, snapshot)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise RealmError(f"{folder / MANIFEST_FILE} does not describe salient spans: {quoted(error)}.") from None

    @classmethod
    def _from_shards(
        cls, manifest: dict[str, Any], shards: list[tuple[SpansM5, LabelsM]], snapshot: Snapshot
    ) -> SalientSpans:
        spans_M5 = np.concatenate([spans for spans, _ in shards]) if shards else np.empty((0, 5), np.int32)
        labels_M = np.concatenate([labels for _, labels in shards]) if shards else np.empty(0, np.uint8)
        if not len(spans_M5):
            raise RealmError(
                f"No salient span was found in the {manifest['blocks']:,} blocks of {snapshot.folder} that were "
                "searched; there is nothing to mask."
            )
        if (
            spans_M5[:, 0].min() < 0
            or spans_M5[:, 0].max() >= len(snapshot)
            or labels_M.max() >= len(manifest["labels"])
        ):
            raise RealmError("The salient spans name blocks or labels that do not exist.")
        start_M, end_M, first_M, last_M = spans_M5[:, 1:].T
        if (first_M < 0).any() or ((start_M < first_M) | (end_M <= start_M) | (last_M < end_M)).any():
            raise RealmError("The salient spans are not within their sentences.")
        order = np.argsort(spans_M5[:, 0], kind="stable")  # the spans of a block are in order already
        spans_M5, labels_M = spans_M5[order], labels_M[order]
        rows_N, first_N = np.unique(spans_M5[:, 0], return_index=True)
        first_N1 = np.append(first_N, len(spans_M5)).astype(np.int64)
        return cls(spans_M5, labels_M, rows_N, first_N1, manifest)


def _shards(folder: Path) -> tuple[dict[str, Any], list[tuple[SpansM5, LabelsM]]]:
    if not (folder / MANIFEST_FILE).exists():
        raise RealmError(
            f"{folder} is not finished: {MANIFEST_FILE} is missing. Run `spans` with the same options again to resume."
        )
    manifest = read_json(folder / MANIFEST_FILE)
    whole = []
    for number, checksums in enumerate(manifest["files"]):
        for path, checksum in zip(shard_files(folder, number), checksums, strict=True):
            if not path.exists() or sha256_of_file(path) != checksum:
                raise RealmError(f"{path} is missing or damaged: its checksum is not the manifest's.")
        shard = read_spans(folder, number)
        if shard is None:
            raise RealmError(f"{folder}: shard {number} does not match the manifest.")
        whole.append(shard)
    return manifest, whole


def shard_files(folder: Path, number: int) -> tuple[Path, Path]:
    """The files of a shard: spans and labels."""
    return folder / f"spans-{number:05d}.npy", folder / f"labels-{number:05d}.npy"


def read_spans(folder: Path, number: int) -> tuple[SpansM5, LabelsM] | None:
    """One shard; None if it is missing or incomplete."""
    spans_file, labels_file = shard_files(folder, number)
    try:
        labels = open_array(labels_file, np.uint8, (None,))
        return open_array(spans_file, np.int32, (len(labels), 5)), labels
    except RealmError:
        return None


def write_spans(folder: Path, number: int, spans_M5: SpansM5, labels_M: LabelsM) -> None:
    """Write one shard; each file is written atomically, and a shard with one file counts as missing."""
    arrays: list[NDArray[Any]] = [spans_M5, labels_M]
    for path, array in zip(shard_files(folder, number), arrays, strict=True):
        with replaced(path) as temporary:
            save_array(temporary, array)


def write_manifest(folder: Path, identity: dict[str, Any], counts: dict[str, Any]) -> None:
    """Finish a cache when all shards exist."""
    files = [[sha256_of_file(path) for path in shard_files(folder, number)] for number in range(identity["shards"])]
    write_json(folder / MANIFEST_FILE, {**identity, **counts, "files": files}, sealed=True)
    sync(folder)


def salient_spans(tagger: Tagger, rows: Sequence[int], texts: Sequence[str]) -> tuple[SpansM5, LabelsM]:
    """The salient spans of some blocks; spans that cross a sentence boundary are dropped.

    rows, texts: row and text of each block.
    """
    code = {label: number for number, label in enumerate(tagger.labels)}
    found: list[tuple[int, int, int, int, int]] = []
    labels: list[int] = []
    for row, text, spans in zip(rows, texts, tagger.spans(texts, rows), strict=True):
        sentences = iter(sentence_spans(text) if spans else ())
        start = end = 0
        for span in spans:
            while end <= span.start:  # every character but white space is in a sentence, so there is a next one
                start, end = next(sentences)
            if start <= span.start and span.end <= end:
                found.append((row, span.start, span.end, start, end))
                labels.append(code[span.label])
    return np.array(found, np.int32).reshape(-1, 5), np.array(labels, np.uint8)
