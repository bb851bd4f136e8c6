"""Models on disk: JSON and safetensors, never pickle; only tensors that differ from the base weights are stored.

A model folder contains

    config.json         ModelConfig, hashes, storage
    model.safetensors   changed tensors: `query.…`, `block.…` (embedders), `reader.…`; pre-trained: `encoder.…`
    adapter.safetensors what a later training added to these, if it was of low rank (`adapter.py`)
    README.md           the model card, if it has one

A matrix may be quantised to int8 with a scale per row (`NAME` int8 and `NAME:scale` float16): value = int8 · scale. An
adapter's are.
Or its difference from the base weights is quantised to four bits with a scale per row (`NAME:delta` uint8, two columns
per byte, the first in the low half, and `NAME:scale` float16): value = base + (code − 8) · scale.
"""

from __future__ import annotations

import copy
import hashlib
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from realm_core.errors import RealmError, quoted
from realm_core.files import disk_errors, new_folder, read_json, sha256_of_file, write_json
from realm_core.model.adapter import DOWN, UP, Adapter, changes, joined_adapters
from realm_core.model.base import (
    base_bert,
    base_tensors,
    bert_without_weights,
    changed_tensors,
    shared_weights,
    without_weights,
)
from realm_core.model.bert import Bert
from realm_core.model.config import ModelConfig
from realm_core.model.embedder import Embedder
from realm_core.model.encoder import Encoder
from realm_core.model.encoding import BertModule
from realm_core.model.identity import ADAPTER_FILE, WEIGHTS_FILE, model_hash, verified_weights
from realm_core.model.reader import Reader
from realm_core.object_store import publish
from realm_core.tensors import copied, load_tensors, save_tensors

FORMAT = 1
Storage = Literal["float32", "float16", "int8", "delta4"]
_SCALE, _DELTA = ":scale", ":delta"
_ZERO_CODE = 8  # zero point of four-bit differences; codes are 1 to 15
_PIECE_ROWS = 1 << 10  # rows dequantised at once
_SMALLEST_HALF = 2.0**-24  # smallest scale, so that none is zero


@dataclass(frozen=True)
class Model:
    """A complete model. `hash` and `block_hash` are None until it is saved."""

    config: ModelConfig
    query: Embedder  # Embed_input
    block: Embedder  # Embed_doc
    reader: Reader
    hash: str | None = None
    block_hash: str | None = None  # of the block embedder: an index fits every model with the same one
    about: dict[str, Any] | None = None
    encoder: Encoder | None = None  # of masked sentences; only pre-trained models have one
    adapter: Adapter | None = None  # all that a training changed; it is saved beside the weights that it started from

    def parts(self) -> dict[str, nn.Module]:
        """The trainable parts by the prefix of their tensors."""
        parts: dict[str, nn.Module] = {"query": self.query, "block": self.block, "reader": self.reader}
        return parts if self.encoder is None else parts | {"encoder": self.encoder}


def new_encoder(config: ModelConfig, *, seed: int = 0) -> Encoder:
    """An encoder with base weights; its head is initialised from `seed`, its bias is zero."""
    torch.manual_seed(seed)
    return Encoder(base_bert(config.base)).eval()


def new_model(config: ModelConfig, *, seed: int = 0) -> Model:
    """A model with base weights; projections and span MLP are initialised from `seed`."""
    torch.manual_seed(seed)
    bert = base_bert(config.base)
    reader_bert = copy.deepcopy(bert) if config.reader_base is None else base_bert(config.reader_base)
    return _new_model(config, bert, reader_bert, copy.deepcopy)


def _new_model(config: ModelConfig, bert: Bert, reader_bert: Bert, copy_module: Callable[[Any], Any]) -> Model:
    block = Embedder(bert, config.dimension, config.pooling)
    query = copy_module(block)
    reader = Reader(reader_bert, config.span_hidden, config.span_wordpieces, not_here=config.not_here)
    for part in (block, query, reader):
        part.eval()
    return Model(config, query, block, reader)


