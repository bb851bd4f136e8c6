"""Fine-tune retriever and reader: `python -m realm_core finetune`.

    main → retriever stage (query embedder, block matrix frozen) → reader stage → model folder

The run folder holds the checkpoints; the same command run again goes on where it stopped.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
from collections.abc import Sequence
from pathlib import Path

import torch

from realm_core.activity import Activity
from realm_core.corpus.store import Snapshot
from realm_core.errors import RealmError
from realm_core.files import remove_folder
from realm_core.index.generation import Generation
from realm_core.index.retriever import check_fit
from realm_core.model.checkpoint import Model, load_model, save_model
from realm_core.model.device import fast_dtype, pick_device
from realm_core.model.pairs import collate
from realm_core.training.config import FinetuneConfig, read_config
from realm_core.training.loop import Group, Loop, freeze, no_dropout_in_attention
from realm_core.training.reader_stage import Examples, ReaderBatches, reader_exact_match, reader_loss
from realm_core.training.retriever_stage import (
    RetrieverBatches,
    retriever_loss,
    retriever_recall,
    retriever_steps,
    retriever_task,
    scores,
)
from realm_core.training.rows import ReadingRow, read_rows


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `finetune`."""
    parser.add_argument("--model", type=Path, required=True, help="model folder to start from")
    parser.add_argument("--corpus", type=Path, required=True, help="snapshot folder")
    parser.add_argument("--index", type=Path, required=True, help="generation of that model and snapshot")
    parser.add_argument("--rows", type=Path, nargs="+", required=True, help="rows made by `mine`")
    parser.add_argument("--output", type=Path, required=True, help="model folder to make")
    parser.add_argument("--config", type=Path, help="TOML file of settings")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="override a setting")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N")


def main(arguments: argparse.Namespace, activity: Activity) -> None:
    """Train both stages and save the model."""
    config = read_config(FinetuneConfig, arguments.config, arguments.set)
    if arguments.output.exists():
        raise RealmError(f"{arguments.output} exists already; choose another name for the new model.")
    run = activity.run or arguments.output.with_name(f".{arguments.output.name}.run")
    device = pick_device(arguments.device)
    model, generation = load_model(arguments.model), Generation.open(arguments.index)
    snapshot = Snapshot.open(arguments.corpus)
    check_fit(model, generation, snapshot)
    learnt, held_out = split([row for path in arguments.rows for row in read_rows(path)], config.holdout)
    if not learnt:
        raise RealmError("The rows hold nothing to learn from.")
    activity.say(f"{len(learnt):,} rows to learn from, {len(held_out):,} held out.")
    for part in (model.query, model.block, model.reader):
        part.to(device)
        freeze(part.bert.embeddings)
    measured: dict[str, float] = {}
    if config.retriever_epochs:
        measured |= _train_retriever(model, snapshot, generation, learnt, held_out, config, run, activity)
    if config.reader_epochs:
        measured |= _train_reader(model, learnt, held_out, config, run, activity)
    about = {
        "recipe": [
            *(model.about or {}).get("recipe", []),
            f"fine-tuned from {model.hash} on {len(learnt)} rows: {dataclasses.asdict(config)}",
        ],
        "held_out": measured,
    }
    saved = save_model(dataclasses.replace(model), arguments.output, about=about)
    activity.say(f"The model is {arguments.output}.")
    activity.result({"path": str(arguments.output), "model_hash": saved.hash, "held_out": measured})
    for stage in ("retriever", "reader"):
        remove_folder(run / stage)


def split(rows: Sequence[ReadingRow], holdout: float) -> tuple[list[ReadingRow], list[ReadingRow]]:
    """(learnt, held out), by the article of the first passage: no article is on both sides."""
    learnt: list[ReadingRow] = []
    held_out: list[ReadingRow] = []
    for row in rows:
        draw = int(hashlib.sha256(row.positives[0][0].encode()).hexdigest()[:8], 16) / 2**32
        (held_out if draw < holdout else learnt).append(row)
    return learnt, held_out


