"""Quantises a model, or changes its reading options: `python -m realm_core pack`.

Parts are stored in float16, in int8 with a scale per row, or (reader and query embedder) as a four-bit difference from
the base weights. Normalisation and the minimum probability of an answer can be set at the same time; `calibrate`
measures the latter.
"""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

from realm_core.errors import RealmError
from realm_core.model.checkpoint import Storage, load_model, save_model
from realm_core.model.config import NORMALISATIONS
from realm_core.runs.activity import Activity


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
    parser.add_argument("--min-probability", type=float, help="an answer less likely than this is not given")


def main(arguments: argparse.Namespace, activity: Activity) -> None:
    """Write the packed model and report its size."""
    if arguments.output.exists():
        raise RealmError(f"{arguments.output} exists already; choose another name.")
    model = load_model(arguments.model)
    config = model.config
    if arguments.normalisation is not None:
        config = dataclasses.replace(config, normalisation=arguments.normalisation)
    if arguments.min_probability is not None:
        config = dataclasses.replace(config, min_probability=arguments.min_probability)
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
