"""Approximate search against exact search, on vectors of real blocks that are multiplied with noise.

python -m benchmarks.any_size --rows 13000000 --folder DIR    killed, the same command goes on
python -m benchmarks.any_size --search http://host:19530      in Milvus, which is filled first
python -m benchmarks.any_size --allowed 0.1                   among a tenth of the blocks, as with a filter

Each block's vector is taken as often as is needed, each time with noise of the covariance that the blocks have among
themselves. It is so strong that two copies of a block are as far from each other as a block and its nearest neighbour
are among the real ones (a cosine of 0.62). Questions are real ones.

Legend: Q questions, N rows, R rows of a shard, K results, D dimension.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

from benchmarks.inputs import MODEL, QUESTIONS, with_status
from benchmarks.machine import describe, now
from benchmarks.rounds import latencies
from realm_core.arrays import open_array, save_array
from realm_core.files import read_json, sha256_of_file, write_json
from realm_core.index.allowed_rows import AllowedRows
from realm_core.index.approximate_build import FILES, build_search
from realm_core.index.build import SHIPPED
from realm_core.index.choice import MilvusServer, WantedSearch, choose
from realm_core.index.embedding import embed
from realm_core.index.generation import Generation, read_vectors
from realm_core.index.search import ExactSearch, stable_top
from realm_core.index.to_milvus import open_vectors
from realm_core.living.search import open_base
from realm_core.model.checkpoint import load_model
from realm_core.runs.activity import Activity
from realm_core.tensors import save_tensors
from realm_core.text.joins import join_query
from realm_core.text.wordpieces import Wordpieces

RESULT = Path(__file__).resolve().parent / "results" / "any-size.json"
ROWS = 200_000
K = 5
_SHARD_ROWS = 50_000
_NOISE = 0.8  # standard deviations
_WARM_UP = 20  # questions
_FILES = ("plain-dev.jsonl", "stranger-dev.jsonl", "casual-dev.jsonl")
_CPU = torch.device("cpu")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Corpus:
    """Vectors of so many blocks in a folder, and questions about them.

    allowed: the share of the blocks that may be found, which are drawn at random.
    """

    folder: Path
    rows: int
    allowed: float = 1.0

    def write(self) -> list[dict[str, Any]]:
        """Write what is missing of questions and shards; the shards' manifest entries."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if not self._questions.exists():
            save_array(self._questions, _question_vectors().numpy())
        real_ND = Generation.open(MODEL.with_name("realm-base") / SHIPPED).vectors_ND.float()
        length = real_ND.norm(dim=1).mean()
        spread_DD = torch.linalg.cholesky(torch.cov(real_ND.T) + 1e-6 * torch.eye(real_ND.shape[1]))
        shards = []
        for number, start in enumerate(range(0, self.rows, _SHARD_ROWS)):
            stop = min(start + _SHARD_ROWS, self.rows)
            path = self.folder / f"vectors-{number:05d}.safetensors"
            if not path.exists():
                draw = torch.Generator().manual_seed(number)
                noise_RD = torch.randn(stop - start, real_ND.shape[1], generator=draw) @ spread_DD.T
                vectors_RD = real_ND[torch.arange(start, stop) % len(real_ND)] + _NOISE * noise_RD
                save_tensors(path, {"vectors": (torch.nn.functional.normalize(vectors_RD) * length).half()})
            shards.append({"file": path.name, "start": start, "stop": stop, "sha256": sha256_of_file(path)})
        return shards

    def questions(self) -> torch.Tensor:
        """Vectors [Q, D]."""
        return torch.from_numpy(np.array(open_array(self._questions, np.float32, (None, None))))

    def nearest(self, shards: list[dict[str, Any]]) -> torch.Tensor:
        """Rows [Q, K] that exact search finds; kept, once they were computed."""
        mask_N = self.mask()
        kept = self.folder / f"exact-{self.rows}-{self.allowed:g}.npy"
        if not kept.exists():
            queries_QD = self.questions()
            best = torch.empty(len(queries_QD), 0)
            rows = torch.empty(len(queries_QD), 0).long()
            for shard in shards:
                vectors_RD = read_vectors(
                    self.folder / shard["file"], shard["stop"] - shard["start"], queries_QD.shape[1]
                )
                rows_M = mask_N[shard["start"] : shard["stop"]].nonzero().flatten()
                own_rows, own = ExactSearch(vectors_RD[rows_M]).search(queries_QD, K)
                best, order = stable_top(torch.cat([best, own], dim=1), K)
                rows = torch.cat([rows, rows_M[own_rows] + shard["start"]], dim=1).gather(1, order)
            save_array(kept, rows.numpy())
        return torch.from_numpy(np.array(open_array(kept, np.int64, (None, K))))

    def mask(self) -> torch.Tensor:
        """bool [N]: which rows may be found."""
        return torch.rand(self.rows, generator=torch.Generator().manual_seed(self.rows)) < self.allowed

    @property
    def _questions(self) -> Path:
        return self.folder / "questions.npy"


