"""Builds the stored index of `approximate.py` in the folder of an unpublished generation that has its vectors.

    sample → centroids → trained index → parts of rows, each in a file → merged lists → FILES

Everything but the result lies in a folder of its own. Each file appears whole, so a killed build resumes after
the last one; merging, which reads and writes the codes once, starts over.

Legend: N rows, S sampled ones, L lists, B rows of a piece, D dimension.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from realm_core.arrays import save_array
from realm_core.errors import RealmError, quoted
from realm_core.files import disk_errors, read_json, remove_folder, replaced, sha256_of_file, sync, write_json
from realm_core.index.approximate import INDEX_FILE, LISTS_FILE, PLACES_FILE
from realm_core.index.choice import SearchChoice, SearchKind, choose
from realm_core.index.clustering import ROUNDS, Assigner, centroids
from realm_core.index.generation import read_vectors
from realm_core.runs.activity import Activity

FILES = (LISTS_FILE, PLACES_FILE, INDEX_FILE)
WORK_FOLDER = "approximate.partial"
_SAMPLE_PER_LIST = 64  # rows that k-means learns from; FAISS advises 39 to 256
_CODE_SAMPLE = 1 << 16  # rows that the ranges or code books are learnt from
_PART_ROWS = 1 << 19  # at least: about 140 MB of codes in memory
_PART_ROWS_PER_LIST = 32  # each part repeats the centroids
_PIECE_ROWS = 1 << 14
_GRAPH_DEGREE = 32
_ID_BYTES = 8

Shards = Sequence[Mapping[str, Any]]


def build_search(
    folder: Path,
    shards: Shards,
    dimension: int,
    activity: Activity,
    *,
    wanted: SearchKind = "auto",
    device: torch.device | None = None,
) -> dict[str, object]:
    """Choose the search of the vectors in `folder` and build its files; returns the manifest's entry `search`.

    shards: the manifest's entries. Called again after it was killed, it goes on; `end_build` when the manifest is
    written.
    """
    rows = int(shards[-1]["stop"])
    choice = choose(rows, dimension, wanted)
    activity.say(f"Search: {choice.reason}.")
    entry: dict[str, object] = asdict(choice)
    if choice.kind == "exact":
        end_build(folder)
        for name in FILES:  # of an earlier choice
            (folder / name).unlink(missing_ok=True)
        return entry
    with disk_errors(folder):
        _SearchBuild(folder, shards, dimension, choice, activity, device or torch.device("cpu")).run()
    return {**entry, "files": [{"file": name, "sha256": sha256_of_file(folder / name)} for name in FILES]}


def end_build(folder: Path) -> None:
    """Remove the working files of `build_search`."""
    remove_folder(folder / WORK_FOLDER)


def expected_s(rows: int, dimension: int, choice: SearchChoice) -> float:
    """Seconds that a build takes on this machine's processors, from a short trial with random rows.

    Reading the vectors and writing the lists are not included.
    """
    draw = torch.Generator().manual_seed(0)
    centroids_LD, vectors_BD = (
        torch.nn.functional.normalize(torch.randn(count, dimension, generator=draw))
        for count in (choice.lists, _PIECE_ROWS)
    )
    index = _trained(choice, centroids_LD, vectors_BD)
    assign = Assigner(centroids_LD, torch.device("cpu"))
    lists_B = assign(vectors_BD)  # the first time takes longer
    began = time.monotonic()
    lists_B = assign(vectors_BD)
    assigned = time.monotonic()
    _add_to_lists(index, vectors_BD, lists_B, 0)
    assigning_s, adding_s = (assigned - began) / _PIECE_ROWS, (time.monotonic() - assigned) / _PIECE_ROWS
    return (ROUNDS * _sample_rows(rows, choice.lists) + rows) * assigning_s + rows * adding_s


def lists_bytes(rows: int, dimension: int, choice: SearchChoice) -> int:
    """Size of the lists; a build needs twice as much. 0: searched exactly."""
    if choice.kind == "exact":
        return 0
    kind, size = choice.code[:2], int(choice.code[2:])
    return rows * ((dimension if kind == "SQ" else size) + _ID_BYTES)


class _SearchBuild:
    def __init__(
        self,
        folder: Path,
        shards: Shards,
        dimension: int,
        choice: SearchChoice,
        activity: Activity,
        device: torch.device,
    ) -> None:
        self._folder, self._work = folder, folder / WORK_FOLDER
        self._shards, self._dimension = shards, dimension
        self._rows = int(shards[-1]["stop"])
        self._choice, self._activity, self._device = choice, activity, device

    def run(self) -> None:
        choice_file = self._work / "choice.json"
        if not choice_file.exists() or read_json(choice_file) != asdict(self._choice):  # memory may have changed since
            remove_folder(self._work)
            for name in FILES:
                (self._folder / name).unlink(missing_ok=True)
            self._work.mkdir()
            write_json(choice_file, asdict(self._choice))
        if not (self._folder / INDEX_FILE).exists():
            trained = self._work / "trained.faiss"
            if not trained.exists():
                self._train(trained)
            self._merge(trained, self._add(trained))
        for path in self._work.iterdir():
            if path != choice_file:  # kept: after a kill it names the choice of the other files
                remove_folder(path) if path.is_dir() else path.unlink()

    # ---- training

    def _train(self, path: Path) -> None:
        lists = self._choice.lists
        sample_SD = self._sample(_sample_rows(self._rows, lists))
        centroids_LD = centroids(sample_SD, lists, self._device, self._work / "centroids.safetensors", self._activity)
        _write_index(_trained(self._choice, centroids_LD, sample_SD[:_CODE_SAMPLE].float()), path)

    def _sample(self, count: int) -> Tensor:
        """Rows drawn at random, float16 [S, D], in random order."""
        draw = np.random.default_rng(self._rows)
        drawn = np.sort(draw.choice(self._rows, count, replace=False))
        pieces = []
        for shard in self._shards:
            self._activity.check()
            own = drawn[(drawn >= shard["start"]) & (drawn < shard["stop"])] - shard["start"]
            pieces.append(self._read(shard)[torch.from_numpy(own)])
        return torch.cat(pieces)[torch.from_numpy(draw.permutation(count))]

    def _read(self, shard: Mapping[str, Any]) -> Tensor:
        """A shard's vectors, mapped."""
        return read_vectors(self._folder / shard["file"], shard["stop"] - shard["start"], self._dimension)

    # ---- adding

    def _add(self, trained: Path) -> list[Path]:
        """The files of all parts; existing ones are not made again."""
        import faiss

        size = max(_PART_ROWS, self._choice.lists * _PART_ROWS_PER_LIST)
        index = faiss.read_index(str(trained))
        quantiser = faiss.downcast_index(index.quantizer)
        storage = faiss.downcast_index(quantiser.storage) if self._choice.has_graph else quantiser
        centroids_LD = torch.from_numpy(storage.reconstruct_n(0, self._choice.lists))
        assign = Assigner(centroids_LD, self._device)
        paths = []
        for number, start in enumerate(range(0, self._rows, size)):
            path = self._work / f"part-{number:05d}.faiss"
            paths.append(path)
            if not path.exists():
                index.reset()
                for first, vectors_BD in self._pieces(start, min(start + size, self._rows)):
                    self._activity.check()
                    _add_to_lists(index, vectors_BD, assign(vectors_BD), first)
                    self._activity.progress(first + len(vectors_BD), self._rows, "blocks", "into lists")
                _write_index(index, path)
        return paths

    def _pieces(self, start: int, stop: int) -> Iterator[tuple[int, Tensor]]:
        """(first row, vectors in float32) of the rows from start to stop."""
        for shard in self._shards:
            low, high = max(start, shard["start"]), min(stop, shard["stop"])
            if low >= high:
                continue
            vectors_RD = self._read(shard)
            for first in range(low, high, _PIECE_ROWS):
                last = min(first + _PIECE_ROWS, high)
                yield first, vectors_RD[first - shard["start"] : last - shard["start"]].float()

    # ---- merging

    def _merge(self, trained: Path, paths: Sequence[Path]) -> None:
        import faiss

        made = self._work / "merged"
        remove_folder(made)
        made.mkdir()
        index = faiss.read_index(str(trained))
        needed = self._rows * (index.code_size + _ID_BYTES)
        if shutil.disk_usage(made).free < needed:  # FAISS writes through a mapping, which a full disk kills
            raise RealmError(f"The disk that holds {self._folder} has no room for lists of {needed:,} bytes.")
        self._activity.say("The lists are merged.")
        parts = [faiss.read_index(str(path), faiss.IO_FLAG_MMAP) for path in paths]
        lists = faiss.OnDiskInvertedLists(index.nlist, index.code_size, str(made / LISTS_FILE))
        pointers = faiss.InvertedListsPtrVector()
        for part in parts:
            pointers.push_back(part.invlists)
        lists.merge_from_multiple(pointers.data(), pointers.size(), False)
        places_L3 = np.empty((index.nlist, 3), np.uint64)
        faiss.memcpy(faiss.swig_ptr(places_L3), lists.lists.data(), places_L3.nbytes)
        save_array(made / PLACES_FILE, places_L3)
        shutil.copyfile(trained, made / INDEX_FILE)
        for name in FILES:  # the index last: its presence means that all exist
            sync(made / name)
            os.replace(made / name, self._folder / name)


