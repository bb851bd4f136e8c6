"""Ask every question of a set and measure the answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from webapp.kinds import Given
from webapp.kinds.settings import OWN, EvaluateSettings
from webapp.models import CorpusSnapshot, Evaluation, Job, ModelVersion
from webapp.storage.places import bm25_dir, evaluations_dir, portable
from workers.kinds.base import Kind, given, path_of


def command(job: Job) -> list[str]:
    """Predictions are kept outside the run folder: comparisons need them when that has gone."""
    parameters = given(job)
    settings: EvaluateSettings = parameters.settings[EvaluateSettings]
    model, corpus = _measured(parameters)
    if settings.retriever == "bm25":
        found = ["--retriever=bm25", f"--score-scale={settings.score_scale}", f"--bm25-cache={bm25_dir()}"]
    else:
        found = [f"--index={path_of(parameters['index'])}"]
    return [
        *("realm_core", "evaluate"),
        f"--model={path_of(model)}",
        f"--corpus={path_of(corpus)}",
        *found,
        f"--questions={path_of(parameters['questions'])}",
        f"--predictions={_predictions(job)}",
        f"--k={settings.k}",
        *([] if settings.normalisation == OWN else [f"--normalisation={settings.normalisation}"]),
        *([f"--sample={settings.sample}"] if settings.sample else []),
    ]


def record(job: Job, result: dict[str, Any]) -> dict[str, Any]:
    """Record the figures."""
    parameters = given(job)
    settings: EvaluateSettings = parameters.settings[EvaluateSettings]
    model, corpus = _measured(parameters)
    evaluation, _ = Evaluation.objects.update_or_create(
        job=job,
        defaults={
            "model": model,
            "corpus": corpus,
            "index": parameters["index"] if settings.retriever == "dense" else None,
            "questions": parameters["questions"],
            "retriever": settings.retriever,
            "k": settings.k,
            "normalisation": result["of"]["normalisation"],
            "sample": settings.sample,
            "asked": result["n"],
            "exact_match": result["exact_match"],
            "recall_at_5": result["recall@5"],
            "figures": result,
            "predictions": portable(_predictions(job)),
        },
    )
    return {
        "evaluation": evaluation.pk,
        **{name: result[name] for name in ("n", "exact_match", "recall@5", "ece", "ms_per_question")},
    }


def _measured(parameters: Given) -> tuple[ModelVersion, CorpusSnapshot]:
    """The model and the corpus: the index's own, unless others are named or nothing is searched by an index."""
    index, model = parameters["index"], parameters["model"]
    if parameters.settings[EvaluateSettings].retriever == "bm25":
        return model, parameters["corpus"]
    return model or index.model, index.corpus


def _predictions(job: Job) -> Path:
    return evaluations_dir() / f"{job.pk}.jsonl"


KIND = Kind(command=command, record=record)
