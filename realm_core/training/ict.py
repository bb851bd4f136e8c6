"""Inverse Cloze Task: `python -m realm_core ict` warms the embedder up: which block did this sentence come from?

A sentence is drawn from each block and, nine times in ten, taken out of it; the other blocks of the batch are what it
must be told apart from (Lee, Chang, Toutanova, 2019; paper, section 3.4). One embedder serves both sides.

Legend: B examples, D dimension.
"""

from __future__ import annotations

import argparse
import dataclasses
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from realm_core.activity import Activity
from realm_core.corpus.store import Snapshot
from realm_core.corpus.tokens import open_tokens
from realm_core.errors import RealmError
from realm_core.model.checkpoint import load_model
from realm_core.model.device import fast_dtype, pick_device
from realm_core.model.embedder import Embedder
from realm_core.model.joining import Joiner, Pieces
from realm_core.settings import read_settings
from realm_core.text.sentences import sentence_spans
from realm_core.text.wordpieces import Wordpieces
from realm_core.training.config import IctConfig
from realm_core.training.distributed import World, place
from realm_core.training.loop import Group, freeze, no_dropout_in_attention
from realm_core.training.stage import (
    HELD_OUT_BY,
    Ahead,
    add_stage_arguments,
    check_batch,
    even_parts,
    identity_of,
    publish,
    run_folder,
    split_passages,
    stage_loop,
)

