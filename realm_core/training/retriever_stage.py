"""Fine-tuning the query embedder against a frozen matrix of block vectors.

Loss: −log of the retriever marginal over the correct blocks, Σ_{z correct} softmax f(x, z), over every block of the
index and every passage of the rows: the early loss of ORQA (Lee, Chang, Toutanova, 2019), its beam widened to all.
Block vectors never change, so an index built before stays right.

Legend: B questions, N vectors, D dimension.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from realm_core.corpus.records import block_id
from realm_core.corpus.store import Snapshot
from realm_core.index.embedding import embed
from realm_core.model.checkpoint import Model
from realm_core.model.device import fast_dtype
from realm_core.model.marginal import log_retriever_marginal
from realm_core.model.packed import Packed
from realm_core.text.joins import Joined, join_block, join_query
from realm_core.text.wordpieces import Wordpieces
from realm_core.training.rows import Passage, ReadingRow


@dataclass(frozen=True)
class RetrieverTask:
    """Questions with the rows of `matrix_ND` that answer them, split into learnt and held out."""

    matrix_ND: Tensor
    learnt: list[tuple[Joined, list[int]]]
    held_out: list[tuple[Joined, list[int]]]


def retriever_task(
    model: Model, snapshot: Snapshot, vectors_ND: Tensor, learnt: Sequence[ReadingRow], held_out: Sequence[ReadingRow]
) -> RetrieverTask:
    """Find the rows' passages in the snapshot; embed those that are not in it as further rows of the matrix."""
    extra: dict[Passage, int] = {}

    def row_of(passage: Passage) -> int:
        row = snapshot.row_of(block_id(*passage))
        return row if row is not None else len(snapshot) + extra.setdefault(passage, len(extra))

    wordpieces = Wordpieces.default()

    def examples(rows: Sequence[ReadingRow]) -> list[tuple[Joined, list[int]]]:
        joined = join_query(wordpieces, [row.question for row in rows], model.config.query_wordpieces)
        return [
            (query, [row_of(passage) for passage in row.positives]) for query, row in zip(joined, rows, strict=True)
        ]

    learnt_examples, held_examples = examples(learnt), examples(held_out)
    matrix_ND = vectors_ND.float()
    if extra:
        joined = join_block(
            wordpieces, [title for title, _ in extra], [text for _, text in extra], model.config.block_wordpieces
        )
        matrix_ND = torch.cat([matrix_ND, embed(model.block, joined)])
    return RetrieverTask(matrix_ND, learnt_examples, held_examples)


def retriever_steps(examples: int, batch: int, epochs: int) -> int:
    """Steps of a training: whole batches of every epoch, at least one."""
    return max(1, examples // batch) * epochs


class RetrieverBatches:
    """Batches by step: each epoch is a shuffle that follows from the seed and the epoch's number."""

    def __init__(self, task: RetrieverTask, batch: int, seed: int) -> None:
        self._task, self._batch, self._seed = task, batch, seed
        self._per_epoch = max(1, len(task.learnt) // batch)
        self._epoch, self._order = -1, list(range(len(task.learnt)))

    def __call__(self, step: int) -> list[tuple[Joined, list[int]]]:
        """The examples of a step."""
        epoch, position = divmod(step, self._per_epoch)
        if epoch != self._epoch:
            self._order = list(range(len(self._task.learnt)))
            random.Random(f"{self._seed} retriever {epoch}").shuffle(self._order)
            self._epoch = epoch
        return [self._task.learnt[i] for i in self._order[position * self._batch : (position + 1) * self._batch]]


def scores(model: Model, matrix_ND: Tensor, examples: Sequence[tuple[Joined, list[int]]]) -> Tensor:
    """f(x, z) [B, N], with a gradient to the query embedder."""
    device = matrix_ND.device
    batch = Packed.of([query.ids for query, _ in examples]).to(device)
    with torch.autocast(device.type, dtype=torch.bfloat16, enabled=fast_dtype(device) == torch.bfloat16):
        vectors_BD = model.query(batch)
    scores_BN: Tensor = vectors_BD.float() @ matrix_ND.T  # in full precision: differences of scores are what counts
    return scores_BN


def retriever_loss(scores_BN: Tensor, examples: Sequence[tuple[Joined, list[int]]]) -> Tensor:
    """Mean −log retriever marginal over the batch."""
    correct_BN = torch.zeros_like(scores_BN, dtype=torch.bool)
    for row, (_, correct) in enumerate(examples):
        correct_BN[row, correct] = True
    return -log_retriever_marginal(scores_BN, correct_BN).mean()


def retriever_recall(model: Model, task: RetrieverTask, *, at_once: int = 256) -> dict[str, float]:
    """Held-out recall: how often one of a question's passages is among the best 1, 5 and 20."""
    hits = {1: 0, 5: 0, 20: 0}
    model.query.eval()
    with torch.inference_mode():
        for start in range(0, len(task.held_out), at_once):
            examples = task.held_out[start : start + at_once]
            best_BK = scores(model, task.matrix_ND, examples).topk(min(20, task.matrix_ND.shape[0])).indices.tolist()
            for best_K, (_, correct) in zip(best_BK, examples, strict=True):
                for k in hits:
                    hits[k] += bool(set(best_K[:k]) & set(correct))
    model.query.train()
    return {f"recall@{k}": count / max(1, len(task.held_out)) for k, count in hits.items()}
