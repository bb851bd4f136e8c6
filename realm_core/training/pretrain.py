"""Pre-training with latent retrieval: `python -m realm_core pretrain` (also under torchrun).

    main → train → PretrainStep          main → refreshing → LiveIndex ⇄ refresh.py, another process

One embedder, the block embedder, is trained for sentences and blocks, as in the released pre-training; a different
query embedder, as fine-tuning leaves one, is replaced.

The run folder holds the checkpoints, the snapshots and the generations; the same command run again resumes there.
"""

from __future__ import annotations

import dataclasses
import random
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from realm_core.corpus.store import Snapshot
from realm_core.corpus.tokens import open_tokens, text_hash
from realm_core.errors import RealmError
from realm_core.index.corpus_of import corpus_of
from realm_core.index.generation import Generation
from realm_core.index.retriever import check_fit
from realm_core.model.checkpoint import Model, load_model, new_encoder
from realm_core.model.device import pick_device
from realm_core.model.joiner import Joiner
from realm_core.runs.activity import Activity
from realm_core.salient.cache import SalientSpans
from realm_core.training.config import PretrainConfig
from realm_core.training.distributed import World, place, places
from realm_core.training.identity import deciding, identity_of
from realm_core.training.live_index import (
    BackgroundRefresh,
    FixedIndex,
    IndexRefresh,
    InLoopRefresh,
    LiveIndex,
    forget_after,
)
from realm_core.training.loop import Loop, ParameterGroup, freeze, no_dropout_in_attention
from realm_core.training.masking import MaskedBatches, MaskedSentences
from realm_core.training.pretrain_step import PretrainStep, reported
from realm_core.training.refresh import BuilderProcess, build_generation, builder_device
from realm_core.training.stage import (
    Prefetch,
    check_batch,
    in_run_folder,
    publish,
    split_passages,
    training_loop,
)
from realm_core.training.tasks import Pretrain

_ROWS_AT_ONCE = 10_000  # of texts to hash


@in_run_folder
def main(task: Pretrain, run: Path, activity: Activity) -> None:
    """Pre-train and save the model."""
    config = task.settings
    named_device = pick_device(task.device)
    pick_device(task.builder_device)  # refuses a bad name now, not after everything was loaded
    device = place(named_device)
    world = World.join(device)
    check_batch(config, world)
    model, generation = load_model(task.model), Generation.open(task.index)
    corpus = corpus_of(task.index, task.corpus)
    snapshot = Snapshot.open(corpus)
    check_fit(model, generation, snapshot)
    source = snapshot if task.sentences is None else Snapshot.open(task.sentences)
    spans = SalientSpans.open(task.spans, source)
    if world.leads:
        open_tokens(snapshot, activity)
    world.wait()
    tokens = open_tokens(snapshot, activity)
    if model.encoder is None:
        if world.leads:
            activity.say("The model has no masked-language head; it starts untrained (`mlm` would warm it up).")
        model = dataclasses.replace(model, encoder=new_encoder(model.config, seed=config.seed))
    if world.leads and not _same(model.query, model.block):
        activity.say(
            "The model's query embedder differs from its block embedder. Pre-training trains the block embedder "
            "for both; the query embedder is lost."
        )
    model = dataclasses.replace(model, query=model.block)  # one embedder of sentences and blocks, as in the release
    assert model.encoder is not None
    for part in (model.block, model.encoder):
        part.to(device)
        freeze(part.bert.embeddings)
        no_dropout_in_attention(part.bert, config.dropout)
    step = PretrainStep(
        model.block,
        model.encoder,
        Joiner(tokens, device),
        tokens.text_hashes_N,
        k=config.k,
        block_wordpieces=model.config.block_wordpieces,
        pair_wordpieces=config.pair_wordpieces,
        title=config.title,
        per_token=config.loss == "release",
    )
    hashes_N = tokens.text_hashes_N if source is snapshot else _text_hashes(source)
    passages = split_passages(hashes_N[spans.rows_N], config.holdout)
    if not passages[0]:
        raise RealmError("The spans hold no passage to train on besides those held out.")
    free = ("steps", "checkpoint_every", "metrics_every", "refresh", "refresh_every", "at_once")
    identity = identity_of(
        model=model.hash,
        corpus=snapshot.snapshot_id,
        sentences=source.snapshot_id,
        spans=spans.manifest["files"],
        settings=deciding(config, free),
    )
    groups = [ParameterGroup(model.block, config.learning_rate), ParameterGroup(model.encoder, config.learning_rate)]
    loop = training_loop(
        "pretrain", groups, config, identity, run, activity, world, steps=config.steps, reported=reported
    )
    if world.leads:
        forget_after(run, loop.saved_step() or 0)
    world.wait()
    if world.leads and config.refresh != "never" and config.refresh_every >= config.steps:
        activity.say(
            f"No step will use another index than the first: refresh_every is {config.refresh_every:,}, and there are "
            f"only {config.steps:,} steps."
        )
    with ExitStack() as stack:
        if config.refresh == "process" and world.leads:
            builder = builder_device(task.builder_device, places(named_device), activity)
            stack.enter_context(BuilderProcess(run, corpus, builder, activity))
        index = _refreshing(config, model, generation, run, corpus, device, world, activity)
        stack.callback(index.close)
        measured = _train(loop, step, index, source, spans, passages, config, world, stack, activity)
    if world.leads:
        model.reader.bert.load_state_dict(model.encoder.bert.state_dict())  # the reader starts from the encoder
        recipe = (
            f"pre-trained from {model.hash} on {snapshot.snapshot_id}, {len(spans)} salient spans: "
            f"{config.model_dump()}"
        )
        left = ("pretrain", "snapshots", "generations")
        publish(model, task.output, recipe, measured, run, activity, left=left)


