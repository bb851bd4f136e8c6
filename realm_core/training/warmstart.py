"""A first model from a sentence encoder's weights: `python -m realm_core warmstart`.

The encoder's vectors rank by cosine. A projection onto their leading principal directions followed by LayerNorm nearly
preserves that ranking (LayerNorm centres each vector and gives all the same length), and LayerNorm's gain sets the
temperature: with a gain of sqrt(scale / D) on both sides, f(x, z) = scale · cosine of the centred vectors. Such
encoders are usually trained with `scale` 20.
"""

from __future__ import annotations

import dataclasses
import math
import random

import torch

from realm_core.corpus.store import Snapshot
from realm_core.errors import RealmError
from realm_core.files import refuse_existing
from realm_core.index.embedding import batches_by_length
from realm_core.model.checkpoint import new_model, save_model
from realm_core.model.config import ModelConfig
from realm_core.model.embedder import principal_projection
from realm_core.model.packed import Packed
from realm_core.runs.activity import Activity
from realm_core.text.joins import join_block
from realm_core.text.wordpieces import Wordpieces
from realm_core.training.tasks import Warmstart

_WORDPIECES_PER_BATCH = 2048


def main(task: Warmstart, activity: Activity) -> None:
    """Make the model and report how much of the encoder's inner products the projection keeps."""
    refuse_existing(task.output)
    settings = task.settings
    config = dataclasses.replace(
        ModelConfig(),
        dimension=settings.dimension,
        reader_base=None if settings.reader_base == "embedder" else settings.reader_base,
    )
    snapshot = Snapshot.verified(task.corpus)
    if len(snapshot) < config.dimension:
        raise RealmError(
            f"{task.corpus} has {len(snapshot)} blocks, too few for a projection onto {config.dimension} dimensions."
        )
    rows = random.Random(settings.seed).sample(range(len(snapshot)), min(settings.sample, len(snapshot)))
    model = new_model(config, seed=settings.seed)
    blocks = [snapshot.block(row) for row in sorted(rows)]
    joined = join_block(
        Wordpieces.default(), [b.title for b in blocks], [b.text for b in blocks], config.block_wordpieces
    )
    pooled_NW = torch.empty(len(joined), model.block.dense.in_features)
    done = 0
    with torch.inference_mode():
        for group in batches_by_length([len(sequence.ids) for sequence in joined], _WORDPIECES_PER_BATCH):
            activity.check()
            pooled_NW[group] = model.block.pool(
                Packed.of([joined[i].ids for i in group], [joined[i].segments for i in group])
            )
            done += len(group)
            activity.progress(done, len(joined), "blocks")
    projection_DW = principal_projection(pooled_NW, config.dimension)
    for side in (model.query, model.block):
        with torch.no_grad():
            side.dense.weight.copy_(projection_DW)
            side.dense.bias.zero_()
            side.norm.weight.fill_(math.sqrt(settings.scale / config.dimension))
            side.norm.bias.zero_()
    unit_NW = torch.nn.functional.normalize(pooled_NW, dim=1)
    kept = (unit_NW @ projection_DW.T).square().sum(1).mean().item()
    save_model(model, task.output, about={"recipe": [f"warm start on {snapshot.snapshot_id}"]})
    activity.say(f"{task.output}: the projection keeps {kept:.1%} of the vectors' squared length.")
    activity.result({"path": str(task.output), "kept": kept})
