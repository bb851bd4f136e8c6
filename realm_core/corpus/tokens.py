"""A cache of a snapshot's blocks as wordpieces, which training and index refreshes read many times.

It is a folder beside the snapshot (which is immutable): `titles.npy` and `bodies.npy` with all ids concatenated
(uint16: the vocabulary has 30,522 entries), `title_starts.npy` and `body_starts.npy` with the offset of each block,
`text_hashes.npy` with 64 bits of each text's hash, and `manifest.json`, written last. Memory-mapped when opened.

While it is made, finished parts are in a hidden folder beside it, each with the same files: who is stopped or killed
loses the part that was being made. At the end they are joined and removed.

Legend: N blocks, T wordpieces.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from realm_core.arrays import Array, open_array, save_array
from realm_core.corpus.store import Snapshot
from realm_core.corpus.tables import tokens_folder
from realm_core.errors import RealmError
from realm_core.files import disk_errors, new_folder, read_json, remove_folder, sha256_of_file, write_json
from realm_core.runs.activity import Activity
from realm_core.runs.locks import exclusive
from realm_core.text.joins import TITLE_WORDPIECES
from realm_core.text.wordpieces import Wordpieces

FORMAT = 1
_ROWS_AT_ONCE = 4096
_PART_ROWS = 32_768  # half a minute of one core


@dataclass(frozen=True)
class Ragged:
    """Concatenated sequences of wordpieces. values_T: ids; starts_N1: the offset of each sequence, then the total."""

    values_T: Array
    starts_N1: Array

    def __len__(self) -> int:
        return len(self.starts_N1) - 1

    def of(self, rows: range) -> Ragged:
        starts_M1 = self.starts_N1[rows.start : rows.stop + 1]
        return Ragged(self.values_T[starts_M1[0] : starts_M1[-1]], starts_M1 - starts_M1[0])


@dataclass(frozen=True)
class BlockTokens:
    """Wordpieces of every block of a snapshot. text_hashes_N: uint64, equal for equal texts."""

    titles: Ragged
    bodies: Ragged
    text_hashes_N: Array

    def __len__(self) -> int:
        return len(self.bodies)

    def of(self, rows: range) -> BlockTokens:
        return BlockTokens(self.titles.of(rows), self.bodies.of(rows), self.text_hashes_N[rows.start : rows.stop])


def text_hash(text: str) -> int:
    """64 bits of a text's hash, by which trivial retrievals are recognised and passages are held out."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def open_tokens(snapshot: Snapshot, activity: Activity, folder: Path | None = None) -> BlockTokens:
    """The snapshot's wordpieces; the cache is made if it does not exist.

    folder: of the cache (default: a hidden folder beside the snapshot). `RealmError` if it belongs to another snapshot
    or vocabulary, or is damaged.
    """
    folder = folder or tokens_folder(snapshot.folder)
    identity = {
        "format": FORMAT,
        "snapshot_id": snapshot.snapshot_id,
        "tokenizer_sha256": sha256_of_file(Wordpieces.default().path),
        "blocks": len(snapshot),
    }
    if not folder.exists():
        with disk_errors(folder):
            folder.parent.mkdir(parents=True, exist_ok=True)
            with exclusive(folder.with_name(f"{folder.name}.lock")):  # a second process waits, then uses it
                if not folder.exists():
                    _make(snapshot, folder, identity, activity)
    return _opened(folder, identity, len(snapshot))


def _opened(folder: Path, identity: dict[str, Any], blocks: int) -> BlockTokens:
    """A cache, or a part of one. `RealmError` if its manifest is another one, or its arrays are damaged."""
    if read_json(folder / "manifest.json") != identity:
        raise RealmError(f"{folder} contains the wordpieces of another snapshot or vocabulary; remove it.")
    try:
        return BlockTokens(
            _open_ragged(folder, "titles", "title_starts", blocks),
            _open_ragged(folder, "bodies", "body_starts", blocks),
            open_array(folder / "text_hashes.npy", np.uint64, (blocks,), mode="c"),
        )
    except RealmError as error:
        raise RealmError(f"{str(error).rstrip('.')}; remove {folder}.") from None