_RECALL_AT = (1, 5, 20)
_Array = np.ndarray[Any, np.dtype[Any]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `ict`."""
    add_stage_arguments(parser, IctConfig)


@dataclass(frozen=True)
class Cloze:
    """A batch. queries: ids of the sentences; rows_B: their blocks; first_B, stop_B: body wordpieces taken out."""

    queries: list[list[int]]
    rows_B: _Array
    first_B: _Array
    stop_B: _Array

    def part(self, which: slice) -> Cloze:
        """Some of the batch's examples."""
        return Cloze(self.queries[which], self.rows_B[which], self.first_B[which], self.stop_B[which])


class ClozeBatches:
    """Draws sentences. limit: wordpieces of join(x); keep: how often the sentence stays in its block."""

    def __init__(self, snapshot: Snapshot, *, limit: int, keep: float) -> None:
        self._snapshot, self._limit, self._keep = snapshot, limit - 2, keep
        self._wordpieces = Wordpieces.default()

    def __call__(self, rows: Sequence[int], draw: random.Random) -> Cloze:
        """A sentence of each block. A block of one sentence keeps it: nothing would be left."""
        texts = [self._snapshot.block(row).text for row in rows]
        sentences = [sentence_spans(text) for text in texts]
        drawn = [draw.choice(own) for own in sentences]
        keeps = [draw.random() < self._keep or len(own) == 1 for own in sentences]
        found = self._wordpieces.ids_and_places(texts, [(start, end - 1) for start, end in drawn])
        queries, firsts, stops = [], [], []
        for (ids, (first, last)), keep in zip(found, keeps, strict=True):
            if first is None or last is None:  # a sentence that begins or ends with what the vocabulary drops
                first, last, keep = 0, len(ids) - 1, True
            queries.append(ids[first : min(last + 1, first + self._limit)])
            firsts.append(0 if keep else first)
            stops.append(0 if keep else last + 1)
        return Cloze(queries, np.array(rows, np.int64), np.array(firsts, np.int64), np.array(stops, np.int64))


def main(arguments: argparse.Namespace, activity: Activity) -> None:
    """Warm the embedder up and save the model."""
    config = read_settings(IctConfig, arguments.config, arguments.set)
    with run_folder(arguments, activity) as run:
        _make(config, run, arguments, activity)


def _make(config: IctConfig, run: Path, arguments: argparse.Namespace, activity: Activity) -> None:
    device = place(pick_device(arguments.device))
    world = World.join(device)
    check_batch(config, world, each=2)
    snapshot = Snapshot.open(arguments.corpus)
    tokens = open_tokens(snapshot, activity)
    learnt, held_out = split_passages(tokens.text_hashes_N, config.holdout)
    if len(learnt) < 2 * world.size:
        raise RealmError(
            f"{arguments.corpus} holds {len(learnt)} blocks to learn from; a sentence's block needs others to be told "
            f"from, so there must be at least {2 * world.size}, two for each process."
        )
    examples = min(config.batch, len(learnt))
    _check_parts(examples, config.at_once, world)
    model = load_model(arguments.model)
    joiner = Joiner(tokens, device)
    embedder, limit = model.block, model.config.block_wordpieces
    embedder.to(device)
    freeze(embedder.bert.embeddings)
    no_dropout_in_attention(embedder.bert, config.dropout)
    draw_batch = ClozeBatches(snapshot, limit=model.config.query_wordpieces, keep=config.keep_sentence)

    def made(step: int) -> Cloze:
        draw = random.Random(f"{config.seed} cloze {step}")
        return draw_batch(draw.sample(learnt, examples)[world.share(examples)], draw)

    ahead = Ahead(made)

    def losses_of(step: int) -> Iterator[tuple[Tensor, dict[str, float]]]:
        batch = ahead(step)
        for which in even_parts(len(batch.rows_B), config.at_once):
            part = batch.part(which)
            scores_BB = cloze_scores(embedder, joiner, part, limit)
            loss, accuracy = in_batch_loss(scores_BB)
            yield loss * world.weight(len(part.rows_B), examples), {"accuracy": accuracy, "sequences": len(part.rows_B)}

    def measure() -> dict[str, float]:
        if not held_out:
            return {}
        embedder.eval()
        with torch.no_grad():
            batch = draw_batch(held_out, random.Random("held out"))
            figures = recall(cloze_scores(embedder, joiner, batch, limit))
        embedder.train()
        return figures

    free = ("steps", "checkpoint_every", "metrics_every")
    identity = identity_of(
        model.hash,
        snapshot.snapshot_id,
        HELD_OUT_BY,
        [item for item in dataclasses.asdict(config).items() if item[0] not in free],
    )
    loop = stage_loop("ict", [Group(embedder, config.learning_rate)], config, identity, run, activity, world)
    embedder.train()
    try:
        measured = loop.run(losses_of, measure)
    finally:
        ahead.close()
    if not world.leads:
        return
    embedder.eval()
    recipe = f"inverse cloze task from {model.hash} on {snapshot.snapshot_id}: {dataclasses.asdict(config)}"
    made_model = dataclasses.replace(model, query=embedder)
    publish(made_model, arguments.output, recipe, measured, run, activity, left=["ict"])


def _check_parts(examples: int, at_once: int, world: World) -> None:
    """Refuse parts of one example, which has nothing to be told from: with parts of up to three there are none."""
    shares = [len(range(examples)[World(rank, world.size).share(examples)]) for rank in range(world.size)]
    if at_once == 2 and any(share % 2 for share in shares):
        raise RealmError(
            f"at_once must be at least 3, not 2, where a process has an odd number of the {examples} examples of a "
            "step (batch, or as many blocks as there are to learn from): one would be a part by itself, with no other "
            "to be told from."
        )


def cloze_scores(embedder: Embedder, joiner: Joiner, batch: Cloze, limit: int) -> Tensor:
    """f(x, z) [B, B] of every sentence and every block of the batch."""
    device = joiner.device
    with torch.autocast(device.type, dtype=torch.bfloat16, enabled=fast_dtype(device) == torch.bfloat16):
        query_BD = embedder(joiner.queries(Pieces.of(batch.queries, device)))
        block_BD = embedder(joiner.blocks_without(batch.rows_B, batch.first_B, batch.stop_B, limit))
    scores_BB: Tensor = query_BD.float() @ block_BD.float().T
    return scores_BB


def in_batch_loss(scores_BB: Tensor) -> tuple[Tensor, float]:
    """Mean −log softmax of the right block among the batch's, and how often it is the best."""
    truth_B = torch.arange(len(scores_BB), device=scores_BB.device)
    accuracy = (scores_BB.detach().argmax(1) == truth_B).float().mean().item()
    return torch.nn.functional.cross_entropy(scores_BB, truth_B), accuracy


def recall(scores_BB: Tensor) -> dict[str, float]:
    """How often the right block is among the best 1, 5 and 20 of those held out."""
    better_B = (scores_BB > scores_BB.diagonal().unsqueeze(1)).sum(1)
    return {f"recall@{k}": (better_B < k).float().mean().item() for k in _RECALL_AT}
