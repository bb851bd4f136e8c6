"""Pre-training with latent retrieval: `python -m realm_core pretrain` (also under torchrun).

    main → train → PretrainStep          main → refreshing → LiveIndex ⇄ refresh.py, another process

One embedder, the block embedder, is trained for sentences and blocks, as in the released pre-training; a different
query embedder, as fine-tuning leaves one, is replaced.

The run folder holds the checkpoints, the snapshots and the generations; the same command run again resumes there.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from realm_core.corpus.store import Snapshot
from realm_core.corpus.tokens import text_hash
from realm_core.errors import RealmError
from realm_core.index.corpus_of import corpus_of
from realm_core.index.generation import Generation
from realm_core.index.retriever import check_manifest_fits
from realm_core.model.checkpoint import Model, load_model, new_encoder
from realm_core.model.device import pick_device
from realm_core.model.joiner import Joiner
from realm_core.salient.cache import SalientSpans
from realm_core.training.config import PretrainConfig
from realm_core.training.distributed import places
from realm_core.training.identity import deciding, identity_of
from realm_core.training.live_index import (
    BackgroundRefresh,
    FixedIndex,
    IndexRefresh,
    InLoopRefresh,
    LiveIndex,
    forget_after,
)
from realm_core.training.loop import Loop, ParameterGroup, made_ready
from realm_core.training.masking import MaskedBatches, MaskedSentences
from realm_core.training.pretrain_step import PretrainStep, reported
from realm_core.training.refresh import BuilderProcess, build_generation, builder_device
from realm_core.training.stage import Prefetch, Stage, check_batch, in_run_folder, passage_counts, split_passages
from realm_core.training.tasks import Pretrain

_ROWS_AT_ONCE = 10_000  # of texts to hash


@in_run_folder
def main(task: Pretrain, stage: Stage) -> None:
    config, world, device, reporting = task.settings, stage.world, stage.device, stage.reporting
    pick_device(task.builder_device)  # refuses a bad name now, not after everything was loaded
    check_batch(config, world)
    model, generation = load_model(task.model), Generation.open(task.index)
    corpus = corpus_of(task.index, task.corpus)
    snapshot = Snapshot.verified(corpus)
    check_manifest_fits(model, generation.manifest, snapshot)
    source = snapshot if task.sentences is None else Snapshot.verified(task.sentences)
    spans = SalientSpans.open(task.spans, source)
    tokens = stage.open_tokens(snapshot)
    if model.encoder is None:
        reporting.say("The model has no masked-language head; it starts untrained (`mlm` would warm it up).")
        model = dataclasses.replace(model, encoder=new_encoder(model.config, seed=config.seed))
    if not _same(model.query, model.block):
        reporting.say(
            "The model's query embedder differs from its block embedder. Pre-training trains the block embedder "
            "for both; the query embedder is lost."
        )
    model = dataclasses.replace(model, query=model.block)  # one embedder of sentences and blocks, as in the release
    assert model.encoder is not None
    for part in (model.block, model.encoder):
        made_ready(part, device, config.dropout)
    step = PretrainStep(
        model.block, model.encoder, Joiner(tokens, device), tokens.text_hashes_N, model.config.block_wordpieces, config
    )
    hashes_N = tokens.text_hashes_N if source is snapshot else _text_hashes(source)
    passages = split_passages(hashes_N[spans.rows_N], config.holdout)
    if not passages[0]:
        raise RealmError("The spans hold no passage to train on besides those held out.")
    stage.tell_none_held_out(len(passages[1]), len(passages[0]), "passages", config.holdout)
    free = ("steps", "checkpoint_every", "metrics_every", "refresh", "refresh_every", "at_once")
    identity = identity_of(
        model=model.hash,
        corpus=snapshot.snapshot_id,
        sentences=source.snapshot_id,
        spans=spans.manifest["files"],
        settings=deciding(config, free),
    )
    groups = [ParameterGroup(model.block, config.learning_rate), ParameterGroup(model.encoder, config.learning_rate)]
    loop = stage.loop(groups, identity, steps=config.steps, reported=reported)
    if world.leads:
        forget_after(stage.run, loop.saved_step() or 0)
    world.wait()
    with ExitStack() as stack:
        if config.refresh == "process" and world.leads:
            builder = builder_device(task.builder_device, places(pick_device(task.device)), stage.activity)
            stack.enter_context(BuilderProcess(stage.run, corpus, builder, stage.activity))
        index = _refreshing(config, model, generation, corpus, stage)
        stack.callback(index.close)
        batches = MaskedBatches(source, spans, passages[0], config)
        ahead = Prefetch(batches)
        stack.callback(ahead.close)
        held_out = batches.masked(passages[1], random.Random("held out")) if passages[1] else None
        measured = _train(stage, config, loop, step, index, ahead, held_out)
    model.reader.bert.load_state_dict(model.encoder.bert.state_dict())  # the reader starts from the encoder
    recipe = (
        f"pre-trained from {model.hash} on {snapshot.snapshot_id}, {len(spans)} salient spans: {config.model_dump()}"
    )
    stage.publish(model, recipe, measured, left=("snapshots", "generations"), passages=passage_counts(*passages))


def _text_hashes(snapshot: Snapshot) -> NDArray[np.uint64]:
    hashes: list[int] = []
    while len(hashes) < len(snapshot):
        hashes += map(text_hash, snapshot.titles_texts(len(hashes), len(hashes) + _ROWS_AT_ONCE)[1])
    return np.array(hashes, np.uint64)


def _same(one: torch.nn.Module, other: torch.nn.Module) -> bool:
    others = other.state_dict()
    return all(torch.equal(tensor, others[name]) for name, tensor in one.state_dict().items())


def _train(
    stage: Stage,
    config: PretrainConfig,
    loop: Loop,
    step: PretrainStep,
    index: IndexRefresh,
    ahead: Prefetch[MaskedSentences],
    held_out: MaskedSentences | None,
) -> dict[str, float]:
    world, index_step = stage.world, 0

    def losses_of(number: int) -> Iterator[tuple[torch.Tensor, dict[str, float]]]:
        nonlocal index_step
        current = index.before(number)
        if current.step != index_step and world.leads:
            index_step = current.step
            stage.activity.metrics(number, **{"pretrain.index_step": index_step})
        batch = ahead(number)
        own = world.share(len(batch))
        if idle := own.start == own.stop < len(batch):  # few could be masked; all processes must compute something
            own = slice(0, 1)
        for part in world.averaged(replica, _parts(batch.part(own), config.at_once)):
            loss, figures = replica(part, current)
            weight = 0.0 if idle else world.weight(step.weight(part), step.weight(batch))
            yield loss * weight, {**figures, **_lag(current, loop), "sequences": 0 if idle else len(part)}

    def measure() -> dict[str, float]:
        return _measure(step, held_out, index.before(loop.step), config.at_once)

    first = loop.saved_step() or 0
    replica = world.replicate(step)
    step.train()
    measured = loop.run(losses_of, measure)
    step.eval()
    snapshots = (config.steps - 1) // config.refresh_every - first // config.refresh_every
    if world.leads and not index_step and config.refresh != "never" and snapshots > 0:
        since = f" since step {first:,}, where the training was resumed" if first else ""
        stage.activity.warn(
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


def _lag(index: LiveIndex, loop: Loop) -> dict[str, float]:
    return {"index_lag_steps": float(loop.step - index.step), "index_lag_s": loop.trained_since(index.parameters_at)}


def _refreshing(
    config: PretrainConfig, model: Model, generation: Generation, corpus: Path, stage: Stage
) -> IndexRefresh:
    common = (model, generation, config, stage)
    if config.refresh == "never":
        return FixedIndex(*common)
    if config.refresh == "in-loop":
        activity, device = stage.activity, str(stage.device)
        return InLoopRefresh(
            *common, lambda made, output, step: build_generation(made, corpus, output, step, device, activity)
        )
    return BackgroundRefresh(*common)
