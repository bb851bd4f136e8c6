"""Imports the released REALM checkpoints: `python -m realm_core import --embedder FOLDER --openqa FOLDER …`

The folders are those of google/realm-cc-news-pretrained-{embedder,encoder,openqa} and google/realm-orqa-{nq,wq}-
{openqa,reader}, as transformers' REALM classes (up to 4.57) write them: config.json, and model.safetensors or
pytorch_model.bin, which is read without unpickling. Their tensors:

    embedder   realm.…, cls.dense, cls.LayerNorm            → block embedder; without openqa, query embedder as well
    openqa     embedder.…, reader.…                         → query embedder, reader (block_emb is not read)
    reader     realm.…, qa_outputs.…                        → reader
    encoder    realm.…, cls.predictions.…                   → encoder of masked sentences
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from realm_core.errors import RealmError, quoted
from realm_core.files import read_json, read_text, refuse_existing
from realm_core.model.checkpoint import Model, new_encoder, new_model, save_model
from realm_core.model.config import ModelConfig
from realm_core.model.embedder import Embedder
from realm_core.model.tasks import Import
from realm_core.model.torch_file import read_torch_file
from realm_core.runs.activity import Activity
from realm_core.tensors import load_tensors
from realm_core.text.wordpieces import Wordpieces

Tensors = dict[str, Tensor]
_ARCHITECTURE = (
    "vocab_size hidden_size num_hidden_layers num_attention_heads intermediate_size hidden_act "
    "max_position_embeddings type_vocab_size layer_norm_eps"
).split()


def main(task: Import, activity: Activity) -> None:
    refuse_existing(task.output)
    model = import_released(task.embedder, openqa=task.openqa, reader=task.reader, encoder=task.encoder)
    given = [f"{name} {path}" for name in ("embedder", "openqa", "reader", "encoder") if (path := vars(task)[name])]
    saved = save_model(model, task.output, about={"recipe": [f"imported from {', '.join(given)}"]})
    activity.say(f"The model is {task.output}.")
    activity.result({"path": str(task.output), "model_hash": saved.hash})


def import_released(
    embedder: Path, *, openqa: Path | None = None, reader: Path | None = None, encoder: Path | None = None
) -> Model:
    """The model of these folders; RealmError names the folder, and the tensor or setting that does not match.

    Without a reader, the model's reader is initialised from the encoder or, without one, from the embedder.
    """
    folders = [folder for folder in (embedder, openqa, reader, encoder) if folder is not None]
    configs = {folder: _config(folder) for folder in folders}
    first = configs[embedder]
    for folder, other in configs.items():
        for key in (*_ARCHITECTURE, "retriever_proj_size"):
            if other.get(key) != first.get(key):
                raise RealmError(
                    f"{folder}: {key} is {other.get(key)!r}, but {first.get(key)!r} in {embedder}; "
                    "all parts of a model must have the same architecture."
                )
    reader_folder = openqa or reader
    model = new_model(_model_config(embedder, first, configs.get(reader_folder) if reader_folder else None))
    stored = _weights(embedder)
    _fill_embedder(model.block, stored, "", embedder)
    model.query.load_state_dict(model.block.state_dict())
    if encoder is not None:
        model = dataclasses.replace(model, encoder=new_encoder(model.config))
        _fill_encoder(model, _weights(encoder), encoder)
    initial = model.block if model.encoder is None else model.encoder
    model.reader.bert.load_state_dict(initial.bert.state_dict())
    if reader_folder is not None:
        stored, prefix = _weights(reader_folder), "reader." if openqa else ""
        if openqa is not None:
            _fill_embedder(model.query, stored, "embedder.", openqa)
        _fill(model.reader.bert, stored, f"{prefix}realm.", reader_folder)
        for module, name in (
            (model.reader.ends, "dense_intermediate"),
            (model.reader.norm, "layer_normalization"),
            (model.reader.score, "dense_output"),
        ):
            _fill(module, stored, f"{prefix}qa_outputs.{name}.", reader_folder)
    return model


def _config(folder: Path) -> dict[str, Any]:
    config = read_json(folder / "config.json")
    if not isinstance(config, dict) or config.get("model_type") != "realm":
        raise RealmError(f"{folder / 'config.json'} does not describe a REALM model in the format of transformers.")
    missing = [key for key in (*_ARCHITECTURE, "retriever_proj_size") if key not in config]
    if missing:
        raise RealmError(f"{folder / 'config.json'} lacks {missing[0]!r}.")
    wordpieces = Wordpieces.default()
    if config["vocab_size"] != wordpieces.vocabulary_size:
        size = f"{config['vocab_size']:,}" if isinstance(config["vocab_size"], int) else quoted(config["vocab_size"])
        raise RealmError(f"{folder}: a vocabulary of {size} wordpieces is not BERT's uncased one.")
    vocabulary = folder / "vocab.txt"
    if vocabulary.exists():
        pieces = read_text(vocabulary).splitlines()
        if pieces != list(wordpieces.vocabulary):
            raise RealmError(f"{vocabulary} is not BERT's uncased vocabulary.")
    return config


def _model_config(folder: Path, config: dict[str, Any], reader_config: dict[str, Any] | None) -> ModelConfig:
    architecture = {key: config[key] for key in _ARCHITECTURE}
    own: dict[str, Any] = {"base": json.dumps(architecture, sort_keys=True), "pooling": "pooler"}
    own |= {"dimension": config["retriever_proj_size"]}
    if reader_config is not None:
        own |= {"reader_title": False, "normalisation": "joint", "not_here": False}
        for ours, theirs in (
            ("reader_wordpieces", "reader_seq_len"),
            ("span_wordpieces", "max_span_width"),
            ("span_hidden", "span_hidden_size"),
        ):
            if theirs in reader_config:
                own[ours] = reader_config[theirs]
    try:
        return ModelConfig(**own)
    except RealmError as error:
        raise RealmError(f"{folder}: {error}") from None


def _weights(folder: Path) -> Tensors:
    safe, pickled = folder / "model.safetensors", folder / "pytorch_model.bin"
    if safe.exists():
        return load_tensors(safe)
    if pickled.exists():
        return read_torch_file(pickled, lambda name: name != "block_emb")  # gigabytes of vectors of another corpus
    raise RealmError(f"{folder} contains neither model.safetensors nor pytorch_model.bin.")


def _fill_embedder(embedder: Embedder, stored: Tensors, prefix: str, folder: Path) -> None:
    _fill(embedder.bert, stored, f"{prefix}realm.", folder)
    assert embedder.pooler is not None
    _fill(embedder.pooler, stored, f"{prefix}realm.pooler.dense.", folder)
    _fill(embedder.dense, stored, f"{prefix}cls.dense.", folder)
    _fill(embedder.norm, stored, f"{prefix}cls.LayerNorm.", folder)


def _fill_encoder(model: Model, stored: Tensors, folder: Path) -> None:
    assert model.encoder is not None
    _fill(model.encoder.bert, stored, "realm.", folder)
    head, predictions = model.encoder.head, "cls.predictions."
    _fill(head.dense, stored, f"{predictions}transform.dense.", folder)
    _fill(head.norm, stored, f"{predictions}transform.LayerNorm.", folder)
    with torch.no_grad():
        head.bias.copy_(_tensor(stored, f"{predictions}bias", head.bias, folder))
    words_VW = model.encoder.bert.embeddings.word_embeddings.weight
    decoder_VW = stored.get(f"{predictions}decoder.weight")
    if decoder_VW is not None and not torch.equal(decoder_VW.to(words_VW.dtype), words_VW):
        raise RealmError(f"{folder}: the decoder is not tied to the word embeddings.")


def _fill(module: nn.Module, stored: Tensors, prefix: str, folder: Path) -> None:
    own = module.state_dict()
    module.load_state_dict({name: _tensor(stored, prefix + name, like, folder) for name, like in own.items()})


def _tensor(stored: Tensors, name: str, like: Tensor, folder: Path) -> Tensor:
    tensor = stored.get(name)
    if tensor is None:
        raise RealmError(f"{folder} has no tensor {name!r}; is it another part of the model?")
    if tensor.shape != like.shape:
        raise RealmError(f"{folder}: {name} has shape {tuple(tensor.shape)}, not {tuple(like.shape)}.")
    return tensor.to(like.dtype)