def save_model(
    model: Model, folder: Path, *, storage: dict[str, Storage] | None = None, about: dict[str, Any] | None = None
) -> Model:
    """Write `model` to `folder` atomically (it must not exist); returns the model with its hashes.

    storage: per part (`query`, `block`, `reader`), default float32. about: JSON stored in config.json.
    """
    about = about or {}
    with new_folder(folder, publish=publish) as temporary:
        if model.adapter is None:
            record = _save_weights(model, temporary, storage or {}) | {"about": about}
        else:
            record = _save_adapter(model.adapter, model.config, temporary) | {"about": about}
        write_json(temporary / "config.json", record, sealed=True)
    return replace(model, hash=model_hash(record), block_hash=record["block_hash"], about=about)


def _save_weights(model: Model, folder: Path, storage: dict[str, Storage]) -> dict[str, Any]:
    """Write the tensors that differ from the base's; returns what config.json says of them."""
    tensors: dict[str, Tensor] = {}
    shared = model.query is model.block  # one embedder for both sides (as in pre-training) is stored once
    for part, module in model.parts().items():
        if shared and part == "query":
            continue
        base = base_tensors(model.config.base_of(part))
        for name, tensor in _changed(module, base).items():
            first = base.get(name.removeprefix("bert.")) if name.startswith("bert.") else None
            tensors |= _store(f"{part}.{name}", tensor.detach().cpu(), storage.get(part, "float32"), first)
    save_tensors(folder / WEIGHTS_FILE, tensors)
    return {
        "format": FORMAT,
        "model": model.config.as_dict(),
        "block_hash": _hash_of({n: t for n, t in tensors.items() if n.startswith("block.")}, model.config),
        "weights_sha256": sha256_of_file(folder / WEIGHTS_FILE),
        "shared_embedder": shared,
    }


def _save_adapter(adapter: Adapter, config: ModelConfig, folder: Path) -> dict[str, Any]:
    """Copy the weights that the adapter adds to and write it beside them; returns what config.json says of them."""
    record: dict[str, Any] = read_json(adapter.folder / "config.json")
    weights, *earlier = verified_weights(adapter.folder, record)
    with disk_errors(folder):
        shutil.copyfile(weights, folder / WEIGHTS_FILE)
    tensors = {name: tensor.detach().cpu() for name, tensor in adapter.tensors.items()}
    replaced = {_part(name) for name in tensors} if adapter.continues else set()
    for path in earlier:
        own = {name: tensor for name, tensor in _adapter_tensors(path).items() if _part(name) not in replaced}
        tensors = joined_adapters(own, tensors)
    stored: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        stored |= _store(name, tensor, "int8" if name.endswith((DOWN, UP)) else "float16", None)
    save_tensors(folder / ADAPTER_FILE, stored)
    kept: dict[str, Any] = {
        key: record[key] for key in ("format", "block_hash", "weights_sha256", "shared_embedder") if key in record
    }
    return {**kept, "model": config.as_dict(), "adapter_sha256": sha256_of_file(folder / ADAPTER_FILE)}