def measure(rows: int, folder: Path, threads: int, wanted: str = "ivf", allowed: float = 1.0) -> dict[str, Any]:
    """Build what is missing and measure; the figures.

    wanted: "ivf", "exact", or the address of a server of Milvus. allowed: the share of the blocks that may be found.
    """
    corpus = Corpus(folder, rows, allowed)
    _say(f"{rows:,} vectors")
    shards = corpus.write()
    _say("exact search")
    corpus.nearest(shards)
    dimension = corpus.questions().shape[1]
    kind = "ivf" if wanted == "ivf" else "exact"
    choice, search = choose(rows, dimension, kind), _search(wanted)
    _say(choice.reason)
    spent = folder / "spent.json"
    manifest = folder / "manifest.json"
    if not manifest.exists():
        entry = _timed(spent, lambda: build_search(folder, shards, dimension, Activity(), wanted=kind))
        told = {"format": 1, "generation": "any-size", "rows": rows, "dim": dimension}
        write_json(manifest, {**told, "shards": shards, "search": entry}, sealed=True)
    if isinstance(search, MilvusServer):
        activity = Activity()
        _timed(spent, lambda: open_vectors(folder, search, lambda d, total: activity.progress(d, total, "vectors")))
    own = [sys.executable, "-m", "benchmarks.any_size", "--rows", str(rows), "--folder", str(folder)]
    own += ["--search", wanted, "--allowed", str(allowed)]
    _say("searches, in a process of their own")
    ended = subprocess.run([*own, "--threads", str(threads), "--measure"], check=True, stdout=subprocess.PIPE)
    return {
        "rows": rows,
        "dimension": dimension,
        "k": K,
        "allowed": allowed,
        "noise": _NOISE,
        "search": f"Milvus at {wanted}" if isinstance(search, MilvusServer) else choice.reason,
        "lists": choice.lists,
        "probes": choice.probes,
        "build_s": read_json(spent)["seconds"],
        "bytes": {
            "vectors": sum((folder / shard["file"]).stat().st_size for shard in shards),
            "index": sum((folder / name).stat().st_size for name in FILES if kind == "ivf"),
        },
        **json.loads(ended.stdout),
    }


def searches(corpus: Corpus, threads: int, wanted: str) -> dict[str, Any]:
    """Recall, times and memory of this process, which does nothing else."""
    import psutil

    torch.set_num_threads(threads)
    search = open_base(corpus.folder, _CPU, _search(wanted))
    allowed = AllowedRows(corpus.mask(), search.device)
    queries_QD, exact_QK = corpus.questions(), corpus.nearest([])
    for query_D in queries_QD[-_WARM_UP:]:
        search.search(query_D.unsqueeze(0), K, allowed)
    times_ms, processor_ms, found = [], [], []
    for query_D in queries_QD:
        began, began_processor = time.perf_counter(), time.process_time()
        found.append(search.search(query_D.unsqueeze(0), K, allowed)[0])
        processor_ms.append((time.process_time() - began_processor) * 1e3)
        times_ms.append((time.perf_counter() - began) * 1e3)
    hits = [len(set(a) & set(b)) / K for a, b in zip(torch.cat(found).tolist(), exact_QK.tolist(), strict=True)]
    memory = psutil.Process().memory_full_info()
    return {
        "questions": len(queries_QD),
        "recall": statistics.mean(hits),
        **latencies(times_ms),
        "processor": latencies(processor_ms),  # to which other processes of a busy machine add nothing
        "resident_mib": memory.rss / 2**20,
        "of_that_mapped_files_mib": memory.shared / 2**20,
    }


def _search(wanted: str) -> WantedSearch:
    return "ivf" if wanted == "ivf" else "exact" if wanted == "exact" else MilvusServer(wanted)


def _question_vectors() -> torch.Tensor:
    model = load_model(MODEL)
    model.query.for_inference(_CPU)
    lines = [line for name in _FILES for line in (QUESTIONS.parent / name).read_text(encoding="utf-8").splitlines()]
    texts = [json.loads(line)["question"] for line in lines if line.strip()]
    return embed(model.query, join_query(Wordpieces.default(), texts, model.config.query_wordpieces))


def _timed(kept: Path, work: Callable[[], Result]) -> Result:
    """What `work` returns; the seconds of all attempts are added up in a file."""
    before = read_json(kept)["seconds"] if kept.exists() else 0.0
    began = time.monotonic()
    try:
        return work()
    finally:
        write_json(kept, {"seconds": before + time.monotonic() - began})


def _say(what: str) -> None:
    print(f"Any size: {what}", file=sys.stderr, flush=True)


@with_status
def main(argv: Sequence[str] | None = None) -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.any_size", description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--folder", type=Path, help="where vectors and index are kept (default: removed at the end)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--search", default="ivf", help="ivf, exact, or the address of a server of Milvus")
    parser.add_argument("--allowed", type=float, default=1.0, help="share of the blocks that may be found")
    parser.add_argument("--output", type=Path, default=RESULT)
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if not 0 < arguments.allowed <= 1:
        parser.error("--allowed must be above 0, and 1 at most")
    torch.set_num_threads(arguments.threads)
    if arguments.measure:
        corpus = Corpus(arguments.folder, arguments.rows, arguments.allowed)
        print(json.dumps(searches(corpus, arguments.threads, arguments.search)))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        figures = measure(arguments.rows, folder, arguments.threads, arguments.search, arguments.allowed)
    write_json(arguments.output, {"created": now(), "machine": describe(), **figures})
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    sys.exit(main())
