"""A step of pre-training, forward and backward, against the same step written with the REALM of transformers 4; and
what a refresh of the index costs."""

from __future__ import annotations

import copy
import dataclasses
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.exports import export_realm
from benchmarks.inputs import TOP, Inputs, Size, run_activity
from benchmarks.peers import PeerProcess
from benchmarks.rounds import ratios, run_rounds, summary
from realm_core.corpus.store import Snapshot
from realm_core.corpus.tokens import open_tokens
from realm_core.errors import RealmError
from realm_core.index.embedding import embed_rows
from realm_core.index.generation import Generation
from realm_core.model.base import base_architecture
from realm_core.model.bert import Architecture
from realm_core.model.checkpoint import Model, load_model, new_encoder
from realm_core.model.device import fast_dtype
from realm_core.model.joiner import Joiner, Pieces
from realm_core.model.marginal import log_prior, masked_language_loss
from realm_core.model.operations import PretrainingWork
from realm_core.model.packed import Packed
from realm_core.runs.activity import Activity
from realm_core.salient.cache import SalientSpans
from realm_core.training.config import PretrainConfig
from realm_core.training.live_index import LiveIndex, step_name
from realm_core.training.loop import no_dropout_in_attention
from realm_core.training.masking import MaskedBatches, MaskedSentences
from realm_core.training.pretrain_step import Filled, PretrainStep
from realm_core.training.threads import builder_threads

OURS, THEIRS = "realm_core", "transformers 4"
_PACKAGES = ("torch", "transformers", "tokenizers")
_SETTINGS = PretrainConfig()
_LARGEST_LOSS_DIFFERENCE = 1e-3
_LEAST_COSINE = 0.9999  # both in float32
_BUILDER_STARTS_WITHIN_S = 120.0
_CPU = torch.device("cpu")


def measure(
    inputs: Inputs, peer: PeerProcess, size: Size, rates: dict[str, dict[str, float]], threads: int
) -> dict[str, Any]:
    """Seconds, rates and ratios over `size.steps` batches; rates: `machine.matrix_rates`."""
    versions = peer.call("start", threads=threads, packages=_PACKAGES)
    side = _Side.prepare(inputs, size)
    fast = fast_dtype(_CPU)
    _prove_equal(side, peer)
    peer.call("give_pretraining", batches=[side.sequences(i) for i in range(size.steps)], k=_SETTINGS.k)
    dtypes = {OURS: _name(fast), THEIRS: "float32"}
    if fast != torch.float32:
        dtypes |= {f"{OURS}, float32": "float32", f"{THEIRS}, {_name(fast)}": _name(fast)}
    contestants: dict[str, Callable[[int], float]] = {
        name: partial(side.train_s, dtype) if name.startswith(OURS) else partial(_their_s, peer, dtype)
        for name, dtype in dtypes.items()
    }
    for contestant in contestants.values():
        contestant(1)
    seconds = run_rounds({name: partial(run, size.steps) for name, run in contestants.items()}, size.training_rounds)
    sentences = size.steps * size.sentences
    works = [side.work(i) for i in range(size.steps)]
    flops = sum(work.flops(side.bert_config) for work in works)
    return {
        "versions": versions,
        "k": _SETTINGS.k,
        "sentences": size.sentences,
        "steps": size.steps,
        "rounds": size.training_rounds,
        "wordpieces": sum(sum(work.queries + work.blocks + work.pairs) for work in works),
        "wordpieces_theirs": sum(_padded_wordpieces(side.sequences(i)) for i in range(size.steps)),
        "gflop": flops / 1e9,
        "contestants": {
            name: {
                "dtype": dtypes[name],
                "seconds": summary(times),
                "sequences_per_s": summary([sentences / s for s in times]),
                "gflops": summary([flops / s / 1e9 for s in times]),
                "share_of_peak": summary([flops / s / 1e9 / rates[dtypes[name]]["large_gflops"] for s in times]),
            }
            for name, times in seconds.items()
        },
        "ratio": ratios(seconds[THEIRS], seconds[OURS]),
        "ratio_same_dtype": {
            dtype: ratios(
                *(next(seconds[n] for n, d in dtypes.items() if d == dtype and n.startswith(s)) for s in (THEIRS, OURS))
            )
            for dtype in sorted(set(dtypes.values()))
        },
        "refresh": _refresh(side, inputs, size, threads),
    }


class _Step(PretrainStep):
    """The step of `realm_core pretrain`, in a precision of our choice."""

    def compute_in(self, dtype: str) -> None:
        self._autocast = dtype == "bfloat16"


class _SameBlocks(LiveIndex):
    """An index that searches each time, and answers what it found the first time: dropout moves a sentence's vector a
    little, and a batch must be the same in all rounds."""

    _first: tuple[Tensor, Tensor] | None = None

    def search(self, queries_BD: Tensor, k: int) -> tuple[Tensor, Tensor]:
        found = super().search(queries_BD, k)
        self._first = self._first or found
        return self._first


