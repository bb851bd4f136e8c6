"""Reading comprehension: `python -m realm_core train-reader`.

    rows (question, block, answers or none) → −log p(correct spans or "not here" | z, x) in a loop → model folder

Only the reader is trained; embedders, and with them every index, do not change. Under `block+null` each block is
normalised separately, so a row needs no other block beside it, and a block without the answer teaches "not here": the
marginal likelihood over the k blocks gives such blocks no gradient at all. Rows with a score are a question's retrieved
blocks: together they are to answer it (`marginal.question_loss`).

With a teacher the loss also has the divergence from the teacher's distribution over the same spans and "not here"; the
teacher reads the question as written, whatever the student reads.
"""

from __future__ import annotations

import dataclasses
import os
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor

from realm_core.errors import RealmError
from realm_core.model.adapter import Adapter, adapt, bert_of, merge
from realm_core.model.checkpoint import Model, load_model, own_adapter
from realm_core.model.config import ModelConfig
from realm_core.model.device import fast_dtype
from realm_core.model.marginal import log_pair_reading, pair_divergence, question_loss
from realm_core.model.packed import Packed
from realm_core.model.reader import Bodies, Reader, by_block
from realm_core.questions.casual import casually
from realm_core.text.wordpieces import Wordpieces
from realm_core.training.config import ReaderConfig
from realm_core.training.identity import deciding, identity_of
from realm_core.training.loop import Loop, ParameterGroup, no_dropout_in_attention
from realm_core.training.reading_batch import ReadingBatch, batches_of
from realm_core.training.reading_rows import ReadingRow, grouped, read_rows, some_blocks
from realm_core.training.stage import MOST_HELD_OUT, Prefetch, Stage, in_run_folder, question_draw
from realm_core.training.tasks import TrainReader

RowGroup = tuple[ReadingRow, ...]  # learnt together: the blocks of a question, or a single row


@in_run_folder
def main(task: TrainReader, stage: Stage) -> None:
    config = task.settings
    model = load_model(task.model)
    if not model.config.not_here:
        raise RealmError(f"{task.model} has no score of “not here”, which this training teaches.")
    if config.frozen_layers >= len(model.reader.bert.layers):
        raise RealmError(f"frozen_layers must be below the reader's {len(model.reader.bert.layers)} layers.")
    given = [group for path in task.rows for group in grouped(read_rows(path))]
    held_out = [group for group in given if question_draw(group[0].question) < config.holdout][:MOST_HELD_OUT]
    learnt = [group for group in given if question_draw(group[0].question) >= config.holdout]
    if not learnt:
        raise RealmError("All rows are held out; there is nothing to train on.")
    reader = model.reader.to(stage.device)
    continues = _choose_parameters(reader, config, task.model)
    no_dropout_in_attention(reader.bert, config.dropout)
    config_read = dataclasses.replace(model.config, normalisation="block+null")
    teacher = None if task.teacher is None else _teacher(task.teacher, config_read, stage.device)
    step = ReaderStep(reader, config_read, teacher.reader if teacher else None, config.teacher_share)
    free = ("steps", "checkpoint_every", "metrics_every", "at_once")
    groups = [ParameterGroup(reader.bert, config.reader_lr)]
    groups += [ParameterGroup(part, config.head_lr) for part in (reader.ends, reader.norm, reader.score)]
    models = [model.hash, teacher and teacher.hash]
    identity = identity_of(models=models, settings=deciding(config, free), rows=learnt)
    loop = stage.loop(groups, identity, steps=config.steps)
    rows = sum(map(len, learnt))
    stage.activity.say(f"{rows:,} rows of {len(learnt):,} to train on, those of {len(held_out):,} held out.")
    stage.tell_none_held_out(len(held_out), len(learnt), "questions", config.holdout)
    measured = _train(loop, step, learnt, held_out, config)
    adapter = Adapter(task.model, _adapter(reader), continues) if config.low_rank else None
    names = ", ".join(path.stem for path in task.rows)
    taught = f", taught by {teacher.hash}," if teacher else ""
    recipe = f"reader of {model.hash}{taught} trained on {rows} rows of {names}: {config.model_dump()}"
    stage.publish(dataclasses.replace(model, config=config_read, adapter=adapter), recipe, measured)


