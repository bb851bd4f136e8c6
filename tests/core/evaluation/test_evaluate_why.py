"""`evaluate --why` on a tiny deployment: every question has one cause, and predictions are what they are without."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from realm_core.corpus.store import Snapshot
from realm_core.errors import RealmError
from realm_core.evaluation import predicting
from realm_core.evaluation.predicting import Predictor
from realm_core.evaluation.predictions import read_predictions
from realm_core.evaluation.why import CAUSES, Why
from realm_core.model.checkpoint import load_model
from realm_core.questions.question_file import Question
from realm_core.serving.reading import BlockReading
from tests.core.conftest import Deployment
from tests.core.evaluation.test_evaluate import MANY, Given, evaluate, untimed
from tests.core.training.material import write_lines


def test_why_each_answer_is_right_or_wrong(
    deployment: Deployment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = write_lines(
        tmp_path / "why.jsonl",
        [
            *MANY,
            {"question": "Who was it?", "answers": ["nobody at all"]},
            {"question": "Where?", "answers": ["Warsaw"]},
        ],
    )
    path = tmp_path / "p.jsonl"
    evaluate(deployment, asked, "--json", "--k", 2, "--predictions", path)
    figures = json.loads(capsys.readouterr().out)
    predictions = list(read_predictions(path))
    counts = Counter(prediction.why.cause for prediction in predictions if prediction.why)
    assert figures["why"] == {cause: counts[cause] for cause in CAUSES}
    assert sum(figures["why"].values()) == figures["n"] == len(MANY) + 2
    assert counts["not_in_corpus"] == 1 and counts["not_retrieved"] and counts["misread"]
    for prediction in predictions:
        assert prediction.why is not None
        assert (prediction.why.cause in ("right", "withheld")) == prediction.right
        if prediction.why.cause == "not_retrieved":  # there are but twelve blocks, and all are ranked
            assert prediction.why.rank == prediction.answer_rank and (prediction.why.rank or 0) > 2
        if prediction.why.cause == "misread":
            assert prediction.why.right and prediction.why.right.title in prediction.blocks
    plain = tmp_path / "plain.jsonl"
    evaluate(deployment, asked, "--no-why", "--k", 2, "--predictions", plain)
    assert "not_in_corpus" not in capsys.readouterr().out
    assert untimed(read_predictions(plain)) == [replace(one, why=None) for one in untimed(predictions)]
    evaluate(deployment, asked, "--why", "--k", 2, "--predictions", path)
    lines = {line.split()[0]: line.split()[1:] for line in capsys.readouterr().out.splitlines()}
    assert lines["not_in_corpus"] == ["1", f"{1 / figures['n']:.1%}"]
    with pytest.raises(RealmError, match="holds the predictions without their causes, all of them"):
        evaluate(deployment, asked, "--k", 2, "--predictions", plain)
    plain.write_bytes(b"".join(plain.read_bytes().splitlines(keepends=True)[:3]))  # as if it had been stopped
    evaluate(deployment, asked, "--k", 2, "--predictions", plain)
    assert untimed(read_predictions(plain)) == untimed(predictions)


def test_questions_without_an_answer_are_right_when_none_is_given(
    deployment: Deployment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    without = [{"question": question["question"], "answers": []} for question in MANY[:9]]
    asked, path = write_lines(tmp_path / "none.jsonl", [*MANY[:5], *without]), tmp_path / "p.jsonl"
    evaluate(deployment, asked, "--json", "--why", "--k", 2, "--predictions", path)
    figures = json.loads(capsys.readouterr().out)
    predictions = list(read_predictions(path))
    answered = sum(one.given for one in predictions[5:])
    assert (figures["n"], figures["unanswerable"]) == (14, 9)
    assert figures["answered_unanswerable"] == pytest.approx(answered / 9)
    assert all(one.right != one.given for one in predictions[5:])
    assert figures["why"]["unanswerable"] == answered and sum(figures["why"].values()) == 14
    for one in predictions[5:]:
        assert one.why is not None and one.why.cause == ("unanswerable" if one.given else "right")
        assert not one.given or (one.why.chosen is not None and one.why.chosen.text == one.prediction)
    for one, same in zip(predictions[:5], predictions[5:10], strict=True):  # what is said does not depend on it
        assert (one.prediction, one.given) == (same.prediction, same.given)


def test_a_right_block_is_looked_for_behind_those_that_recall_counts(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, snapshot = load_model(deployment.model), Snapshot.open(deployment.corpus)
    model.reader.for_inference(torch.device("cpu"))
    reading = BlockReading(model.reader, model.config, model="m", index="i", corpus="c")
    order = ["Bhutan", "Berlin", "Mars", "Tungsten", "Nile"]
    monkeypatch.setattr(predicting, "MOST_RETRIEVED", 3)
    monkeypatch.setattr(predicting, "LOOKED_AT", 4)
    predictor = Predictor(Given(snapshot, order), reading, snapshot, k=1, normalisation="block", why=True)
    asked = [
        Question("a", ("Phobos",)),
        Question("b", ("atomic number",)),
        Question("c", ("Sudan",)),
        Question("d", ("x",)),
    ]
    whys = [(one.answer_rank, one.why) for one in predictor.predictions(asked)]
    assert whys == [
        (3, Why("not_retrieved", rank=3, looked_at=1000)),
        (None, Why("not_retrieved", rank=4, looked_at=1000)),
        (None, Why("not_retrieved", looked_at=1000)),
        (None, Why("not_in_corpus")),
    ]