def _text_hashes(snapshot: Snapshot) -> NDArray[np.uint64]:
    hashes: list[int] = []
    while len(hashes) < len(snapshot):
        hashes += map(text_hash, snapshot.titles_texts(len(hashes), len(hashes) + _ROWS_AT_ONCE)[1])
    return np.array(hashes, np.uint64)


def _same(one: torch.nn.Module, other: torch.nn.Module) -> bool:
    others = other.state_dict()
    return all(torch.equal(tensor, others[name]) for name, tensor in one.state_dict().items())


def _train(
    loop: Loop,
    step: PretrainStep,
    index: IndexRefresh,
    source: Snapshot,
    spans: SalientSpans,
    passages: tuple[list[int], list[int]],
    config: PretrainConfig,
    world: World,
    stack: ExitStack,
    activity: Activity,
) -> dict[str, float]:
    learnt, held_out = passages
    batches = MaskedBatches(
        source,
        spans,
        learnt,
        masking=config.masking,
        batch=config.batch,
        limit=config.query_wordpieces,
        seed=config.seed,
    )
    ahead = Prefetch(batches)
    stack.callback(ahead.close)
    measured_on = batches.masked(held_out, random.Random("held out")) if held_out else None

    index_step = 0

    def losses_of(number: int) -> Iterator[tuple[torch.Tensor, dict[str, float]]]:
        nonlocal index_step
        current = index.before(number)
        if current.step != index_step and world.leads:
            index_step = current.step
            activity.metrics(number, **{"pretrain.index_step": index_step})
        batch = ahead(number)
        own = world.share(len(batch))
        if idle := own.start == own.stop < len(batch):  # few could be masked; all processes must compute something
            own = slice(0, 1)
        for part in world.averaged(replica, _parts(batch.part(own), config.at_once)):
            loss, figures = replica(part, current)
            weight = 0.0 if idle else world.weight(step.weight(part), step.weight(batch))
            yield loss * weight, {**figures, **_lag(current, number), "sequences": 0 if idle else len(part)}

    def measure() -> dict[str, float]:
        return _measure(step, measured_on, index.before(loop.step), config.at_once)

    first = loop.saved_step() or 0
    replica = world.replicate(step)
    step.train()
    measured = loop.run(losses_of, measure)
    step.eval()
    snapshots = (config.steps - 1) // config.refresh_every - first // config.refresh_every
    if world.leads and not index_step and config.refresh != "never" and snapshots > 0:
        since = f" since step {first:,}, where the training was resumed" if first else ""
        activity.warn(
            f"The index was never replaced{since}: no new one arrived in time. All of these steps retrieved from the "
            "index that the training started with."
        )
    return measured


def _measure(step: PretrainStep, sentences: MaskedSentences | None, index: LiveIndex, at_once: int) -> dict[str, float]:
    """Figures of the held-out sentences, with the current index."""
    if sentences is None:
        return {}
    loss, means = 0.0, dict[str, float]()
    step.eval()
    with torch.no_grad():
        for part in _parts(sentences, at_once):
            own_loss, figures = step(part, index)
            loss += own_loss.item() * step.weight(part) / step.weight(sentences)
            for key, value in figures.items():
                means[key] = means.get(key, 0.0) + value * len(part) / len(sentences)
    step.train()
    return {"loss": loss, **reported(means)}


def _parts(batch: MaskedSentences, at_once: int) -> Iterator[MaskedSentences]:
    for start in range(0, len(batch), at_once):
        yield batch.part(slice(start, start + at_once))


def _lag(index: LiveIndex, step: int) -> dict[str, float]:
    return {
        "index_lag_steps": float(step - index.step),
        "index_lag_s": max(0.0, time.time() - index.parameters_at),
    }


def _refreshing(
    config: PretrainConfig,
    model: Model,
    generation: Generation,
    run: Path,
    corpus: Path,
    device: torch.device,
    world: World,
    activity: Activity,
) -> IndexRefresh:
    common = (model, generation, run, config.refresh_every, device, world)
    if config.refresh == "never":
        return FixedIndex(*common)
    if config.refresh == "in-loop":
        return InLoopRefresh(
            *common,
            lambda made, output, step: build_generation(made, corpus, output, step, str(device), activity),
            config.checkpoint_every,
        )
    return BackgroundRefresh(*common, activity)