def _sample_rows(rows: int, lists: int) -> int:
    """How many rows the centroids are learnt from."""
    return min(rows, max(lists * _SAMPLE_PER_LIST, _CODE_SAMPLE))


def _trained(choice: SearchChoice, centroids_LD: Tensor, sample_SD: Tensor) -> Any:
    """An empty index of FAISS with these centroids; its codes are learnt from a sample in float32."""
    import faiss

    lists, dimension = centroids_LD.shape
    if choice.has_graph:
        quantiser = faiss.IndexHNSWFlat(dimension, _GRAPH_DEGREE, faiss.METRIC_INNER_PRODUCT)
    else:
        quantiser = faiss.IndexFlatIP(dimension)
    quantiser.add(centroids_LD.numpy())
    kind, size = choice.code[:2], int(choice.code[2:])
    about = quantiser, dimension, lists
    if kind == "SQ":
        index = faiss.IndexIVFScalarQuantizer(*about, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT, True)
    else:
        index = faiss.IndexIVFPQ(*about, size, 8, faiss.METRIC_INNER_PRODUCT)
    index.train(sample_SD.numpy())  # the codes alone: the centroids are there
    return index


def _add_to_lists(index: Any, vectors_BD: Tensor, lists_B: Tensor, first: int) -> None:
    import faiss

    vectors, lists = vectors_BD.contiguous().numpy(), lists_B.numpy()
    ids = np.arange(first, first + len(vectors), dtype=np.int64)
    index.add_core(len(vectors), faiss.swig_ptr(vectors), faiss.swig_ptr(ids), faiss.swig_ptr(lists))


def _write_index(index: Any, path: Path) -> None:
    import faiss

    with replaced(path) as temporary:
        try:
            faiss.write_index(index, str(temporary))
        except RuntimeError as error:
            raise RealmError(f"{path} cannot be written: {quoted(str(error))}.") from None
