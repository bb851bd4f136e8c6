"""`calibrate`: the rule by which temperatures, bias, threshold and confidence are chosen, and what it writes."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import pytest
import torch

from realm_core.corpus.store import Snapshot
from realm_core.errors import RealmError
from realm_core.evaluation.calibrate import ReadQuestion, Setting, _logistic, _threshold, fitted
from realm_core.evaluation.predicting import Predictor
from realm_core.index.generation import Generation
from realm_core.index.retriever import DenseRetriever
from realm_core.model.checkpoint import load_model
from realm_core.questions.question_file import Question, read_questions
from realm_core.serving.provenance import Answer, confidence
from realm_core.serving.reading import BlockReading, Found
from tests.core.running import activity_of
from tests.tiny import tiny_deployment

ASKED = [
    Question("Who directed 2001: A Space Odyssey?", ("Stanley Kubrick",)),
    Question("Which is the largest planet?", ("Jupiter",)),
    Question("Where does the Nile end?", ("Mediterranean Sea",)),
]
NONE = [Question("What did I eat today?", ()), Question("Who will win in 2090?", ())]


@pytest.fixture
def parts(tmp_path: Path) -> tuple[Path, Path, Path]:
    return tiny_deployment(tmp_path)


def test_an_outcome_is_what_the_engine_would_say(parts: tuple[Path, Path, Path]) -> None:
    """The formula written for all settings at once, against the reading with that setting in its configuration."""
    setting = Setting(1.4, 0.7, -1.5)
    model, generation = load_model(parts[0]), Generation.open(parts[1])
    snapshot = Snapshot.open(parts[2])
    for part in (model.query, model.reader):
        part.for_inference(torch.device("cpu"))
    retriever = DenseRetriever(model, generation)
    raw = dataclasses.replace(model.config, normalisation="block+null")
    told = dataclasses.replace(raw, **dataclasses.asdict(setting))
    plain, calibrated = (BlockReading(model.reader, config, model="m", index="i", corpus="c") for config in (raw, told))
    predictor = Predictor(retriever, plain, snapshot, k=3, normalisation="block+null")
    for question, blocks in predictor.read(ASKED):
        outcome = ReadQuestion(question, blocks).outcome(setting)
        rows, scores = retriever.search([question.question], 3)
        found = Found(question.question, [snapshot.block(row) for row in rows[0]], scores[0])
        [read] = calibrated.read([found])
        answer = calibrated.answer(question.question, read, "block+null")
        assert answer.no_answer_probability is not None
        best = answer.answers[0].probability
        share = best / (best + answer.no_answer_probability)
        assert outcome.share == pytest.approx(share, rel=0.02)  # products of other sizes round otherwise
        assert answer.confidence == pytest.approx(share)  # slope 1, offset 0


def test_the_threshold_lets_no_more_through_than_allowed() -> None:
    shares = [0.9, 0.5, 0.4, 0.3, 0.1]
    for allowed, through in ((0.0, 0), (0.2, 1), (0.39, 1), (0.4, 2), (0.8, 4)):
        assert sum(share >= _threshold(shares, allowed) for share in shares) == through


def test_confidence_is_fitted_to_how_often_one_is_right() -> None:
    """Of answers with logit t a share of σ(0.5 t + 1) is right: the regression finds slope and offset."""
    inputs, right = [], []
    for logit in (-4.0, -2.0, 0.0, 2.0, 4.0):
        share = 1 / (1 + math.exp(-(0.5 * logit + 1)))
        inputs += [logit] * 1000
        right += [number < round(1000 * share) for number in range(1000)]
    slope, offset = _logistic(inputs, right, [1.0] * len(inputs))
    assert slope == pytest.approx(0.5, abs=0.01) and offset == pytest.approx(1.0, abs=0.01)
    assert confidence(0.5, slope, offset) == pytest.approx(1 / (1 + math.exp(-1.0)), abs=0.01)
    assert confidence(0.0, slope, offset) == 0.0 and confidence(1.0, slope, offset) == 1.0


class Known:
    """A question of which it is known how each setting does: right where the bias is −3, sure where it is above."""

    def __init__(self, answerable: bool) -> None:
        self._answerable = answerable

    def outcome(self, setting: Setting) -> object:
        from realm_core.evaluation.calibrate import Outcome

        right = self._answerable and setting.reading_bias == -3.0
        return Outcome(right, 0.8 if self._answerable else 0.1, 0.5 if right else 0.6)


def test_answers_count_more_than_likelihood() -> None:
    fit = fitted({"a": [Known(True)] * 5}, [Known(False)] * 5, 0.0)  # type: ignore[list-item]
    assert fit.setting.reading_bias == -3.0
    assert fit.answered_right == {"a": 1.0} and fit.answered_unanswerable == 0.0 and fit.auc == 1.0


def test_the_command_writes_the_configuration_and_nothing_else(parts: tuple[Path, Path, Path], tmp_path: Path) -> None:
    model, index, corpus = parts
    files = {"asked": ASKED, "none": NONE}
    for name, questions in files.items():
        lines = [json.dumps({"question": q.question, "answers": list(q.answers)}) + "\n" for q in questions]
        (tmp_path / f"{name}.jsonl").write_text("".join(lines))
    asked, none, made = tmp_path / "asked.jsonl", tmp_path / "none.jsonl", tmp_path / "made"
    options = ["--model", model, "--index", index, "--corpus", corpus, "--device", "cpu", "--k", 3, "--output", made]
    activity_of("calibrate", [*options, "--questions", asked, "--unanswerable", none])
    before, after = load_model(model), load_model(made)
    assert (made / "model.safetensors").read_bytes() == (model / "model.safetensors").read_bytes()
    assert after.hash != before.hash and after.block_hash == before.block_hash
    assert after.config.normalisation == "block+null" and after.about is not None
    assert after.about["calibrated_on"] == ["asked"]
    with pytest.raises(RealmError, match="exists already"):
        activity_of("calibrate", [*options, "--questions", asked, "--unanswerable", none])
    with pytest.raises(RealmError, match=r"asked\.jsonl, line 1: `answers` must be an empty list"):
        activity_of("calibrate", [*options[:-1], tmp_path / "no", "--questions", asked, "--unanswerable", asked])
    assert not (tmp_path / "no").exists()
    with pytest.raises(RealmError, match=r"none\.jsonl, line 1: `answers` must be a list of texts"):
        read_questions(none)


def test_an_answer_says_its_confidence_and_is_read_back() -> None:
    answer = Answer(
        "Which?", None, 0.3, (), (), "no_answer", "block+null", 0.1, "m", "i", "c", 1.0, {}, confidence_slope=0.5
    )
    assert answer.confidence is None
    kept = answer.as_dict()
    assert kept["confidence"] is None and Answer.from_dict(kept) == answer
    for name in ("confidence", "confidence_slope", "confidence_offset"):  # as kept before there was one
        del kept[name]
    assert Answer.from_dict(kept).confidence_slope == 1.0
