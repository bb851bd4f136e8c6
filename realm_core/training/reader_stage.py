"""Fine-tuning the reader: each passage's spans and its "not here" compete in one softmax (`block+null`).

Loss of a (question, passage) pair: −log Σ over the spans that read the answer where there are such, −log of "not
here" where there are none. Pairs are independent of one another, so batches are made by length.

Legend: B pairs, N body wordpieces of all pairs, M widest span.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from realm_core.evaluation.answers import is_correct
from realm_core.index.embedding import batches_by_length
from realm_core.model.checkpoint import Model
from realm_core.model.config import ModelConfig
from realm_core.model.marginal import log_answer_marginal, log_reading
from realm_core.model.pairs import ReadingPair, collate
from realm_core.model.reader import by_block
from realm_core.text.matching import NormalText, answer_spans
from realm_core.text.wordpieces import Encoded, Wordpieces
from realm_core.training.config import FinetuneConfig
from realm_core.training.rows import Passage, ReadingRow

_WINDOW_BATCHES = 50  # lengths are sorted within this many batches, so that an epoch stays well mixed
_FIRST_POSITIVE_SHARE = 0.6  # the best-ranked passage is the likeliest to be right


@dataclass(frozen=True)
class Example:
    """A pair to learn from. spans: those that read the answer; empty: it is not here."""

    pair: ReadingPair
    spans: set[tuple[int, int]]


class Examples:
    """Makes examples, and keeps what was worked out of a passage for the next question on it."""

    def __init__(self, config: ModelConfig) -> None:
        self._config = config
        self._wordpieces = Wordpieces.default()
        self._encoded: dict[str, Encoded] = {}
        self._normal: dict[str, NormalText] = {}

    def __call__(self, row: ReadingRow, passage: Passage) -> Example:
        """The example of a row's question and one of its passages."""
        title, text = passage
        body = self._encode(text)
        pair = ReadingPair.of(self._wordpieces, self._config, self._encode(row.question), self._encode(title), body)
        if text not in self._normal:
            self._normal[text] = NormalText.of(text)
        spans = answer_spans(text, self._normal[text], body, row.answers, row.answer_type, self._config.span_wordpieces)
        return Example(pair, {(first, last) for first, last in spans if last < len(pair.offsets)})

    def _encode(self, text: str) -> Encoded:
        if text not in self._encoded:
            self._encoded[text] = self._wordpieces.encode([text])[0]
        return self._encoded[text]


def reader_loss(logits_NM: Tensor, examples: Sequence[Example], lengths: tuple[int, ...]) -> Tensor:
    """Mean over the pairs of −log p(answer | block, question) under `block+null`."""
    correct_NM = torch.zeros_like(logits_NM, dtype=torch.bool)
    start = 0
    for example in examples:
        for first, last in example.spans:
            correct_NM[start + first, last - first] = True
        start += len(example.pair.offsets)
    logits_B1S = by_block(logits_NM, lengths).unsqueeze(1)
    correct_BS = by_block(correct_NM, lengths, fill=False).bool()
    no_score_B1 = logits_B1S.new_zeros(logits_B1S.shape[0], 1)
    log_weight_B1, log_likelihood_B1S, log_null_B1 = log_reading(logits_B1S, no_score_B1, "block+null")
    assert log_null_B1 is not None
    # "Not here" joins the spans as one more reading, right where no span is.
    log_reading_B1S = torch.cat([log_likelihood_B1S, log_null_B1.unsqueeze(-1)], dim=-1)
    right_B1S = torch.cat([correct_BS, ~correct_BS.any(-1, keepdim=True)], dim=-1).unsqueeze(1)
    return -log_answer_marginal(log_weight_B1, log_reading_B1S, right_B1S).mean()


class ReaderBatches:
    """Batches by step. An epoch draws passages for every row, sorts within windows by length, and shuffles."""

    def __init__(self, rows: Sequence[ReadingRow], examples: Examples, config: FinetuneConfig) -> None:
        self._rows = [row for row in rows for _ in range(config.repeat.get(row.group, 1))]
        self._examples, self._config = examples, config
        self._epoch = -1
        self._groups: list[list[Example]] = []
        self._per_epoch = self._count() if self._rows else 0
        self.steps = self._per_epoch * config.reader_epochs

    def __call__(self, step: int) -> list[Example]:
        """The examples of a step."""
        epoch, position = divmod(step, self._per_epoch)
        self._prepare(epoch)
        return self._groups[position % len(self._groups)]

    def _count(self) -> int:
        self._prepare(0)
        return len(self._groups)

    def _prepare(self, epoch: int) -> None:
        if epoch == self._epoch:
            return
        draw = random.Random(f"{self._config.seed} reader {epoch}")
        chosen = []
        for row in self._rows:
            first = draw.random() < _FIRST_POSITIVE_SHARE
            chosen.append(self._examples(row, row.positives[0] if first else draw.choice(row.positives)))
            if row.negatives and draw.random() < self._config.negative_share:
                chosen.append(self._examples(row, draw.choice(row.negatives)))
        draw.shuffle(chosen)
        budget = self._config.reader_batch_wordpieces
        mean_length = sum(len(example.pair.ids) for example in chosen) / len(chosen)
        window = max(1, round(_WINDOW_BATCHES * budget / mean_length))
        groups: list[list[Example]] = []
        for start in range(0, len(chosen), window):
            part = chosen[start : start + window]
            groups.extend(
                [part[i] for i in group]
                for group in batches_by_length([len(example.pair.ids) for example in part], budget)
            )
        draw.shuffle(groups)
        self._epoch, self._groups = epoch, groups


def reader_exact_match(model: Model, rows: Sequence[ReadingRow], examples: Examples, budget: int) -> dict[str, float]:
    """Held-out exact match of the best span in a row's first positive passage, by group and in all (mean of groups)."""
    right: dict[str, list[bool]] = defaultdict(list)
    pairs = [examples(row, row.positives[0]).pair for row in rows]
    device = model.reader.ends.weight.device
    model.reader.eval()
    with torch.inference_mode():
        for group in batches_by_length([len(pair.ids) for pair in pairs], budget):
            packed, bodies = collate([pairs[i] for i in group])
            logits_NM = model.reader(packed.to(device), bodies.to(device)).cpu()
            for i, own_LM in zip(group, logits_NM.split(bodies.lengths), strict=True):
                said = _best_span(rows[i].positives[0][1], pairs[i], own_LM)
                right[rows[i].group].append(is_correct(said, rows[i].answers, rows[i].answer_type))
    model.reader.train()
    by_group = {f"em.{group}": sum(values) / len(values) for group, values in sorted(right.items())}
    return {"em": sum(by_group.values()) / max(1, len(by_group)), **by_group}


def _best_span(text: str, pair: ReadingPair, logits_LM: Tensor) -> str:
    if not torch.isfinite(logits_LM).any():
        return ""
    first, width = divmod(int(logits_LM.flatten().argmax()), logits_LM.shape[1])
    return text[pair.offsets[first][0] : pair.offsets[first + width][1]]
