"""Questions are measured as they are read: with their spelling corrected, and a topic as a question."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from realm_core.errors import RealmError
from realm_core.evaluation import evaluate as evaluate_module
from realm_core.evaluation.predictions import read_predictions
from realm_core.evaluation.tasks import Evaluate
from realm_core.model.checkpoint import load_model
from realm_core.runs.activity import Activity
from realm_core.serving.engine import Engine
from tests.core.conftest import Deployment
from tests.core.evaluation.material import retrieving
from tests.core.training.material import write_lines


def test_questions_are_read_as_when_the_model_answers(deployment: Deployment, engine: Engine) -> None:
    retriever = retrieving(load_model(deployment.model), deployment.index, deployment.corpus)
    questions = ["where is the Suez canel", "who wrote war and peice", "Where is the Suez Canal?"]
    read_as = [found.question for found in retriever.find(questions, 1, as_typed=False)]
    assert read_as == [engine.ask(question, k=1).read_as or question for question in questions] and read_as != questions


def test_a_topic_is_measured_as_it_is_answered(deployment: Deployment, engine: Engine, tmp_path: Path) -> None:
    file = write_lines(tmp_path / "questions.jsonl", [{"question": "amazon river", "answers": ["Brazil"]}])
    folders: dict[str, Any] = {"model": deployment.model, "index": deployment.index, "corpus": deployment.corpus}
    found = []
    for as_typed in (False, True):
        predictions = tmp_path / f"{as_typed}.jsonl"
        evaluate_module.main(
            Evaluate(**folders, questions=file, predictions=predictions, as_typed=as_typed), Activity(quiet=True)
        )
        [own] = read_predictions(predictions)
        answer = engine.ask("amazon river", k=5, as_typed=as_typed)
        assert answer.answers and own.probability == pytest.approx(answer.answers[0].probability, abs=1e-6)
        found.append(own.probability)
    assert found[0] != found[1]


def test_figures_of_corrected_questions_go_on_with_no_others(deployment: Deployment, tmp_path: Path) -> None:
    file = write_lines(tmp_path / "questions.jsonl", [{"question": "where is the Suez canel", "answers": ["Egypt"]}])
    folders: dict[str, Any] = {"model": deployment.model, "index": deployment.index, "corpus": deployment.corpus}
    task = Evaluate(**folders, questions=file, predictions=tmp_path / "predictions.jsonl")
    evaluate_module.main(task, Activity(quiet=True))
    with pytest.raises(RealmError, match="differs in spelling"):
        evaluate_module.main(task.model_copy(update={"as_typed": True}), Activity(quiet=True))