def load_model(folder: Path, *, frozen: torch.dtype | None = None, only: str | None = None) -> Model:
    """Read a model folder; `RealmError` if it is missing, damaged or of another format.

    frozen: only for inference, BERT's weights in this dtype; the modules on top of BERT stay in float32. All frozen
    models of this process share the base weights that their parts did not change.
    only: the one part, as `Model.parts` names it, that is given weights; the others are on the device "meta".
    """
    record = read_json(folder / "config.json")
    where = str(folder / "config.json")
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise RealmError(f"{where} is not a model of format {FORMAT}.")
    missing = [key for key in ("model", "weights_sha256", "block_hash") if key not in record]
    if missing or not isinstance(record["model"], dict):
        raise RealmError(f"{where} does not describe a model: {(missing or ['model'])[0]!r} is missing.")
    weights, *adapters = verified_weights(folder, record)
    config = ModelConfig.from_dict(record["model"], where)
    stored = load_tensors(weights)
    if record.get("shared_embedder"):
        stored |= {f"query.{name[6:]}": tensor for name, tensor in stored.items() if name.startswith("block.")}
    with torch.device("meta"):
        reader_bert = bert_without_weights(config.base_of("reader"))
        model = _new_model(config, bert_without_weights(config.base), reader_bert, without_weights)
        if any(name.startswith("encoder.") for name in stored):
            model = replace(model, encoder=Encoder(bert_without_weights(config.base)).eval())
    shapes = {f"{part}.{name}": t.shape for part, module in model.parts().items() for name, t in _state(module)}
    for name in shapes:
        if ".bert." not in name and name not in stored:  # BERT's other tensors are the base's
            raise RealmError(f"{weights} has no tensor {name!r}; the architecture in {where} needs it.")
    parts = {part: module for part, module in model.parts().items() if only in (None, part)}
    added, whole = _adapter_of(adapters, shapes, only)
    stored |= whole
    bases = {name: base_tensors(name) for name in {config.base_of(part) for part in parts}}
    values: dict[str, Tensor] = {}
    for key, tensor in stored.items():
        if key.endswith(_SCALE) or only not in (None, _part(key)):
            continue
        name = key.removesuffix(_DELTA)
        try:
            dtype = frozen if frozen is not None and ".bert." in name and name not in added else torch.float32
            part, _, own_name = name.partition(".")
            if key != name:
                first = bases[config.base_of(part)][own_name.removeprefix("bert.")]
                values[name] = _from_delta(first, tensor, stored.get(name + _SCALE), dtype)
                continue
            if shapes[name] != tensor.shape:  # checked before dequantising, which could broadcast to any size
                raise ValueError
            values[name] = _dequantised(tensor, stored.get(name + _SCALE), dtype)
        except (KeyError, RuntimeError, ValueError):
            raise RealmError(
                f"{weights}: tensor {quoted(key)} does not belong to the architecture in {where}."
            ) from None
    for name, change in added.items():
        part, _, own_name = name.partition(".")
        start = values.get(name, bases[config.base_of(part)].get(own_name.removeprefix("bert.")))
        assert start is not None  # a matrix of this architecture
        values[name] = (start.float() + change).to(torch.float32 if frozen is None else frozen)
    for part, module in parts.items():
        base = bases[config.base_of(part)]
        shared = None if frozen is None else shared_weights(config.base_of(part), frozen)
        own: dict[str, Tensor] = {}
        for name, _ in _state(module):
            value = values.get(f"{part}.{name}")
            if value is None:
                common = name.removeprefix("bert.")
                value = base[common].clone() if shared is None else shared(common, base[common])
            own[name] = value
        module.load_state_dict(own, assign=True)
    return replace(model, hash=model_hash(record), block_hash=record["block_hash"], about=record.get("about", {}))


def weighted(model: Model, lexical_weight: float | None) -> Model:
    """The model with another weight of the lexical score; None: as it is."""
    return (
        model if lexical_weight is None else replace(model, config=replace(model.config, lexical_weight=lexical_weight))
    )


def own_adapter(folder: Path) -> dict[str, Tensor]:
    """The tensors of a model's adapter; none if it has no adapter."""
    _, *adapters = verified_weights(folder, read_json(folder / "config.json"))
    return {name: tensor for path in adapters for name, tensor in _adapter_tensors(path).items()}


def _adapter_tensors(path: Path) -> dict[str, Tensor]:
    """An adapter's tensors in float32; `RealmError` if a scale does not fit."""
    stored = load_tensors(path)
    try:
        return {
            name: _dequantised(tensor, stored.get(name + _SCALE), torch.float32)
            for name, tensor in stored.items()
            if not name.endswith(_SCALE)
        }
    except ValueError:
        raise RealmError(f"{path}: a scale is missing or does not fit its tensor.") from None


