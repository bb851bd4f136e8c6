"""Predictions to count and compare, question files and a search, for tests of evaluation."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from realm_core.evaluation.predictions import Header, Prediction, PredictionFile
from realm_core.evaluation.retrieving import EngineRetrieving
from realm_core.model.checkpoint import Model
from realm_core.serving.corpus import open_corpus

IDENTITY: dict[str, Any] = {
    "model": "0123456789abcdef",
    "index": "generation",
    "corpus": "tiny@abc",
    "retriever": "dense",
    "score_scale": 1.0,
    "k": 5,
    "normalisation": "block+null",
    "questions": "hash-of-dev",
}


def prediction(
    right: bool = True,
    probability: float = 0.5,
    *,
    given_answer: bool = True,
    rank: int | None = 1,
    ms: float = 2.0,
    question: str = "Which?",
    answers: tuple[str, ...] = ("Nile",),
) -> Prediction:
    """A prediction of which only these things matter."""
    return Prediction(
        question=question,
        answers=answers,
        answer_type="string",
        prediction="Nile" if right else "Mars",
        probability=probability,
        no_answer_probability=None,
        given=given_answer,
        right=right,
        answer_rank=rank,
        blocks=("Nile", "Mars"),
        ms=ms,
    )


def header(n: int, *, called: str = "mini", of: str = "dev", **identity: Any) -> Header:
    """A header of a model so called and n questions of a set; `identity`: what differs from the usual one."""
    return Header(identity={**IDENTITY, **identity}, model=called, questions=of, n=n)


def prediction_file(path: Path, head: Header, predictions: Iterable[Prediction]) -> Path:
    """A finished file."""
    with PredictionFile(path, head) as file:
        file.extend(predictions)
    return path


def retrieving(model: Model, index: Path, corpus: Path) -> EngineRetrieving:
    """The search of an evaluation on a CPU."""
    served, _ = open_corpus(model, index, corpus, None, torch.device("cpu"), "exact")
    return EngineRetrieving(model, served)
