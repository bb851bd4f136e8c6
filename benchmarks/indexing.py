"""Building an index: our embedding path against sentence-transformers' `encode`, same blocks, same encoder weights."""

from __future__ import annotations

import copy
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks.exports import export_sentence_encoder
from benchmarks.inputs import Inputs, Size
from benchmarks.peers import PeerProcess
from benchmarks.rounds import ratios, run_rounds, summary
from realm_core.errors import RealmError
from realm_core.index.embedding import embed
from realm_core.model.checkpoint import Model, load_model
from realm_core.model.device import fast_dtype
from realm_core.model.embedder import Embedder
from realm_core.model.operations import encoder_flops
from realm_core.model.packed import Packed
from realm_core.text.joins import join_block
from realm_core.text.wordpieces import Wordpieces

OURS, THEIRS = "realm_core", "sentence-transformers"
_COMPARED_VECTORS = 16
_LEAST_COSINE = 0.99  # bfloat16 against float32 stays above 0.999; other weights would fall far below
_CPU = torch.device("cpu")


def measure(inputs: Inputs, peer: PeerProcess, size: Size, rates: dict[str, dict[str, float]]) -> dict[str, Any]:
    """Seconds, rates and ratios over `size.blocks` blocks; rates: `machine.matrix_rates`."""
    model = load_model(inputs.model)
    fast = fast_dtype(_CPU)
    titles, texts = inputs.blocks(size.blocks)
    lengths = [len(joined.ids) for joined in join_block(Wordpieces.default(), titles, texts, _limit(model))]
    embedders = {OURS: _in_dtype(model.block, fast)}
    if fast != torch.float32:
        embedders[f"{OURS}, float32"] = _in_dtype(model.block, torch.float32)
    with tempfile.TemporaryDirectory() as folder:
        encoder = Path(folder) / "encoder"
        export_sentence_encoder(model.block.bert, model.config.base, encoder)
        their_dtypes = {THEIRS: "float32"}
        if fast != torch.float32:
            their_dtypes[f"{THEIRS}, {_name(fast)}"] = _name(fast)
        for name, dtype in their_dtypes.items():
            peer.call("load_encoder", name=name, folder=str(encoder), dtype=dtype, max_wordpieces=_limit(model))
    # In a text, sentence-transformers' tokenizer takes [SEP] for the special wordpiece: both sides see the same ids.
    peer.call("give_texts", texts=[f"{title} [SEP] {text}" for title, text in zip(titles, texts, strict=True)])
    their_lengths = peer.call("wordpieces", name=THEIRS)
    cosine = _least_cosine(embedders[OURS], model, titles, texts, peer)

    contestants: dict[str, Callable[[int], float]] = {
        **{name: partial(_embed_s, model, embedder, titles, texts) for name, embedder in embedders.items()},
        **{name: partial(_their_s, peer, name) for name in their_dtypes},
    }
    for contestant in contestants.values():
        contestant(size.warm_up_blocks)
    seconds = run_rounds({name: partial(run, size.blocks) for name, run in contestants.items()}, size.rounds)
    flops, wordpieces = encoder_flops(model.block.bert.config, lengths), sum(lengths)
    dtypes = {name: _name(embedder.bert.dtype) for name, embedder in embedders.items()} | their_dtypes
    return {
        "blocks": size.blocks,
        "rounds": size.rounds,
        "wordpieces": wordpieces,
        "wordpieces_theirs": sum(their_lengths),
        "blocks_with_other_wordpieces": sum(a != b for a, b in zip(lengths, their_lengths, strict=True)),
        "least_cosine": cosine,
        "encoder_gflop": flops / 1e9,
        "contestants": {
            name: {
                "dtype": dtypes[name],
                "seconds": summary(times),
                "blocks_per_s": summary([size.blocks / s for s in times]),
                "wordpieces_per_s": summary([wordpieces / s for s in times]),
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
    }


def _embed_s(model: Model, embedder: Embedder, titles: list[str], texts: list[str], first: int) -> float:
    """Seconds of what `realm_core index` does with a chunk of up to 512 blocks: wordpieces, vectors, float16."""
    started_at = time.perf_counter()
    embed(embedder, join_block(Wordpieces.default(), titles[:first], texts[:first], _limit(model))).half()
    return time.perf_counter() - started_at


def _their_s(peer: PeerProcess, name: str, first: int) -> float:
    seconds: float = peer.call("encode", name=name, first=first)
    return seconds


def _least_cosine(embedder: Embedder, model: Model, titles: list[str], texts: list[str], peer: PeerProcess) -> float:
    """Lowest cosine between our mean-pooled states and their vectors: proof that both encoders are one.

    Segments are 0 throughout here, because sentence-transformers gives a text no second segment.
    """
    joined = join_block(Wordpieces.default(), titles[:_COMPARED_VECTORS], texts[:_COMPARED_VECTORS], _limit(model))
    with torch.inference_mode():
        pooled_BW = Embedder.pool(_mean_pooling(embedder), Packed.of([sequence.ids for sequence in joined]))
    theirs_BW = torch.tensor(peer.call("vectors", name=THEIRS, first=len(joined)))
    cosine = float(torch.nn.functional.cosine_similarity(pooled_BW, theirs_BW).min())
    if cosine < _LEAST_COSINE:
        raise RealmError(
            f"Both sides should have the same encoder, but their vectors differ (cosine {cosine:.3f}); "
            "a comparison of their speeds would mean nothing."
        )
    return cosine


def _mean_pooling(embedder: Embedder) -> Embedder:
    same = copy.copy(embedder)
    same.pooling = "mean"
    return same


def _in_dtype(embedder: Embedder, dtype: torch.dtype) -> Embedder:
    """A copy whose BERT computes in `dtype`, as the index builder has it."""
    own = copy.deepcopy(embedder)
    own.bert.to(dtype=dtype)
    return own


def _limit(model: Model) -> int:
    return model.config.block_wordpieces


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