def _train_retriever(
    model: Model,
    snapshot: Snapshot,
    generation: Generation,
    learnt: list[ReadingRow],
    held_out: list[ReadingRow],
    config: FinetuneConfig,
    run: Path,
    activity: Activity,
) -> dict[str, float]:
    device = model.query.dense.weight.device
    steps = retriever_steps(len(learnt), config.retriever_batch, config.retriever_epochs)
    identity = _identity(learnt, config.seed, config.retriever_batch)
    loop = _loop("retriever", [Group(model.query, config.retriever_lr)], steps, identity, config, run, activity)
    measured = loop.resume()
    if loop.step == steps:
        return measured
    activity.say("Embedding the passages that are not in the corpus.")
    task = retriever_task(model, snapshot, generation.vectors_ND, learnt, held_out)
    task = dataclasses.replace(task, matrix_ND=task.matrix_ND.to(device))
    activity.say(f"Retriever before: {_shown(retriever_recall(model, task))}")
    batches = RetrieverBatches(task, config.retriever_batch, config.seed)
    no_dropout_in_attention(model.query.bert, config.dropout)
    model.query.train()

    def loss_of(step: int) -> tuple[torch.Tensor, dict[str, float]]:
        examples = batches(step)
        return retriever_loss(scores(model, task.matrix_ND, examples), examples), {"sequences": len(examples)}

    measured = loop.run(loss_of, lambda: retriever_recall(model, task))
    model.query.eval()
    return measured


def _train_reader(
    model: Model,
    learnt: list[ReadingRow],
    held_out: list[ReadingRow],
    config: FinetuneConfig,
    run: Path,
    activity: Activity,
) -> dict[str, float]:
    device = model.reader.ends.weight.device
    examples_of = Examples(model.config)
    batches = ReaderBatches(learnt, examples_of, config)
    no_dropout_in_attention(model.reader.bert, config.dropout)
    model.reader.train()

    def loss_of(step: int) -> tuple[torch.Tensor, dict[str, float]]:
        examples = batches(step)
        packed, bodies = collate([example.pair for example in examples])
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=fast_dtype(device) == torch.bfloat16):
            logits_NM = model.reader(packed.to(device), bodies.to(device))
        return reader_loss(logits_NM.float(), examples, bodies.lengths), {"sequences": len(examples)}

    groups = [Group(model.reader.bert, config.reader_lr)] + [
        Group(module, config.reader_head_lr) for module in (model.reader.ends, model.reader.norm, model.reader.score)
    ]
    identity = _identity(
        learnt, config.seed, config.reader_batch_wordpieces, config.negative_share, sorted(config.repeat.items())
    )
    loop = _loop("reader", groups, batches.steps, identity, config, run, activity)
    measured = loop.run(
        loss_of, lambda: reader_exact_match(model, held_out, examples_of, config.reader_batch_wordpieces)
    )
    model.reader.eval()
    return measured


def _loop(
    name: str,
    groups: list[Group],
    steps: int,
    identity: str,
    config: FinetuneConfig,
    run: Path,
    activity: Activity,
) -> Loop:
    return Loop(
        name,
        groups,
        steps=steps,
        warmup=config.warmup,
        weight_decay=config.weight_decay,
        clip=config.clip,
        seed=config.seed,
        checkpoint_every=config.checkpoint_every,
        folder=run / name,
        identity=identity,
        activity=activity,
    )


def _identity(rows: Sequence[ReadingRow], *settings: object) -> str:
    digest = hashlib.sha256(repr(settings).encode())
    for row in rows:
        digest.update(f"{row.group}\0{row.question}\0{row.positives[0][0]}\n".encode())
    return digest.hexdigest()[:16]


def _shown(figures: dict[str, float]) -> str:
    return ", ".join(f"{key} {value:.3f}" for key, value in figures.items())
