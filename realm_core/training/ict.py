"""Inverse Cloze Task: `python -m realm_core ict` warms up the embedder, which learns to find a sentence's block.

A sentence is drawn from each block and, nine times in ten, removed from it; the other blocks of the batch, in all
processes, are the negatives (Lee, Chang, Toutanova, 2019; paper, section 3.4). One embedder is used for both sides.

Legend: B examples of this process, A of all processes, D dimension.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from realm_core.arrays import Array
from realm_core.corpus.store import Snapshot
from realm_core.errors import RealmError
from realm_core.model.checkpoint import load_model
from realm_core.model.device import fast_dtype
from realm_core.model.embedder import Embedder
from realm_core.model.joiner import Joiner, Pieces
from realm_core.text.sentences import sentence_spans
from realm_core.text.wordpieces import Wordpieces
from realm_core.training.distributed import World
from realm_core.training.identity import deciding, identity_of
from realm_core.training.loop import ParameterGroup, made_ready
from realm_core.training.stage import (
    HELD_OUT_BY,
    Prefetch,
    Stage,
    check_batch,
    in_run_folder,
    passage_counts,
    split_passages,
)
from realm_core.training.tasks import Ict

_RECALL_AT = (1, 5, 20)


@dataclass(frozen=True)
class Cloze:
    """A batch. queries: ids of the sentences; rows_B: their blocks; first_B, stop_B: body wordpieces removed."""

    queries: list[list[int]]
    rows_B: Array
    first_B: Array
    stop_B: Array

    def part(self, which: slice) -> Cloze:
        return Cloze(self.queries[which], self.rows_B[which], self.first_B[which], self.stop_B[which])


class ClozeBatches:
    """Draws sentences. limit: wordpieces of join(x); keep: probability that the sentence stays in its block."""

    def __init__(self, snapshot: Snapshot, *, limit: int, keep: float) -> None:
        self._snapshot, self._limit, self._keep = snapshot, limit - 2, keep
        self._wordpieces = Wordpieces.default()

    def __call__(self, rows: Sequence[int], seed: str) -> Cloze:
        """A sentence of each block, independent of the other rows. A block of one sentence keeps it."""
        texts = [self._snapshot.block(row).text for row in rows]
        sentences = [sentence_spans(text) for text in texts]
        draws = [random.Random(f"{seed} {row}") for row in rows]
        drawn = [draw.choice(choices) for draw, choices in zip(draws, sentences, strict=True)]
        keeps = [
            draw.random() < self._keep or len(choices) == 1 for draw, choices in zip(draws, sentences, strict=True)
        ]
        found = self._wordpieces.ids_and_places(texts, [(start, end - 1) for start, end in drawn])
        queries, firsts, stops = [], [], []
        for (ids, (first, last)), keep in zip(found, keeps, strict=True):
            if first is None or last is None:  # the sentence begins or ends with characters that the vocabulary drops
                first, last, keep = 0, len(ids) - 1, True
            queries.append(ids[first : min(last + 1, first + self._limit)])
            firsts.append(0 if keep else first)
            stops.append(0 if keep else last + 1)
        return Cloze(queries, np.array(rows, np.int64), np.array(firsts, np.int64), np.array(stops, np.int64))


@in_run_folder
def main(task: Ict, stage: Stage) -> None:
    config, world = task.settings, stage.world
    check_batch(config, world, each=2)
    snapshot = Snapshot.verified(task.corpus)
    tokens = stage.open_tokens(snapshot)
    learnt, held_out = split_passages(tokens.text_hashes_N, config.holdout)
    if len(learnt) < 2 * world.size:
        raise RealmError(
            f"{task.corpus} holds {len(learnt)} blocks to train on besides those held out; at least {2 * world.size} "
            "are needed, two for each process, so that every sentence has a negative."
        )
    stage.tell_none_held_out(len(held_out), len(learnt), "blocks", config.holdout)
    examples = min(config.batch, len(learnt))
    _check_parts(examples, config.at_once, world)
    model = load_model(task.model)
    embedder = model.block
    made_ready(embedder, stage.device, config.dropout)
    step = IctStep(embedder, Joiner(tokens, stage.device), model.config.block_wordpieces, world)
    replica = world.replicate(step)
    draw_batch = ClozeBatches(snapshot, limit=model.config.query_wordpieces, keep=config.keep_sentence)

    def draw_step(number: int) -> Cloze:
        seed = f"{config.seed} cloze {number}"
        return draw_batch(random.Random(seed).sample(learnt, examples)[world.share(examples)], seed)

    ahead = Prefetch(draw_step)

    def losses_of(number: int) -> Iterator[tuple[Tensor, dict[str, float]]]:
        batch = ahead(number)
        for parts in world.averaged(replica, zip(*shared_parts(examples, config.at_once, world.size), strict=True)):
            part = batch.part(parts[world.rank])
            loss, accuracy = replica(part, [one.stop - one.start for one in parts])
            yield loss * world.weight(len(part.rows_B), examples), {"accuracy": accuracy, "sequences": len(part.rows_B)}

    def measure() -> dict[str, float]:
        if not held_out:
            return {}
        embedder.eval()
        with torch.no_grad():
            query_BD, block_BD = step.vectors(draw_batch(held_out, "held out"))
            figures = recall(query_BD @ block_BD.T)
        embedder.train()
        return figures

    free = ("steps", "checkpoint_every", "metrics_every")
    identity = identity_of(
        model=model.hash, corpus=snapshot.snapshot_id, held_out_by=HELD_OUT_BY, settings=deciding(config, free)
    )
    loop = stage.loop([ParameterGroup(embedder, config.learning_rate)], identity, steps=config.steps)
    embedder.train()
    try:
        measured = loop.run(losses_of, measure)
    finally:
        ahead.close()
    embedder.eval()
    recipe = f"inverse cloze task from {model.hash} on {snapshot.snapshot_id}: {config.model_dump()}"
    stage.publish(
        dataclasses.replace(model, query=embedder), recipe, measured, passages=passage_counts(learnt, held_out)
    )


def shared_parts(examples: int, at_once: int, processes: int) -> list[list[slice]]:
    """For each process the parts of its share, of at most `at_once` examples; all processes have equally many parts.

    The examples of a part, in all processes, are each other's negatives.
    """
    shares = [len(range(examples)[World(rank, processes).share(examples)]) for rank in range(processes)]
    count = -(-max(shares) // at_once)
    return [[slice(n * share // count, (n + 1) * share // count) for n in range(count)] for share in shares]


def _check_parts(examples: int, at_once: int, world: World) -> None:
    """Refuse parts of one example, which has no negative: parts of up to three always have more."""
    if at_once == 2 and world.size == 1 and examples % 2:
        raise RealmError(
            f"at_once must be at least 3, not 2, where a step has an odd number of examples, {examples} (batch, or the "
            "number of blocks to train on): a part of one example would have no negative."
        )


class IctStep(nn.Module):
    """The embedder and the computation of a batch. limit: wordpieces of a block."""

    def __init__(self, embedder: Embedder, joiner: Joiner, limit: int, world: World) -> None:
        super().__init__()
        self.embedder, self._joiner, self._limit, self._world = embedder, joiner, limit, world
        self._autocast = fast_dtype(joiner.device) == torch.bfloat16

    def forward(self, batch: Cloze, counts: Sequence[int]) -> tuple[Tensor, float]:
        """The loss of a batch and its accuracy. counts: the number of examples of each process."""
        query_BD, block_BD = self.vectors(batch)
        scores_BA = query_BD @ self._world.gather(block_BD, counts).T
        return in_batch_loss(scores_BA, sum(counts[: self._world.rank]))

    def vectors(self, batch: Cloze) -> tuple[Tensor, Tensor]:
        """(query_BD, block_BD): every sentence and every block of the batch, in float32."""
        device = self._joiner.device
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=self._autocast):
            query_BD = self.embedder(self._joiner.queries(Pieces.of(batch.queries, device)))
            block_BD = self.embedder(
                self._joiner.blocks_without(batch.rows_B, batch.first_B, batch.stop_B, self._limit)
            )
        return query_BD.float(), block_BD.float()


def in_batch_loss(scores_BA: Tensor, first: int) -> tuple[Tensor, float]:
    """Mean −log softmax of the right block among those of all processes, and how often it ranks first.

    first: the position of this process's first block.
    """
    truth_B = torch.arange(first, first + len(scores_BA), device=scores_BA.device)
    accuracy = (scores_BA.detach().argmax(1) == truth_B).float().mean().item()
    return torch.nn.functional.cross_entropy(scores_BA, truth_B), accuracy


def recall(scores_BB: Tensor) -> dict[str, float]:
    """How often the right block is among the best 1, 5 and 20 of the held-out blocks."""
    better_B = (scores_BB > scores_BB.diagonal().unsqueeze(1)).sum(1)
    return {f"recall@{k}": (better_B < k).float().mean().item() for k in _RECALL_AT}
