"""The retriever of one model with the encoder of another: `python -m realm_core combine`.

    query and block embedder   from --retriever, so that its indexes stay right
    encoder, reader            from --encoder; the reader's BERT becomes the encoder's, where fine-tuning begins

Asks which half of a pre-training helps (paper, table 2). With one model as both, the reader alone is set.
"""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

from realm_core.activity import Activity
from realm_core.errors import RealmError
from realm_core.model.checkpoint import load_model, save_model


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `combine`."""
    parser.add_argument("--retriever", type=Path, required=True, help="model folder that the embedders come from")
    parser.add_argument("--encoder", type=Path, required=True, help="model folder that encoder and reader come from")
    parser.add_argument("--output", type=Path, required=True, help="model folder to make")


def main(arguments: argparse.Namespace, activity: Activity) -> None:
    """Write the combined model."""
    if arguments.output.exists():
        raise RealmError(f"{arguments.output} exists already; choose another name.")
    retriever, encoder = load_model(arguments.retriever), load_model(arguments.encoder)
    for name, value in encoder.config.as_dict().items():
        if retriever.config.as_dict()[name] != value:
            raise RealmError(
                f"{arguments.retriever} and {arguments.encoder} cannot be combined: {name} is "
                f"{retriever.config.as_dict()[name]!r} in the one and {value!r} in the other."
            )
    if encoder.encoder is None:
        raise RealmError(f"{arguments.encoder} has no encoder of masked sentences; `mlm` or `pretrain` makes one.")
    encoder.reader.bert.load_state_dict(encoder.encoder.bert.state_dict())
    recipe = [*(retriever.about or {}).get("recipe", []), f"encoder and reader of {encoder.hash}"]
    saved = save_model(
        dataclasses.replace(encoder, query=retriever.query, block=retriever.block),
        arguments.output,
        about={"recipe": recipe},
    )
    activity.say(f"The model is {arguments.output}.")
    activity.result({"path": str(arguments.output), "model_hash": saved.hash})
