"""Masked-language warm-up: `python -m realm_core mlm` trains the encoder and its head before retrieval.

Weights of a sentence encoder have no masked-language head. Blocks are read alone, with a share of their wordpieces
hidden as in BERT: 80 % become [MASK], 10 % another word, 10 % stay (Devlin et al., 2019).

Legend: B blocks, T wordpieces of all of them, M hidden ones.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn

from realm_core.corpus.store import Snapshot
from realm_core.errors import RealmError
from realm_core.model.checkpoint import load_model, new_encoder
from realm_core.model.device import fast_dtype
from realm_core.model.encoder import Encoder
from realm_core.model.joiner import Joiner
from realm_core.model.packed import Packed
from realm_core.text.wordpieces import Wordpieces
from realm_core.training.identity import deciding, identity_of
from realm_core.training.loop import ParameterGroup, made_ready
from realm_core.training.stage import (
    HELD_OUT_BY,
    Stage,
    check_batch,
    even_parts,
    in_run_folder,
    passage_counts,
    split_passages,
)
from realm_core.training.tasks import Mlm

_FIRST_WORD = 1996  # of the vocabulary; lower ids are special tokens, single characters and unused
_HEAD_FASTER = 5.0  # the head starts untrained


@in_run_folder
def main(task: Mlm, stage: Stage) -> None:
    config, world, device = task.settings, stage.world, stage.device
    check_batch(config, world)
    model, snapshot = load_model(task.model), Snapshot.verified(task.corpus)
    tokens = stage.open_tokens(snapshot)
    encoder = model.encoder or new_encoder(model.config, seed=config.seed)
    made_ready(encoder, device, config.dropout)
    joiner, limit = Joiner(tokens, device), model.config.block_wordpieces
    step = MlmStep(encoder, config.mask_share, device)
    replica = world.replicate(step)
    learnt, held_out = (np.array(rows) for rows in split_passages(tokens.text_hashes_N, config.holdout))
    if not len(learnt):
        raise RealmError(f"{task.corpus} holds no blocks to train on besides those held out.")
    stage.tell_none_held_out(len(held_out), len(learnt), "blocks", config.holdout)

    def losses_of(number: int) -> Iterator[tuple[Tensor, dict[str, float]]]:
        draw = np.random.default_rng([config.seed, number, 1])
        rows = learnt[draw.integers(len(learnt), size=config.batch)][world.share(config.batch)]
        for which in world.averaged(replica, even_parts(len(rows), config.at_once)):
            part = rows[which]
            loss, right, hidden = replica(joiner.blocks(part, limit), draw)
            figures = {"right": right / len(part), "hidden": hidden / len(part), "sequences": len(part)}
            yield loss * world.weight(len(part), config.batch), figures

    def measure() -> dict[str, float]:
        if not len(held_out):
            return {}
        encoder.eval()
        draw = np.random.default_rng(0)
        with torch.no_grad():
            results = [
                step(joiner.blocks(held_out[which], limit), draw) for which in even_parts(len(held_out), config.at_once)
            ]
        encoder.train()
        total = sum(hidden for _, _, hidden in results)
        return {
            "loss": sum(loss.item() * hidden for loss, _, hidden in results) / total,
            "accuracy": sum(right for _, right, _ in results) / total,
        }

    groups = [
        ParameterGroup(encoder.bert, config.learning_rate),
        ParameterGroup(encoder.head, config.learning_rate * _HEAD_FASTER),
    ]
    free = ("steps", "checkpoint_every", "metrics_every", "at_once")
    identity = identity_of(
        model=model.hash, corpus=snapshot.snapshot_id, held_out_by=HELD_OUT_BY, settings=deciding(config, free)
    )
    loop = stage.loop(groups, identity, steps=config.steps, reported=_reported)
    encoder.train()
    measured = loop.run(losses_of, measure)
    recipe = f"masked-language warm-up from {model.hash} on {snapshot.snapshot_id}: {config.model_dump()}"
    stage.publish(
        dataclasses.replace(model, encoder=encoder.eval()), recipe, measured, passages=passage_counts(learnt, held_out)
    )


def _reported(means: dict[str, float]) -> dict[str, float]:
    """The share of the hidden wordpieces, of which blocks have more or fewer."""
    others = dict(means)
    accuracy = others.pop("right") / others.pop("hidden")
    return {**others, "accuracy": accuracy}


class MlmStep(nn.Module):
    """The encoder and the computation of a batch of blocks. share: of their wordpieces that is hidden."""

    def __init__(self, encoder: Encoder, share: float, device: torch.device) -> None:
        super().__init__()
        self.encoder, self._share, self._device = encoder, share, device
        self._autocast = fast_dtype(device) == torch.bfloat16

    def forward(self, blocks: Packed, draw: np.random.Generator) -> tuple[Tensor, int, int]:
        """Mean −log p of the hidden wordpieces, the number predicted right, and the number hidden."""
        masked, hidden_M = hide(blocks, self._share, draw)
        with torch.autocast(self._device.type, dtype=torch.bfloat16, enabled=self._autocast):
            logits_MV = self.encoder.word_logits(self.encoder.encode(masked)[hidden_M])
        targets_M = blocks.ids_T[hidden_M]
        right = int((logits_MV.detach().argmax(-1) == targets_M).sum())
        return nn.functional.cross_entropy(logits_MV, targets_M), right, len(targets_M)


def hide(blocks: Packed, share: float, draw: np.random.Generator) -> tuple[Packed, Tensor]:
    """The blocks with a share of their wordpieces hidden, and the positions of these."""
    wordpieces = Wordpieces.default()
    ids_T, device = blocks.ids_T, blocks.ids_T.device
    fate_T = torch.from_numpy(draw.random(len(ids_T), dtype=np.float32)).to(device)
    words_T = torch.from_numpy(draw.integers(_FIRST_WORD, wordpieces.vocabulary_size, len(ids_T))).to(device)
    open_T = (ids_T != wordpieces.cls_id) & (ids_T != wordpieces.sep_id)
    hidden_T = open_T & (fate_T < share)
    if not hidden_T.any():
        hidden_T = open_T & (fate_T == fate_T[open_T].min()) if open_T.any() else torch.ones_like(open_T)
    shown_T = torch.where(hidden_T & (fate_T < 0.8 * share), torch.full_like(ids_T, wordpieces.mask_id), ids_T)
    shown_T = torch.where(hidden_T & (fate_T >= 0.9 * share), words_T, shown_T)
    return dataclasses.replace(blocks, ids_T=shown_T), hidden_T.nonzero().squeeze(1)