@dataclasses.dataclass(frozen=True)
class _Side:
    """Our side: a model, batches of masked sentences, and what each of them retrieved."""

    model: Model
    step: _Step
    joiner: Joiner
    bert_config: Architecture
    batches: list[MaskedSentences]
    indexes: list[_SameBlocks]
    filled: list[Filled]

    @classmethod
    def prepare(cls, inputs: Inputs, size: Size) -> _Side:
        """Salient spans of some blocks of the corpus, masked sentences from them, an encoder with a new head."""
        model, snapshot = load_model(inputs.model), Snapshot.open(inputs.corpus)
        encoder = model.encoder or new_encoder(model.config)
        model = dataclasses.replace(model, encoder=encoder)
        for part in (model.block, encoder):
            part.bert.embeddings.requires_grad_(False)
            no_dropout_in_attention(part.bert, _SETTINGS.dropout)
        tokens = open_tokens(snapshot, Activity())
        with tempfile.TemporaryDirectory() as folder:
            where = ("--corpus", str(inputs.corpus), "--output", str(Path(folder) / "spans"))
            spans = SalientSpans.open(run_activity("spans", *where, "--blocks", str(size.span_blocks)), snapshot)
        settings = _SETTINGS.model_copy(update={"batch": size.sentences})
        draw = MaskedBatches(snapshot, spans, range(len(spans.rows_N)), settings)
        joiner = Joiner(tokens, _CPU)
        step = _Step(
            model.block,
            encoder,
            joiner,
            tokens.text_hashes_N,
            model.config.block_wordpieces,
            _SETTINGS,
        )
        generation = Generation.open(inputs.index)
        batches = [draw(number) for number in range(size.steps)]
        indexes = [_SameBlocks(generation, 0, time.time(), _CPU) for _ in batches]
        step.compute_in("float32")
        step.eval()
        with torch.no_grad():
            filled = [step.fill(batch, own) for batch, own in zip(batches, indexes, strict=True)]
        config = base_architecture(model.config.base)
        return cls(model, step, joiner, config, batches, indexes, filled)

    def train_s(self, dtype: str, first: int) -> float:
        """Seconds of retrieval, joining, forward and backward over the first batches."""
        self.step.compute_in(dtype)
        self.step.train()
        taken_s = 0.0
        for batch, index in zip(self.batches[:first], self.indexes, strict=False):
            started_at = time.perf_counter()
            loss, _figures = self.step(batch, index)
            loss.backward()
            taken_s += time.perf_counter() - started_at
            self.step.zero_grad(set_to_none=True)
        return taken_s

    def _joined(self, number: int, *, once: bool) -> tuple[Packed, Packed, Packed]:
        """join(x), join(z), join(x, z) of a batch; once: a block that several sentences retrieved is there once."""
        queries = Pieces.of(self.batches[number].queries, _CPU)
        rows_BK = self.filled[number].rows_BK
        rows = np.unique(rows_BK) if once else rows_BK.reshape(-1)
        return (
            self.joiner.queries(queries),
            self.joiner.blocks(rows, self.model.config.block_wordpieces),
            self.joiner.pairs(
                queries.repeated(rows_BK.shape[1]),
                rows_BK.reshape(-1),
                _SETTINGS.pair_wordpieces,
                title=_SETTINGS.title,
            ),
        )

    def sequences(self, number: int) -> dict[str, Any]:
        """A batch as the peer takes it: every sentence with its own k blocks."""
        names = ("queries", "blocks", "pairs")
        batch = self.batches[number]
        joined = dict(zip(names, map(_lists, self._joined(number, once=False)), strict=True))
        return {**joined, "masks": batch.masks, "targets": batch.targets}

    def work(self, number: int) -> PretrainingWork:
        """What a step computes with."""
        queries, blocks, pairs = self._joined(number, once=True)
        masks = _SETTINGS.k * sum(map(len, self.batches[number].masks))
        return PretrainingWork(queries.lengths, blocks.lengths, pairs.lengths, masks, self.model.config.dimension)

    def single(self, number: int) -> tuple[dict[str, Any], list[list[float]], float]:
        """A sentence of the first batch by itself: as the peer takes it, its scores, its loss in the release's way,
        which is the peer's."""
        batch, filled = self.sequences(0), self.filled[0]
        own = slice(number, number + 1)
        pairs = slice(number * _SETTINGS.k, (number + 1) * _SETTINGS.k)
        loss = masked_language_loss(
            log_prior(filled.scores_BK[own]), filled.log_token_BKJ[own], filled.present_BJ[own], per_token=True
        )
        alone = {
            "queries": batch["queries"][own],
            **{name: batch[name][pairs] for name in ("blocks", "pairs")},
            **{name: batch[name][own] for name in ("masks", "targets")},
        }
        return alone, filled.scores_BK[own].tolist(), loss.item()


