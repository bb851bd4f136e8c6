"""Combines the retriever of one model with the encoder or the reader of another: `python -m realm_core combine`.

    query and block embedder   from --retriever, so that its indexes stay valid
    encoder, reader            from --encoder; the reader's BERT is initialised with the encoder's, for fine-tuning
    only the reader            from --reader, with its base weights and reading options; of several, their mean

`--encoder` serves to measure which half of pre-training helps (paper, table 2); with the same model for both, it only
initialises the reader. `--reader` adds a separately trained reader (`train-reader`) to a retriever that has an index.
Readers that went on from the same one may be averaged (Wortsman et al. 2022, "Model soups"): the mean of their weights
reads what each of them learnt, at the cost of one. If they and the retriever's model are low-rank changes of the same
weights, so is their mean.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from realm_core.errors import RealmError
from realm_core.files import read_json, refuse_existing, sha256_of_file
from realm_core.model.adapter import Adapter, mean
from realm_core.model.checkpoint import Model, load_model, own_adapter, save_model
from realm_core.model.identity import verified_weights
from realm_core.model.tasks import Combine
from realm_core.runs.activity import Activity
from realm_core.tensors import load_tensors

_EMBEDDING = ("pooling", "dimension", "query_wordpieces", "block_wordpieces")  # options of the retriever


def main(task: Combine, activity: Activity) -> None:
    refuse_existing(task.output)
    retriever = load_model(task.retriever)
    if task.reader:
        shares = tuple(share / sum(task.shares) for share in task.shares) or (1 / len(task.reader),) * len(task.reader)
        reader = _averaged(task.reader, shares)
        combined, recipe = _with_reader(retriever, reader, task)
        if changed := _low_rank(retriever, task, shares):
            if any(name.startswith("query.bert.") for name in changed):  # the last stage of both is the retriever's
                recipe = [*_recipe(reader), *_recipe(retriever)[-1:]]
            combined = dataclasses.replace(combined, adapter=Adapter(task.reader[0], changed, continues=True))
    else:
        assert task.encoder is not None  # one of the two is
        combined, recipe = _with_encoder(retriever, load_model(task.encoder), task)
    saved = save_model(combined, task.output, about={"recipe": recipe})
    activity.say(f"The model is {task.output}.")
    activity.result({"path": str(task.output), "model_hash": saved.hash})


def _with_reader(retriever: Model, other: Model, task: Combine) -> tuple[Model, list[str]]:
    """The model with the other's reader, and its recipe."""
    _check_alike(task.retriever, task.reader[0], retriever, other, _EMBEDDING)
    config = dataclasses.replace(other.config, base=retriever.config.base, reader_base=other.config.base_of("reader"))
    recipe = [*_recipe(retriever), *_recipe(other)[-1:]]
    return dataclasses.replace(retriever, config=config, reader=other.reader), recipe


def _recipe(model: Model) -> list[str]:
    """How it was made, stage by stage."""
    return list((model.about or {}).get("recipe", []))


def _low_rank(retriever: Model, task: Combine, shares: Sequence[float]) -> dict[str, Tensor]:
    """The combination as an adapter of the first reader's weights, where it can be one; otherwise nothing.

    All readers must be low-rank changes of the same weights, and these have the embedders of the retriever's.
    """
    folders = (task.retriever, *task.reader)
    weights = [verified_weights(folder, read_json(folder / "config.json"))[0] for folder in folders]
    hashes = {sha256_of_file(path) for path in weights[1:]}
    own, *others = map(own_adapter, folders)
    if len(hashes) > 1 or not all(others) or _embedders(weights[0]) != _embedders(weights[1]):
        return {}
    readers = [{name: tensor for name, tensor in one.items() if name.startswith("reader.")} for one in others]
    query = {name: tensor for name, tensor in own.items() if name.startswith("query.bert.")}
    # The layers above BERT are small, so they are there whether they differ or not.
    above = {f"query.{name}": t for name, t in retriever.query.state_dict().items() if not name.startswith("bert.")}
    return mean(readers, shares, task.rank or None) | query | above


def _embedders(weights: Path) -> str:
    """A hash of what a file of weights has of the block embedder and of the query embedder's BERT."""
    digest = hashlib.sha256()
    for name, tensor in sorted(load_tensors(weights).items()):
        if name.startswith(("block.", "query.bert.")):
            digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype} ".encode())
            digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()


def _averaged(folders: Sequence[Path], shares: Sequence[float]) -> Model:
    """The first model with the mean of all readers' weights."""
    first, *others = map(load_model, folders)
    weights = [model.reader.state_dict() for model in (first, *others)]
    for folder, other, own in zip(folders[1:], others, weights[1:], strict=True):
        shapes = [{name: tensor.shape for name, tensor in one.items()} for one in (weights[0], own)]
        if other.config.base_of("reader") != first.config.base_of("reader") or shapes[0] != shapes[1]:
            raise RealmError(f"The readers of {folders[0]} and {folder} cannot be averaged: their shapes differ.")
    if not others:
        return first
    for name, tensor in weights[0].items():
        if tensor.is_floating_point():
            own_shares = zip(weights, shares, strict=True)
            tensor.copy_(sum((own[name].float() * share for own, share in own_shares), torch.zeros(())))
    about = dict(first.about or {})
    hashes = ", ".join(str(model.hash) for model in (first, *others))
    about["recipe"] = [f"mean of the readers of {hashes}, shares {', '.join(f'{share:g}' for share in shares)}"]
    return dataclasses.replace(first, about=about)


def _with_encoder(retriever: Model, encoder: Model, task: Combine) -> tuple[Model, list[str]]:
    """The model with the other's encoder and a reader initialised from that, and its recipe."""
    _check_alike(task.retriever, task.encoder, retriever, encoder, encoder.config.as_dict())
    if encoder.encoder is None:
        raise RealmError(f"{task.encoder} has no encoder of masked sentences; `mlm` or `pretrain` makes one.")
    encoder.reader.bert.load_state_dict(encoder.encoder.bert.state_dict())
    recipe = [*_recipe(retriever), f"encoder and reader of {encoder.hash}"]
    return dataclasses.replace(encoder, query=retriever.query, block=retriever.block), recipe


def _check_alike(first: Path, second: Path | None, one: Model, other: Model, names: Iterable[str]) -> None:
    """`RealmError` if one of these options differs. first, second: folders of the models."""
    own, others = one.config.as_dict(), other.config.as_dict()
    for name in names:
        if own[name] != others[name]:
            raise RealmError(
                f"{first} and {second} cannot be combined: {name} is "
                f"{own[name]!r} in the former and {others[name]!r} in the latter."
            )