def _adapter_of(
    files: Sequence[Path], shapes: Mapping[str, torch.Size], only: str | None
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """An adapter's low-rank changes and its whole tensors; `RealmError` if they do not belong to the architecture."""
    added: dict[str, Tensor] = {}
    whole: dict[str, Tensor] = {}
    for path in files:
        tensors = {n: t for n, t in _adapter_tensors(path).items() if only in (None, _part(n))}
        try:
            added |= changes(tensors)
        except ValueError as error:
            raise RealmError(f"{path}: the change of tensor {quoted(str(error))} is not whole.") from None
        whole |= {name: tensor for name, tensor in tensors.items() if not name.endswith((DOWN, UP))}
        for name, tensor in (added | whole).items():
            if shapes.get(name) != tensor.shape or (name in added and ".bert." not in name):
                raise RealmError(f"{path}: tensor {quoted(name)} does not belong to the architecture.")
    return added, whole


def _part(name: str) -> str:
    """The part of a model (`Model.parts`) that a tensor belongs to."""
    return name.partition(".")[0]


def _state(module: nn.Module) -> Iterable[tuple[str, Tensor]]:
    return module.state_dict().items()


def _dequantised(tensor: Tensor, scale_rows: Tensor | None, dtype: torch.dtype) -> Tensor:
    """A stored tensor in `dtype`; ValueError if its type or scale is not valid."""
    if tensor.dtype == torch.int8:
        if scale_rows is None or scale_rows.shape != tensor.shape[:1]:
            raise ValueError
        restored = torch.empty(tensor.shape, dtype=dtype)
        pieces = (whole.split(_PIECE_ROWS) for whole in (restored, tensor, scale_rows))
        for piece, codes, own in zip(*pieces, strict=True):
            piece.copy_(codes.float().mul_(own.float().unsqueeze(1)))
        return restored
    if not tensor.is_floating_point():
        raise ValueError
    return copied(tensor, dtype)


def _from_delta(first: Tensor, codes: Tensor, scale_rows: Tensor | None, dtype: torch.dtype) -> Tensor:
    """A base tensor plus a difference stored by `_delta`, in `dtype`; ValueError if the shapes do not match."""
    rows, columns = first.shape
    if codes.dtype != torch.uint8 or codes.shape != (rows, -(-columns // 2)):
        raise ValueError
    if scale_rows is None or scale_rows.shape != (rows,) or not scale_rows.is_floating_point():
        raise ValueError
    restored = torch.empty(first.shape, dtype=dtype)
    pieces = (whole.split(_PIECE_ROWS) for whole in (restored, first, codes, scale_rows))
    for piece, own_first, own_codes, own_scale in zip(*pieces, strict=True):
        both = torch.stack([own_codes & 15, own_codes >> 4], dim=2).flatten(1)[:, :columns]
        piece.copy_(own_first + (both.float() - _ZERO_CODE) * own_scale.float().unsqueeze(1))
    return restored


def _delta(name: str, tensor: Tensor, first: Tensor) -> dict[str, Tensor]:
    """The difference `tensor` − `first`, quantised to four bits."""
    difference = tensor.float() - first
    scale_rows = (difference.abs().amax(dim=1) / (_ZERO_CODE - 1)).half().clamp(min=_SMALLEST_HALF)
    codes = (difference / scale_rows.float().unsqueeze(1)).round().clamp(1 - _ZERO_CODE, _ZERO_CODE - 1) + _ZERO_CODE
    codes = torch.nn.functional.pad(codes.to(torch.uint8), (0, codes.shape[1] % 2), value=_ZERO_CODE)
    return {name + _DELTA: codes[:, 0::2] | (codes[:, 1::2] << 4), name + _SCALE: scale_rows}


def _changed(module: nn.Module, base: dict[str, Tensor]) -> dict[str, Tensor]:
    assert isinstance(module, BertModule)
    own = {name: tensor for name, tensor in module.state_dict().items() if not name.startswith("bert.")}
    return own | {f"bert.{name}": tensor for name, tensor in changed_tensors(module.bert, base).items()}


def _store(name: str, tensor: Tensor, storage: Storage, first: Tensor | None) -> dict[str, Tensor]:
    """first: the base's tensor of that name, if there is one."""
    if storage == "delta4" and tensor.dim() == 2 and first is not None:
        return _delta(name, tensor, first)
    if storage == "int8" and tensor.dim() == 2 and min(tensor.shape) > 1:
        scale_rows = (tensor.abs().amax(dim=1) / 127).half().clamp(min=_SMALLEST_HALF)
        codes = (tensor / scale_rows.float().unsqueeze(1)).round().clamp(-127, 127).to(torch.int8)
        return {name: codes, name + _SCALE: scale_rows}
    return {name: tensor.to(torch.float32 if storage == "float32" else torch.float16).contiguous()}


def _hash_of(tensors: dict[str, Tensor], config: ModelConfig) -> str:
    digest = hashlib.sha256(repr((config.base, config.pooling, config.dimension, config.block_wordpieces)).encode())
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(tensors[name].numpy().tobytes())
    return digest.hexdigest()[:16]
