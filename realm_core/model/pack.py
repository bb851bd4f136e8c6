"""Store a model small, or change how it reads: `python -m realm_core pack`.

Parts that are kept for shipping are stored in float16, in int8 with a scale a row, or (the reader) as what training
added to the base weights, in four bits. What was chosen by measuring is set at the same time: normalisation, smallest
probability of an answer, and the temperatures of prior and reading, which are put into the weights:

    f(x, z) / T      into the gain and offset of the query embedder's LayerNorm
    span logit / T   into the last layer of the span MLP, which "not here" shares
"""

from __future__ import annotations

import argparse
import dataclasses
import math
from pathlib import Path

import torch

from realm_core.activity import Activity
from realm_core.errors import RealmError
from realm_core.model.checkpoint import Storage, load_model, save_model
from realm_core.model.marginal import NORMALISATIONS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `pack`."""
    storages = ("float32", "float16", "int8")
    parser.add_argument("--model", type=Path, required=True, help="model folder to read")
    parser.add_argument("--output", type=Path, required=True, help="model folder to make")
    parser.add_argument("--name", help="what the model is called in answers (default: the folder's name)")
    parser.add_argument(
        "--query", choices=(*storages, "delta4"), default="float16", help="storage of the query embedder"
    )
    # Rounding the block embedder would make it another one, and every index built with it useless; it is small, as
    # long as its BERT is the base's.
    parser.add_argument("--block", choices=storages, default="float32", help="storage of the block embedder")
    parser.add_argument("--reader", choices=(*storages, "delta4"), default="float16", help="storage of the reader")
    parser.add_argument("--normalisation", choices=NORMALISATIONS, help="how the model reads")
    for name, what in (("prior", "f(x, z), before the softmax over blocks"), ("reading", "the span logits")):
        parser.add_argument(f"--{name}-temperature", type=float, default=1.0, help=f"divides {what} (1)")
    parser.add_argument("--min-probability", type=float, help="an answer less likely than this is not given")


def main(arguments: argparse.Namespace, activity: Activity) -> None:
    """Write the packed model and say how large it is."""
    if arguments.output.exists():
        raise RealmError(f"{arguments.output} exists already; choose another name.")
    model = load_model(arguments.model)
    config = model.config
    if arguments.normalisation is not None:
        config = dataclasses.replace(config, normalisation=arguments.normalisation)
    if arguments.min_probability is not None:
        config = dataclasses.replace(config, min_probability=arguments.min_probability)
    for name, layer in (("prior", model.query.norm), ("reading", model.reader.score)):
        temperature = getattr(arguments, f"{name}_temperature")
        if not 0 < temperature < math.inf:
            raise RealmError(f"--{name}-temperature must be a number above 0, not {temperature}.")
        with torch.no_grad():
            layer.weight.div_(temperature)
            layer.bias.div_(temperature)
    storage: dict[str, Storage] = {
        "query": arguments.query,
        "block": arguments.block,
        "reader": arguments.reader,
    }
    about = {**(model.about or {}), "name": arguments.name or arguments.output.name}
    saved = save_model(dataclasses.replace(model, config=config), arguments.output, storage=storage, about=about)
    size_bytes = sum(path.stat().st_size for path in arguments.output.iterdir())
    activity.say(f"{arguments.output}: {size_bytes / 1e6:.1f} MB.")
    activity.result({"path": str(arguments.output), "model_hash": saved.hash, "bytes": size_bytes})