def _prove_equal(side: _Side, peer: PeerProcess) -> None:
    """Give the peer our weights, and see that from the same sequences it computes the same states and losses."""
    config = {
        **dataclasses.asdict(side.bert_config),
        "retriever_proj_size": side.model.config.dimension,
        "num_candidates": _SETTINGS.k,
        "hidden_dropout_prob": _SETTINGS.dropout,
        "attention_probs_dropout_prob": 0.0,  # as ours
        "pad_token_id": 0,
    }
    assert side.model.encoder is not None
    with tempfile.TemporaryDirectory() as folder:
        weights = Path(folder) / "realm.safetensors"
        export_realm(side.model.block, side.model.encoder, weights)
        peer.call("load_realm", weights=str(weights), config=config)
    singles = [side.single(number) for number in range(len(side.batches[0]))]
    peer.call("give_pretraining", batches=[alone for alone, _, _ in singles], k=_SETTINGS.k)
    theirs = peer.call("pretraining_losses", scores=[scores for _, scores, _ in singles])
    difference = max(abs(their - ours) for their, (_, _, ours) in zip(theirs, singles, strict=True))
    embedder = copy.copy(side.model.block)
    embedder.pooling = "cls"
    with torch.no_grad():
        own_BW = embedder.pool(side.joiner.queries(Pieces.of(side.batches[0].queries[:1], _CPU)))
    cosine = float(torch.nn.functional.cosine_similarity(own_BW, torch.tensor(peer.call("query_states"))).min())
    if difference > _LARGEST_LOSS_DIFFERENCE or cosine < _LEAST_COSINE:
        raise RealmError(
            f"Both sides should compute the same, but their losses differ by {difference:.2g} and their states have a "
            f"cosine of {cosine:.4f}; a comparison of their speeds would mean nothing."
        )


def _their_s(peer: PeerProcess, dtype: str, first: int) -> float:
    seconds: float = peer.call("pretrain", dtype=dtype, first=first)
    return seconds


def _lists(packed: Packed) -> list[tuple[list[int], list[int]]]:
    parts = zip(packed.ids_T.split(packed.lengths), packed.segments_T.split(packed.lengths), strict=True)
    return [(ids.tolist(), segments.tolist()) for ids, segments in parts]


def _padded_wordpieces(batch: dict[str, Any]) -> int:
    return sum(len(batch[name]) * max(len(ids) for ids, _ in batch[name]) for name in ("queries", "blocks", "pairs"))


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


# ── Refresh ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _refresh(side: _Side, inputs: Inputs, size: Size, threads: int) -> dict[str, Any]:
    """What the builder does alone, and what a trainer does alone and beside it."""
    embedder = copy.deepcopy(side.model.block)
    embedder.for_inference(_CPU)
    rows = np.linspace(0, len(Snapshot.open(inputs.corpus)) - 1, size.blocks).astype(np.int64)

    def build_s() -> float:
        started_at = time.perf_counter()
        embed_rows(embedder, side.joiner, rows.tolist(), side.model.config.block_wordpieces).half()
        return time.perf_counter() - started_at

    def train() -> dict[str, float]:
        sentences, dtype = size.steps * size.sentences, _name(fast_dtype(_CPU))
        return summary([sentences / side.train_s(dtype, size.steps) for _ in range(size.training_rounds)])

    alone = train()
    all_threads = torch.get_num_threads()
    with _builder(inputs, threads):
        torch.set_num_threads(max(1, all_threads - builder_threads(all_threads)))
        beside = train()
        torch.set_num_threads(all_threads)
    return {
        "builder_blocks_per_s": summary([len(rows) / build_s() for _ in range(size.training_rounds)]),
        "trainer_alone_sequences_per_s": alone,
        "trainer_beside_sequences_per_s": beside,
    }


@contextmanager
def _builder(inputs: Inputs, threads: int) -> Iterator[None]:
    """`realm_core refresh`, embedding the corpus in a process of its own, where it takes half of the threads."""
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "snapshots" / step_name(1)
        made.mkdir(parents=True)
        for path in filter(Path.is_file, inputs.model.iterdir()):  # but not the vectors that it may have brought along
            shutil.copy(path, made / path.name)
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "realm_core", "refresh", "--quiet", "--with-parent", str(os.getpid())),
                *("--trainer-run", folder, "--corpus", str(inputs.corpus), "--device", "cpu"),
            ],
            cwd=TOP,
            env={**os.environ, "OMP_NUM_THREADS": str(threads)},
        )
        try:
            partial_build = Path(folder) / "generations" / f".{step_name(1)}.partial"
            until = time.monotonic() + _BUILDER_STARTS_WITHIN_S
            while not partial_build.exists():
                if process.poll() is not None or time.monotonic() > until:
                    raise RealmError("The builder of the index does not begin; the reason stands above.")
                time.sleep(0.1)
            yield
            if process.poll() is not None:
                raise RealmError("The builder of the index ended while the trainer was measured beside it.")
        finally:
            process.kill()
            process.wait()
