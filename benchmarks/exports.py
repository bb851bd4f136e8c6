"""Our weights in the shape that the peers load, so that both sides multiply by the same matrices."""

from __future__ import annotations

import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from realm_core.files import read_json, write_json
from realm_core.model.base import base_folder
from realm_core.model.bert import Bert
from realm_core.model.checkpoint import load_model
from realm_core.model.embedder import Embedder
from realm_core.model.encoder import Encoder

_TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt")
_WEIGHTS = "model.safetensors"


def export_sentence_encoder(bert: Bert, base: str, folder: Path) -> None:
    """The base's SentenceTransformer folder (BERT, mean pooling, unit length) with `bert`'s weights in it."""
    shutil.copytree(base_folder(base), folder)
    save_file({**load_file(folder / _WEIGHTS), **_weights(bert, "")}, folder / _WEIGHTS, metadata={"format": "pt"})


def export_span_reader(model_folder: Path, folder: Path) -> None:
    """A BertForQuestionAnswering folder: the BERT of a model's reader, and a span head drawn at random (σ = 0.02).

    The head decides what is answered, not how long it takes.
    """
    model = load_model(model_folder)
    folder.mkdir(parents=True)
    source = base_folder(model.config.base)
    config = {**read_json(source / "config.json"), "architectures": ["BertForQuestionAnswering"]}
    write_json(folder / "config.json", config)
    for name in _TOKENIZER_FILES:
        if (source / name).exists():
            shutil.copy(source / name, folder / name)
    head_2W = torch.randn(2, config["hidden_size"], generator=torch.Generator().manual_seed(0)) * 0.02
    head = {"qa_outputs.weight": head_2W, "qa_outputs.bias": torch.zeros(2)}
    save_file({**_weights(model.reader.bert, "bert."), **head}, folder / _WEIGHTS, metadata={"format": "pt"})


def export_realm(embedder: Embedder, encoder: Encoder, path: Path) -> None:
    """Embedder and encoder by the names that transformers' REALM gives their tensors, in one safetensors file.

    Its embedder has a pooler (a Dense and tanh on [CLS]) between BERT and the projection, which ours has not.
    """
    named = {
        "embedder.cls.dense": embedder.dense,
        "embedder.cls.LayerNorm": embedder.norm,
        "encoder.cls.predictions.transform.dense": encoder.head.dense,
        "encoder.cls.predictions.transform.LayerNorm": encoder.head.norm,
    }
    tensors = {f"{name}.{key}": tensor for name, module in named.items() for key, tensor in module.state_dict().items()}
    save_file(
        {
            **_weights(embedder.bert, "embedder.realm."),
            **_weights(encoder.bert, "encoder.realm."),
            **{name: tensor.detach().contiguous() for name, tensor in tensors.items()},
            "encoder.cls.predictions.bias": encoder.head.bias.detach(),
        },
        path,
    )


def _weights(bert: Bert, prefix: str) -> dict[str, Tensor]:
    return {prefix + name: tensor.detach().float().contiguous() for name, tensor in bert.state_dict().items()}