def _open_ragged(folder: Path, values: str, starts: str, count: int) -> Ragged:
    """Opened with mode "c", because torch warns about read-only arrays."""
    values_T = open_array(folder / f"{values}.npy", np.uint16, (None,), mode="c")
    starts_N1 = open_array(folder / f"{starts}.npy", np.int64, (count + 1,), mode="c")
    if starts_N1[0] != 0 or starts_N1[-1] != len(values_T) or (np.diff(starts_N1) < 0).any():
        raise RealmError(f"{folder / starts}.npy is missing or damaged: its offsets are not valid.")
    return Ragged(values_T, starts_N1)


def tokenised(snapshot: Snapshot, activity: Activity, rows: range | None = None) -> BlockTokens:
    """The snapshot's wordpieces, in memory. rows: of consecutive blocks alone."""
    rows = range(len(snapshot)) if rows is None else rows
    wordpieces = Wordpieces.default()
    ids: dict[str, list[Array]] = {"titles": [], "bodies": []}
    lengths: dict[str, list[int]] = {"titles": [], "bodies": []}
    hashes: list[int] = []
    for start in range(rows.start, rows.stop, _ROWS_AT_ONCE):
        activity.check()
        stop = min(start + _ROWS_AT_ONCE, rows.stop)
        titles, texts = snapshot.titles_texts(start, stop)
        hashes.extend(map(text_hash, texts))
        for name, part, limit in (("titles", titles, TITLE_WORDPIECES), ("bodies", texts, None)):
            for one in wordpieces.ids(part):
                ids[name].append(np.asarray(one[:limit], np.uint16))
                lengths[name].append(len(ids[name][-1]))
        activity.progress(stop, len(snapshot), "blocks tokenised")
    all_titles, all_bodies = (
        Ragged(
            np.concatenate([*ids[name], np.empty(0, np.uint16)]),
            np.concatenate([[0], np.cumsum(lengths[name], dtype=np.int64)]).astype(np.int64),
        )
        for name in ("titles", "bodies")
    )
    return BlockTokens(all_titles, all_bodies, np.array(hashes, np.uint64))


def _make(snapshot: Snapshot, folder: Path, identity: dict[str, Any], activity: Activity) -> None:
    """Make the cache, from the parts that are there already and those that are still to make."""
    activity.say("Tokenising the corpus, once.")
    unfinished = folder.with_name(f"{folder.name}.tmp")
    starts = range(0, len(snapshot), _PART_ROWS)
    parts = [
        _part(snapshot, range(start, min(start + _PART_ROWS, len(snapshot))), unfinished, identity, activity)
        for start in starts
    ]
    tokens = BlockTokens(
        _joined([part.titles for part in parts]),
        _joined([part.bodies for part in parts]),
        np.concatenate([*(part.text_hashes_N for part in parts), np.empty(0, np.uint64)]),
    )
    with new_folder(folder, unfinished / "whole") as temporary:
        _write(temporary, tokens, identity)
    remove_folder(unfinished)


def _part(
    snapshot: Snapshot, rows: range, unfinished: Path, identity: dict[str, Any], activity: Activity
) -> BlockTokens:
    """The wordpieces of some blocks: those that an earlier attempt finished, or new ones, which are kept."""
    folder, identity = unfinished / f"{rows.start:010}", {**identity, "rows": [rows.start, rows.stop]}
    with suppress(RealmError):
        return _opened(folder, identity, len(rows))
    tokens = tokenised(snapshot, activity, rows)
    remove_folder(folder)  # of another snapshot or vocabulary, or damaged
    with new_folder(folder) as temporary:
        _write(temporary, tokens, identity)
    return _opened(folder, identity, len(rows))  # the memory has one part, the disk the others


def _joined(parts: Sequence[Ragged]) -> Ragged:
    lengths = [np.diff(part.starts_N1) for part in parts]
    starts_N1 = np.concatenate([[0], *lengths]).cumsum().astype(np.int64)
    return Ragged(np.concatenate([*(part.values_T for part in parts), np.empty(0, np.uint16)]), starts_N1)


def _write(folder: Path, tokens: BlockTokens, identity: dict[str, Any]) -> None:
    for name, one_name, ragged in (("titles", "title", tokens.titles), ("bodies", "body", tokens.bodies)):
        save_array(folder / f"{name}.npy", ragged.values_T)
        save_array(folder / f"{one_name}_starts.npy", ragged.starts_N1)
    save_array(folder / "text_hashes.npy", tokens.text_hashes_N)
    write_json(folder / "manifest.json", identity)
