"""`calibrate`: the rule by which temperatures, bias, threshold and confidence are chosen, and what it writes."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from realm_core.corpus.store import Snapshot
from realm_core.errors import RealmError, Stopped
from realm_core.evaluation import calibrate, readings
from realm_core.evaluation.calibration_rule import (
    Answered,
    ReadQuestion,
    ScoreSetting,
    SettingOutcome,
    _confidence_weights,
    _threshold,
    fitted,
    logistic,
)
from realm_core.evaluation.predicting import Predictor
from realm_core.files import read_json
from realm_core.model.checkpoint import load_model
from realm_core.model.config import Calibration, ModelConfig
from realm_core.questions.answers import is_correct
from realm_core.questions.question_file import Question, read_questions
from realm_core.runs.activity import Activity
from realm_core.serving.provenance import Answer, RankedAnswer, confidence
from realm_core.serving.reading import BlockReading, ReadBlock
from tests.core.evaluation.material import retrieving
from tests.core.running import activity_of
from tests.tiny import tiny_deployment

ASKED = [
    Question("Who directed 2001: A Space Odyssey?", ("Stanley Kubrick",)),
    Question("Which is the largest planet?", ("Jupiter",)),
    Question("Where does the Nile end?", ("Mediterranean Sea",)),
]
NONE = [Question("Who built the old lighthouse?", ()), Question("Which bird lays blue eggs?", ())]


@pytest.fixture
def parts(tmp_path: Path) -> tuple[Path, Path, Path]:
    return tiny_deployment(tmp_path)


def test_an_outcome_is_what_the_engine_would_say(parts: tuple[Path, Path, Path]) -> None:
    """The formula written for all settings at once, against the reading with that setting in its configuration."""
    setting = ScoreSetting(1.4, 0.7, -1.5)
    model, snapshot = load_model(parts[0]), Snapshot.open(parts[2])
    for part in (model.query, model.reader):
        part.for_inference(torch.device("cpu"))
    retriever = retrieving(model, parts[1], parts[2])
    raw = dataclasses.replace(model.config, normalisation="block+null")
    told = dataclasses.replace(raw, **dataclasses.asdict(setting))
    plain, calibrated = (BlockReading(model.reader, config, model="m", index="i", corpus="c") for config in (raw, told))
    predictor = Predictor(retriever, plain, snapshot, k=3, normalisation="block+null")
    for question, blocks in predictor.read(ASKED):
        read_question = ReadQuestion(question, blocks)
        outcome, answered = read_question.outcome(setting), read_question.answered(setting)
        [read] = calibrated.read(retriever.find([question.question], 3))
        answer = calibrated.answer(question.question, read, "block+null")
        assert answer.no_answer_probability is not None
        best = answer.answers[0].probability
        share = best / (best + answer.no_answer_probability)
        assert outcome.share == pytest.approx(share, rel=0.02)  # products of other sizes round otherwise
        assert answer.confidence == pytest.approx(share)  # slope 1, everything else 0
        assert answered.share == pytest.approx(answer.share, rel=0.02)
        assert answered.signs == pytest.approx(answer.confidence_features, rel=0.02, abs=0.02)
        assert answered.right == is_correct(answer.answers[0].text, question.answers)


@given(st.lists(st.floats(0.0, 0.9999), min_size=1, max_size=30), st.floats(0.0, 1.0))
def test_the_threshold_holds_as_it_is_stored(shares: list[float], allowed: float) -> None:
    """Rounding to the digits of a configuration lets none through."""
    threshold = _threshold(shares, allowed)
    assert float(f"{threshold:.5g}") == threshold < 1.0
    assert sum(share >= threshold > 0.0 for share in shares) <= math.floor(allowed * len(shares) + 1e-9)


def test_a_certain_wrong_answer_leaves_a_valid_threshold() -> None:
    assert _threshold([1.0 - 1e-9, 0.2], 0.0) == 0.99999


def test_a_sign_that_misleads_is_left_out_of_the_fit() -> None:
    """The mean confidence stays the share of right answers although one of the weights may not be negative."""
    draw = random.Random(1)
    group = []
    for _ in range(400):
        share = draw.gauss(1, 2)
        likelihood = share + draw.gauss(0, 0.7)
        right = draw.random() < 1 / (1 + math.exp(-(1.5 * share - 0.8 * likelihood)))
        group.append(Answered(right, 0.5, (share, likelihood, draw.random())))
    *slopes, offset = _confidence_weights([group])
    assert slopes[1] == 1e-3 < slopes[0]
    said = [confidence(one.signs, slopes, offset) for one in group if one.signs is not None]
    assert math.fsum(said) / len(said) == pytest.approx(sum(one.right for one in group) / len(group), abs=2e-3)


def test_the_threshold_lets_no_more_through_than_allowed() -> None:
    shares = [0.9, 0.5, 0.4, 0.3, 0.1]
    for allowed, through in ((0.0, 0), (0.2, 1), (0.39, 1), (0.4, 2), (0.8, 4)):
        assert sum(share >= _threshold(shares, allowed) for share in shares) == through


def test_confidence_is_fitted_to_how_often_one_is_right() -> None:
    """Of answers with signs (s, t) a share of σ(0.5 s + 0.25 t + 1) is right: all three numbers are found."""
    inputs, right = [], []
    for first, second in itertools.product((-4.0, -2.0, 0.0, 2.0, 4.0), (-3.0, 0.0, 3.0)):
        share = 1 / (1 + math.exp(-(0.5 * first + 0.25 * second + 1)))
        inputs += [(first, second)] * 1000
        right += [number < round(1000 * share) for number in range(1000)]
    *weights, offset = logistic(inputs, right, [1.0] * len(inputs))
    assert weights == pytest.approx([0.5, 0.25], abs=0.01) and offset == pytest.approx(1.0, abs=0.01)
    assert confidence((0.0, 0.0), weights, offset) == pytest.approx(1 / (1 + math.exp(-1.0)), abs=0.01)
    assert confidence((-1e6, 0.0), weights, offset) == 0.0 and confidence((1e6, 0.0), weights, offset) == 1.0


class Known:
    """A question of which it is known how each setting does: right where the bias is −3, sure where it is above."""

    def __init__(self, answerable: bool) -> None:
        self._answerable = answerable

    def outcome(self, setting: ScoreSetting) -> SettingOutcome:
        answered = self.answered(setting)
        return SettingOutcome(answered.right, answered.share, 0.5 if answered.right else 0.6)

    def answered(self, setting: ScoreSetting) -> Answered:
        right = self._answerable and setting.reading_bias == -3.0
        return Answered(right, 0.8 if self._answerable else 0.1, (1.0, 1.0, 1.0) if right else (-1.0, -1.0, 0.0))


def test_answers_count_more_than_likelihood() -> None:
    fit = fitted({"a": [Known(True)] * 5}, [Known(False)] * 5, 0.0)  # type: ignore[list-item]
    assert fit.calibration.reading_bias == -3.0
    assert fit.right == {"a": 1.0} and fit.answered_unanswerable == 0.0 and fit.auc == 1.0


class Sure(Known):
    """Given with this logit of the confidence, right or not."""

    def __init__(self, answerable: bool, sign: float, share: float = 0.5) -> None:
        super().__init__(answerable)
        self._sign, self._share = sign, share

    def answered(self, setting: ScoreSetting) -> Answered:
        return Answered(self._answerable, self._share, (self._sign, 0.0, 0.0))


def test_the_least_confidence_lets_as_many_through_as_allowed() -> None:
    """Of ten questions without an answer 3 may be answered, which those of the highest confidence are."""
    files = {"a": [Sure(True, sign / 2) for sign in range(-4, 6)]}
    none = [Sure(False, sign / 2) for sign in range(-9, 1)]
    fit = fitted(files, none, 0.3)  # type: ignore[arg-type]
    own = fit.calibration

    def sure(sign: float) -> float:
        weights = (own.confidence_slope, own.confidence_likelihood, own.confidence_margin)
        return confidence((sign, 0.0, 0.0), weights, own.confidence_offset)

    assert sure(-1.5) < own.min_confidence <= sure(-1.0)
    assert round(1000 * own.min_confidence) % 10 == 5  # between two whole per cent, as pages show confidences
    assert fit.answered_unanswerable == 0.3 and fit.right == {"a": 0.8}


def test_an_answer_with_less_than_the_least_share_is_not_given_and_raises_no_threshold() -> None:
    """As the engine does: of ten questions without an answer the surest, with hardly a share, is not answered."""
    files = {"a": [*(Sure(True, sign / 2) for sign in range(-4, 5)), Sure(True, 2.5, 0.001)]}
    none = [*(Sure(False, sign / 2) for sign in range(-9, 0)), Sure(False, 2.5, 0.001)]
    fit = fitted(files, none, 0.0)  # type: ignore[arg-type]
    own = fit.calibration
    weights = (own.confidence_slope, own.confidence_likelihood, own.confidence_margin)
    assert own.min_confidence <= confidence((0.0, 0.0, 0.0), weights, own.confidence_offset)
    assert fit.answered_unanswerable == 0.0 and fit.right == {"a": 0.5}  # five from 0 on; the tenth has no share


class Doubtful(Known):
    """Right where the bias is −4, but with less certainty than a question without an answer is answered with."""

    def outcome(self, setting: ScoreSetting) -> SettingOutcome:
        return SettingOutcome(setting.reading_bias == -4.0, 0.05, 0.5)

    def answered(self, setting: ScoreSetting) -> Answered:
        return Answered(setting.reading_bias == -4.0, 0.05, (0.0, 0.0, 0.0))


def test_what_is_withheld_counts_or_not() -> None:
    files, none = {"a": [Known(True)] * 5, "b": [Doubtful(True)] * 6, "c": [Doubtful(True)] * 6}, [Known(False)] * 5
    strict = fitted(files, none, 0.0)  # type: ignore[arg-type]
    assert strict.calibration.reading_bias == -3.0 and strict.right == {"a": 1.0, "b": 0.0, "c": 0.0}
    lenient = fitted(files, none, 0.0, withheld_counts=False)  # type: ignore[arg-type]
    assert lenient.calibration.reading_bias == -4.0 and lenient.right == {"a": 0.0, "b": 1.0, "c": 1.0}
    assert strict.answered_unanswerable == lenient.answered_unanswerable == 0.0


def test_a_corpus_has_a_calibration_of_its_own() -> None:
    own = Calibration(min_confidence=0.4, min_probability=0.1, prior_temperature=2.0, confidence_offset=1.0)
    other = Calibration(reading_temperature=0.5, reading_bias=-1.0, confidence_slope=0.5, k=8)
    config = ModelConfig().calibrated(own, "default en", other)
    assert config.calibrated_for == "default en"
    here, there = config.at("default en"), config.at("default fr")
    assert here == ModelConfig().calibrated(own) and there == ModelConfig().calibrated(other)
    assert (here.k, there.k) == (5, 8) and config.limited_by_share(0.5).at("default fr").k == 8
    assert here.at("default fr") == here and there.at("default en") == there  # what a corpus has is not chosen again
    everywhere = ModelConfig().calibrated(own)
    assert everywhere.at("default fr") == everywhere.at("default en") == everywhere
    assert ModelConfig.from_dict(json.loads(json.dumps(config.as_dict())), "x") == config
    uncalibrated = config.uncalibrated()
    void = dataclasses.replace(here, confidence_offset=0.0, min_confidence=0.0)
    assert uncalibrated == void == uncalibrated.at("default fr") and void.min_probability == 0.1
    with pytest.raises(RealmError, match="x: prior_temperature must be a number above 0, not 0"):
        ModelConfig.from_dict({"elsewhere": {"prior_temperature": 0}}, "x")
    for wrong in (0, 51, 2.0, True):
        with pytest.raises(RealmError, match="x: k must be a whole number from 1 to 50"):
            ModelConfig.from_dict({"k": wrong}, "x")


def test_stopped_it_reads_only_what_it_has_not_read(
    parts: tuple[Path, Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, index, corpus = parts
    for name, questions in {"asked": ASKED, "none": NONE}.items():
        lines = [json.dumps({"question": q.question, "answers": list(q.answers)}) + "\n" for q in questions]
        (tmp_path / f"{name}.jsonl").write_text("".join(lines))
    options = ["--model", model, "--index", index, "--corpus", corpus, "--device", "cpu", "--k", 3]
    options += ["--questions", tmp_path / "asked.jsonl", "--unanswerable", tmp_path / "none.jsonl", "--output"]
    monkeypatch.setattr(readings, "_QUESTIONS_A_FILE", 2)
    activity_of("calibrate", [*options, tmp_path / "whole"])
    assert not (tmp_path / ".whole.run").exists()  # what was read is of no more use

    read: list[str] = []
    ask = Predictor.read

    def asked(self: Predictor, questions: Sequence[Question]) -> Iterator[tuple[Question, list[ReadBlock]]]:
        read.extend(question.question for question in questions)
        return ask(self, questions)

    def stop_in_the_second_part(_: Activity) -> None:
        if len(read) > 2:
            raise Stopped

    monkeypatch.setattr(Predictor, "read", asked)
    with monkeypatch.context() as patch, pytest.raises(Stopped):
        patch.setattr(Activity, "check", stop_in_the_second_part)
        activity_of("calibrate", [*options, tmp_path / "resumed"])
    assert read == [question.question for question in ASKED] and not (tmp_path / "resumed").exists()
    read.clear()
    activity_of("calibrate", [*options, tmp_path / "resumed"])
    assert read == [question.question for question in (*ASKED[2:], *NONE)]
    assert load_model(tmp_path / "resumed").config == load_model(tmp_path / "whole").config

    read.clear()
    run = tmp_path / "run"
    activity_of("calibrate", [*options, tmp_path / "first"], run=run)
    activity_of("calibrate", [*options, tmp_path / "second", "--allowed", "0.5"], run=run)
    assert read == [question.question for question in (*ASKED, *NONE)]  # once for both
    read.clear()
    monkeypatch.setattr(calibrate, "answering_code", lambda: "of another version")
    activity_of("calibrate", [*options, tmp_path / "third"], run=run)
    assert read == [question.question for question in (*ASKED, *NONE)]
    assert load_model(tmp_path / "first").config != load_model(tmp_path / "second").config


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
    assert (before.config.k, after.config.k) == (5, 3)  # with which it was fitted
    assert after.config.normalisation == "block+null" and after.about is not None
    assert after.about["calibrated_on"] == ["asked"]
    with pytest.raises(RealmError, match="exists already"):
        activity_of("calibrate", [*options, "--questions", asked, "--unanswerable", none])
    with pytest.raises(RealmError, match=r"asked\.jsonl, line 1: `answers` must be an empty list"):
        activity_of("calibrate", [*options[:-1], tmp_path / "no", "--questions", asked, "--unanswerable", asked])
    assert not (tmp_path / "no").exists()
    both = [*options[:-1], tmp_path / "both", "--questions", asked, "--unanswerable", none, none]
    with pytest.raises(RealmError, match="--other-questions and an index of the other corpus"):
        activity_of("calibrate", [*both, "--other-index", index])
    elsewhere = tmp_path / "elsewhere.jsonl"
    elsewhere.write_text(json.dumps({"question": "Who wrote it?", "answers": ["nobody at all"]}) + "\n")
    others = ["--other-index", index, index, "--other-questions", elsewhere, "--other-corpus"]
    with pytest.raises(RealmError, match="--other-corpus must name a snapshot for each index of --other-index"):
        activity_of("calibrate", [*both, *others, corpus])
    activity_of("calibrate", [*both, *others, corpus, corpus])
    fitted_both = load_model(tmp_path / "both")
    assert fitted_both.about is not None and fitted_both.about["calibrated_on"] == ["asked", "elsewhere"]
    assert fitted_both.config.calibrated_for == Snapshot.open(corpus).origin == "tiny tiny"
    assert fitted_both.config.elsewhere is not None and fitted_both.config.elsewhere.k == 3
    assert after.config.elsewhere is None
    with pytest.raises(RealmError, match=r"none\.jsonl, line 1: `answers` must be a list of non-empty texts"):
        read_questions(none)


def test_files_of_one_name_are_all_fitted_on(parts: tuple[Path, Path, Path], tmp_path: Path) -> None:
    model, index, corpus = parts
    paths = []
    for folder, questions in {"one": ASKED[:2], "other": [*ASKED[2:], *NONE]}.items():
        lines = [json.dumps({"question": q.question, "answers": list(q.answers)}) + "\n" for q in questions]
        (tmp_path / folder).mkdir()
        paths.append(tmp_path / folder / "dev.jsonl")
        paths[-1].write_text("".join(lines))
    options = ["--model", model, "--index", index, "--corpus", corpus, "--device", "cpu", "--k", 3, "--questions"]
    activity_of("calibrate", [*options, *paths, "--output", tmp_path / "made"], run=tmp_path / "run")
    assert list(read_json(tmp_path / "run" / "result.json")["own"]["right"]) == [str(path) for path in paths]


def test_an_answer_says_its_confidence_and_is_read_back() -> None:
    answer = Answer(
        "Which?", None, 0.3, (), (), "no_answer", "block+null", 0.1, "m", "i", "c", 1.0, {}, confidence_slope=0.5
    )
    assert answer.confidence is None
    kept = answer.as_dict()
    assert kept["confidence"] is None and Answer.from_dict(kept) == answer
    for name in [name for name in kept if name.startswith("confidence")]:  # as kept before there was one
        del kept[name]
    assert Answer.from_dict(kept).confidence_slope == 1.0


def test_confidence_follows_share_likelihood_and_margin() -> None:
    """Of two candidates in two blocks, the formula written out."""
    answer = Answer(
        question="Which?",
        answer=None,
        no_answer_probability=0.2,
        answers=(RankedAnswer("Mars", 0.6, (), 0.9), RankedAnswer("Venus", 0.1, (), 0.3)),
        evidence=(),
        explains="answer",
        normalisation="block+null",
        min_probability=0.1,
        model="m",
        index="i",
        corpus="c",
        latency_ms=1.0,
        timings_ms={},
        confidence_slope=0.5,
        confidence_offset=-1.0,
        confidence_likelihood=0.25,
        confidence_margin=0.125,
    )
    logit = 0.5 * math.log(0.6 / 0.2) + 0.25 * math.log(0.9 / 0.1) + 0.125 * math.log(6.0) - 1.0
    assert answer.confidence == pytest.approx(1 / (1 + math.exp(-logit)))
    alone = dataclasses.replace(answer, answers=answer.answers[:1])
    assert alone.confidence == pytest.approx(1 / (1 + math.exp(-(logit + 0.125 * (7.0 - math.log(6.0))))))
    before = dataclasses.replace(answer, answers=tuple(dataclasses.replace(a, likelihood=None) for a in answer.answers))
    assert before.confidence == pytest.approx(1 / (1 + math.exp(-(logit - 0.25 * math.log(9.0)))))
