"""A corpus of towns, each with two dates to hide, and what pre-training on it needs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from realm_core.index.build import build
from realm_core.model.checkpoint import Model, new_encoder, new_model, save_model
from realm_core.model.packed import Packed
from realm_core.runs.activity import Activity
from realm_core.salient.extract import extract
from realm_core.salient.taggers import TaggerOptions
from realm_core.text.joins import join_block
from realm_core.text.wordpieces import Wordpieces
from tests.tiny import tiny_config, tiny_snapshot

QUIET = Activity(quiet=True)
_COLOURS = ("red", "white", "black", "green", "grey")
_BUILDINGS = ("bridge", "church", "tower", "mill", "market", "school", "harbour", "castle")
COUNT = 40


def _text(number: int) -> str:
    colour, building = _COLOURS[number % 5], _BUILDINGS[number // 5]
    return (
        f"Town {number} lies by a river. In {1000 + 7 * number} its {colour} {building} burned; that is remembered. "
        f"Another {building}, not {colour}, stood there in {1500 + number}."
    )


TEXTS = {f"Town {number}": _text(number) for number in range(COUNT)}


@dataclass(frozen=True)
class Towns:
    """Folders that fit together: the model has an encoder, the index is the model's, the spans are all the dates."""

    root: Path
    model: Path
    index: Path
    corpus: Path
    spans: Path

    def pretrain(self, output: Path, settings: Mapping[str, object]) -> list[str]:
        """The arguments of `pretrain`."""
        options = {"--model": self.model, "--index": self.index, "--corpus": self.corpus, "--spans": self.spans}
        return [*(str(word) for item in options.items() for word in item), *training(output, settings)]

    def warm_up(self, output: Path, settings: Mapping[str, object]) -> list[str]:
        """The arguments of `ict` and `mlm`."""
        return ["--model", str(self.model), "--corpus", str(self.corpus), *training(output, settings)]


def training(output: Path, settings: Mapping[str, object]) -> list[str]:
    """What every training is told; texts among the settings come in TOML's notation."""
    sets = [word for key, value in settings.items() for word in ("--set", f"{key}={json.dumps(value)}")]
    return ["--output", str(output), "--device", "cpu", *sets]


def towns_model(folder: Path, *, seed: int = 0) -> Model:
    """A tiny model with an encoder, its prior neither flat nor decided, its words far enough apart to be learnt."""
    model = new_model(tiny_config(folder), seed=seed)
    encoder = new_encoder(model.config, seed=seed)
    with torch.no_grad():
        for part in (model.block.bert, encoder.bert):
            for layer in part.encoder.parameters():
                if layer.dim() > 1:
                    layer.mul_(5)  # else every text would be much alike
        joined = join_block(Wordpieces.default(), list(TEXTS), list(TEXTS.values()), 288)
        pooled_NW = model.block.pool(Packed.of([one.ids for one in joined], [one.segments for one in joined]))
        model.block.dense.bias.copy_(-model.block.dense.weight @ pooled_NW.mean(0))  # vectors in every direction
        model.block.norm.weight.fill_(0.5)
        encoder.head.norm.weight.fill_(8)
    model.query.load_state_dict(model.block.state_dict())
    return Model(model.config, model.query, model.block, model.reader, encoder=encoder)


def make_towns(root: Path) -> Towns:
    """Everything, under `root`."""
    corpus = tiny_snapshot(root, TEXTS)
    save_model(towns_model(root / "base"), root / "model")
    index = build(root / "model", corpus, root / "indexes", QUIET, device="cpu")
    extract(corpus, root / "spans", QUIET, TaggerOptions("dates"))
    return Towns(root, root / "model", index, corpus, root / "spans")
