"""Measure a model on questions: `python -m realm_core evaluate`.

Every question is asked as a person would ask it; exact match, recall of the blocks read, calibration and time come
of it. `exact_match` counts the best candidate; `exact_match_given` counts an answer that was withheld ("no answer
found") as wrong.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from realm_core.activity import Activity
from realm_core.engine import Engine
from realm_core.errors import RealmError
from realm_core.evaluation.answers import holds_answer, is_correct
from realm_core.evaluation.calibration import reliability
from realm_core.files import disk_errors
from realm_core.model.marginal import NORMALISATIONS
from realm_core.training.questions import Question, read_questions

RECALL_AT = (1, 5, 20, 100)
_MOST_RETRIEVED = 50


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `evaluate`."""
    parser.add_argument("--model", type=Path, required=True, help="model folder")
    parser.add_argument("--index", type=Path, required=True, help="generation folder")
    parser.add_argument("--corpus", type=Path, required=True, help="snapshot folder")
    parser.add_argument("--questions", type=Path, required=True, help="question file (JSON lines)")
    parser.add_argument("--k", type=int, default=5, help="blocks to read (default 5)")
    parser.add_argument("--normalisation", choices=NORMALISATIONS, help="instead of the model's own")
    parser.add_argument("--predictions", type=Path, help="file for one JSON line a question")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")


def main(arguments: argparse.Namespace, activity: Activity) -> None:
    """Ask all questions and print the figures."""
    questions = read_questions(arguments.questions)
    engine = Engine.load(arguments.model, arguments.index, arguments.corpus)
    engine.warm_up()
    predictions = []
    started = time.perf_counter()
    for number, question in enumerate(questions, start=1):
        activity.check()
        predictions.append(predict(engine, question, k=arguments.k, normalisation=arguments.normalisation))
        activity.progress(number, len(questions), "questions")
    elapsed_s = time.perf_counter() - started
    engine.close()
    if arguments.predictions:
        write_predictions(arguments.predictions, iter(predictions))
    figures = summarise(predictions) | {"ms_per_question": elapsed_s / len(questions) * 1e3, "k": arguments.k}
    if arguments.json:
        print(json.dumps(figures, indent=1))
    else:
        for name, value in figures.items():
            if not isinstance(value, list):
                print(f"{name:20} {value:.4g}" if isinstance(value, float) else f"{name:20} {value}")
    activity.result(figures)


def predict(engine: Engine, question: Question, *, k: int, normalisation: Any = None) -> dict[str, Any]:
    """Ask one question; what was said, how sure, whether right, and the rank of the first block with an answer."""
    answer = engine.ask(question.question, k=k, normalisation=normalisation)
    best = answer.answers[0] if answer.answers else None
    retrieved = engine.retrieve(question.question, k=min(_MOST_RETRIEVED, len(engine.snapshot)))
    ranks = (b.rank for b in retrieved if holds_answer(b.text, question.answers, question.answer_type))
    return {
        **dataclasses.asdict(question),
        "prediction": best.text if best else "",
        "probability": best.probability if best else 0.0,
        "given": answer.answer is not None,
        "no_answer_probability": answer.no_answer_probability,
        "right": best is not None and is_correct(best.text, question.answers, question.answer_type),
        "answer_rank": next(ranks, None),
        "blocks": [block.title for block in answer.evidence],
        "latency_ms": answer.latency_ms,
    }


def summarise(predictions: list[dict[str, Any]]) -> dict[str, Any]:
    """The figures of many predictions."""
    if not predictions:
        raise RealmError("There are no predictions to summarise.")
    count = len(predictions)
    right = [prediction["right"] for prediction in predictions]
    table, ece = reliability([prediction["probability"] for prediction in predictions], right)
    ranks = [prediction["answer_rank"] for prediction in predictions]
    return {
        "n": count,
        "exact_match": sum(right) / count,
        "exact_match_given": sum(p["right"] and p["given"] for p in predictions) / count,
        "withheld": sum(not p["given"] for p in predictions) / count,
        **{
            f"recall@{k}": sum(rank is not None and rank <= k for rank in ranks) / count
            for k in RECALL_AT
            if k <= _MOST_RETRIEVED
        },
        "ece": ece,
        "reliability": [dataclasses.asdict(row) for row in table],
    }


def write_predictions(path: Path, predictions: Iterator[dict[str, Any]]) -> None:
    """One JSON line a question."""
    with disk_errors(path), open(path, "w", encoding="utf-8") as file:
        for prediction in predictions:
            file.write(json.dumps(prediction, ensure_ascii=False) + "\n")