def _choose_parameters(reader: Reader, config: ReaderConfig, folder: Path) -> bool:
    """Freeze what is not trained; True if it is the adapter of the model in `folder`."""
    if config.low_rank:
        torch.manual_seed(config.seed)
        continues = adapt(reader.bert, config.low_rank, config.frozen_layers, bert_of(own_adapter(folder), "reader"))
        device = reader.ends.weight.device
        if device.type != "cpu":  # activations, too, are then half as large, and are what a GPU spends its time on
            for frozen in (parameter for parameter in reader.bert.parameters() if not parameter.requires_grad):
                frozen.data = frozen.data.to(fast_dtype(device))
        return continues
    reader.bert.embeddings.requires_grad_(False)
    if reader.bert.encoder.relative_attention_bias is not None:
        reader.bert.encoder.relative_attention_bias.requires_grad_(False)
    for layer in reader.bert.layers[: config.frozen_layers]:
        layer.requires_grad_(False)
    return False


def _adapter(reader: Reader) -> dict[str, Tensor]:
    """The tensors that the training changed; the reader has them merged afterwards."""
    changed = {f"reader.bert.{name}": tensor for name, tensor in merge(reader.bert).items()}
    whole = {f"reader.{name}": tensor for name, tensor in reader.state_dict().items() if not name.startswith("bert.")}
    return changed | whole


def _teacher(folder: Path, config: ModelConfig, device: torch.device) -> Model:
    """The teacher model; `RealmError` if its spans differ from those of the reader to train."""
    model = load_model(folder, frozen=fast_dtype(device))
    if not model.config.not_here:
        raise RealmError(f"{folder} cannot teach: it has no score of “not here”.")
    for name in ("query_wordpieces", "reader_wordpieces", "reader_title", "span_wordpieces"):
        theirs, ours = getattr(model.config, name), getattr(config, name)
        if theirs != ours:
            raise RealmError(f"{folder} cannot teach: its {name} is {theirs}, that of the reader to train is {ours}.")
    model.reader.for_inference(device)
    return model


def _train(
    loop: Loop, step: ReaderStep, learnt: Sequence[RowGroup], held_out: Sequence[RowGroup], config: ReaderConfig
) -> dict[str, float]:
    ahead = Prefetch(
        lambda number: step.batches(batch_of(learnt, config, number), config.at_once, taught=True),
        processes=step.processes,
    )

    def losses_of(number: int) -> Iterator[tuple[Tensor, dict[str, float]]]:
        parts = ahead(number)
        questions = sum(part.questions for part in parts)
        for part in parts:
            loss, _ = step(part)
            rows = len(part.answered_P)
            yield loss * (part.questions / questions), {"sequences": rows, "not_here": 1 - _share(part.answered_P)}

    step.reader.train()
    try:
        return loop.run(losses_of, lambda: _measure(step, held_out, config.at_once))
    finally:
        ahead.close()
        step.reader.eval()


def _share(flags: Tensor) -> float:
    return float(flags.float().mean())


def batch_of(learnt: Sequence[RowGroup], config: ReaderConfig, number: int) -> list[RowGroup]:
    """The rows of a step: passes over all in changing order; some questions are rewritten as casually typed."""
    draw = random.Random(f"{config.seed} rows {number}")
    groups: list[RowGroup] = []
    for place in range(number * config.batch, (number + 1) * config.batch):
        epoch, position = divmod(place, len(learnt))
        group = learnt[_order(len(learnt), f"{config.seed} {epoch}")[position]]
        if len(group) > 1:
            group = some_blocks(group, config.least_blocks, draw)
        if draw.random() < config.casual:
            typed = casually(group[0].question, draw)
            group = tuple(dataclasses.replace(row, typed=typed) for row in group)
        groups.append(group)
    return groups


