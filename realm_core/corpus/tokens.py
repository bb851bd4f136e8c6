"""A snapshot's blocks as wordpieces, made once: training and refreshes read them thousands of times.

Kept in a folder of its own beside the snapshot (which is immutable): `titles.npy` and `bodies.npy` with all ids end to
end (uint16: the vocabulary has 30,522 entries), `title_starts.npy` and `body_starts.npy` with where each block begins,
`text_hashes.npy` with 64 bits of each text's hash, and `manifest.json`, written last. Memory-mapped when opened.

Legend: N blocks, T wordpieces.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from realm_core.arrays import open_array, save_array
from realm_core.corpus.store import Snapshot
from realm_core.errors import RealmError
from realm_core.files import disk_errors, publish_folder, read_json, remove_folder, sha256_of_file, write_json
from realm_core.runs.activity import Activity
from realm_core.runs.locks import exclusive
from realm_core.text.joins import TITLE_WORDPIECES
from realm_core.text.wordpieces import Wordpieces

FORMAT = 1
_ROWS_AT_ONCE = 4096
_Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Ragged:
    """Sequences of wordpieces end to end. values_T: ids; starts_N1: where each begins and, last, where all end."""

    values_T: _Array
    starts_N1: _Array

    def __len__(self) -> int:
        return len(self.starts_N1) - 1


@dataclass(frozen=True)
class BlockTokens:
    """Wordpieces of every block of a snapshot. text_hashes_N: uint64; blocks of equal text have equal ones."""

    titles: Ragged
    bodies: Ragged
    text_hashes_N: _Array

    def __len__(self) -> int:
        return len(self.bodies)


def text_hash(text: str) -> int:
    """64 bits of a text's hash: what "the same text" means where trivial retrievals are dropped, and by which passages
    are held out."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def open_tokens(snapshot: Snapshot, activity: Activity, folder: Path | None = None) -> BlockTokens:
    """The snapshot's wordpieces; made first if they are not there yet.

    folder: where they are kept (default: a hidden folder beside the snapshot). `RealmError` when it holds those of
    another snapshot or vocabulary, or is damaged.
    """
    wordpieces = Wordpieces.default()
    folder = folder or snapshot.folder.with_name(f".{snapshot.snapshot_id}.tokens")
    identity = {
        "format": FORMAT,
        "snapshot_id": snapshot.snapshot_id,
        "tokenizer_sha256": sha256_of_file(wordpieces.path),
        "blocks": len(snapshot),
    }
    if not folder.exists():
        with disk_errors(folder):
            folder.parent.mkdir(parents=True, exist_ok=True)
            with exclusive(folder.with_name(f"{folder.name}.lock")):  # who comes second finds what the first has made
                if not folder.exists():
                    _make(snapshot, wordpieces, folder, identity, activity)
    if read_json(folder / "manifest.json") != identity:
        raise RealmError(f"{folder} holds the wordpieces of another snapshot or vocabulary; remove it.")

    try:
        return BlockTokens(
            _open_ragged(folder, "titles", "title_starts", len(snapshot)),
            _open_ragged(folder, "bodies", "body_starts", len(snapshot)),
            open_array(folder / "text_hashes.npy", np.uint64, (len(snapshot),), mode="c"),
        )
    except RealmError as error:
        raise RealmError(f"{str(error).rstrip('.')}; remove {folder}.") from None


def _open_ragged(folder: Path, values: str, starts: str, count: int) -> Ragged:
    """mode "c": torch wants arrays that it could write to."""
    values_T = open_array(folder / f"{values}.npy", np.uint16, (None,), mode="c")
    starts_N1 = open_array(folder / f"{starts}.npy", np.int64, (count + 1,), mode="c")
    if starts_N1[0] != 0 or starts_N1[-1] != len(values_T) or (np.diff(starts_N1) < 0).any():
        raise RealmError(f"{folder / starts}.npy is missing or damaged: it does not tell where blocks begin.")
    return Ragged(values_T, starts_N1)


def _make(
    snapshot: Snapshot, wordpieces: Wordpieces, folder: Path, identity: dict[str, Any], activity: Activity
) -> None:
    activity.say("Cutting the corpus into wordpieces, once.")
    ids: dict[str, list[_Array]] = {"titles": [], "bodies": []}
    lengths: dict[str, list[int]] = {"titles": [], "bodies": []}
    hashes = np.empty(len(snapshot), np.uint64)
    for start in range(0, len(snapshot), _ROWS_AT_ONCE):
        activity.check()
        titles, texts = snapshot.titles_texts(start, start + _ROWS_AT_ONCE)
        hashes[start : start + len(texts)] = [text_hash(text) for text in texts]
        for name, part, limit in (("titles", titles, TITLE_WORDPIECES), ("bodies", texts, None)):
            for one in wordpieces.ids(part):
                ids[name].append(np.asarray(one[:limit], np.uint16))
                lengths[name].append(len(ids[name][-1]))
        activity.progress(min(start + _ROWS_AT_ONCE, len(snapshot)), len(snapshot), "blocks cut")
    temporary = folder.with_name(f"{folder.name}.tmp")
    remove_folder(temporary)
    temporary.mkdir()
    for name, one_name in (("titles", "title"), ("bodies", "body")):
        save_array(temporary / f"{name}.npy", np.concatenate(ids[name]) if ids[name] else np.empty(0, np.uint16))
        starts = np.concatenate([[0], np.cumsum(lengths[name], dtype=np.int64)]).astype(np.int64)
        save_array(temporary / f"{one_name}_starts.npy", starts)
    save_array(temporary / "text_hashes.npy", hashes)
    write_json(temporary / "manifest.json", identity)
    publish_folder(temporary, folder)