_orders: dict[tuple[int, str], list[int]] = {}


def _order(count: int, seed: str) -> list[int]:
    if (count, seed) not in _orders:
        _orders.clear()
        order = list(range(count))
        random.Random(seed).shuffle(order)
        _orders[count, seed] = order
    return _orders[count, seed]


class ReaderStep:
    """The reader and the computation of a batch. share: of the teacher in the loss."""

    def __init__(self, reader: Reader, config: ModelConfig, teacher: Reader | None, share: float) -> None:
        self.reader, self._config, self._teacher, self._share = reader, config, teacher, share
        self._wordpieces = Wordpieces.default()
        self._device = reader.ends.weight.device
        self._autocast = fast_dtype(self._device) == torch.bfloat16 and reader.bert.dtype != torch.bfloat16
        # Where another device computes, the processors make the next batches.
        self.processes = min(12, max(1, (os.cpu_count() or 1) - 2)) if self._device.type != "cpu" else 0

    def batches(self, groups: Sequence[RowGroup], at_once: int, *, taught: bool = False) -> list[ReadingBatch]:
        """The groups in parts; taught: also for the teacher, if there is one."""
        teacher = taught and self._teacher is not None
        return batches_of(groups, self._config, self._wordpieces, at_once, taught=teacher)

    def __call__(self, batch: ReadingBatch) -> tuple[Tensor, Tensor]:
        """(loss, mean over the questions; bool [P]: whether the reader's best outcome is correct).

        The loss is −log p of what is correct, with the divergence from the teacher if the batch is made for one.
        """
        with torch.autocast(self._device.type, dtype=torch.bfloat16, enabled=self._autocast):
            logits_PS, width = self._logits(self.reader, batch.pairs, batch.bodies)
        correct_PS = batch.correct(width, logits_PS)
        best = logits_PS.detach().max(dim=1)
        best_is_correct_P = correct_PS.gather(1, best.indices.unsqueeze(1)).squeeze(1) & (best.values > 0)
        right_P = torch.where(correct_PS.any(1), best_is_correct_P, best.values <= 0)
        loss = question_loss(
            log_pair_reading(logits_PS, correct_PS),
            correct_PS.any(1),
            batch.scores_P.to(self._device) / self._config.prior_temperature,
            batch.places_2P.to(self._device),
            batch.questions,
        ).mean()
        if batch.written is not None:
            assert self._teacher is not None
            with torch.no_grad():
                theirs_PS, _ = self._logits(self._teacher, *batch.written)
            loss = (1 - self._share) * loss + self._share * pair_divergence(theirs_PS, logits_PS).mean()
        return loss, right_P

    def _logits(self, reader: Reader, pairs: Packed, bodies: Bodies) -> tuple[Tensor, int]:
        """Span logits [P, S] and the widest span."""
        logits_NM = reader(pairs.to(self._device), bodies.to(self._device)).float()
        return by_block(logits_NM, bodies.lengths), logits_NM.shape[1]


@torch.no_grad()
def _measure(step: ReaderStep, held_out: Sequence[RowGroup], at_once: int) -> dict[str, float]:
    """Accuracy of the reader, for blocks with an answer and for blocks without."""
    right: dict[str, list[bool]] = {"answered": [], "not_here": []}
    losses: list[float] = []
    step.reader.eval()
    for part in step.batches(held_out, at_once):
        loss, right_P = step(part)
        losses.extend([loss.item()] * part.questions)
        for answered, is_right in zip(part.answered_P.tolist(), right_P.tolist(), strict=True):
            right["answered" if answered else "not_here"].append(is_right)
    step.reader.train()
    figures = {name: sum(flags) / len(flags) for name, flags in right.items() if flags}
    return {"loss": sum(losses) / len(losses), **figures} if losses else {}
