"""`evaluate` on a tiny deployment: many questions at once say what each says alone, whatever interrupts them."""

from __future__ import annotations

import dataclasses
import json
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch

from realm_core.corpus.store import Snapshot
from realm_core.errors import RealmError, Stopped
from realm_core.evaluation import evaluate as evaluate_module
from realm_core.evaluation.calibrate import write_calibrated
from realm_core.evaluation.figures import summarise
from realm_core.evaluation.predicting import Predictor
from realm_core.evaluation.predictions import Prediction, read_header, read_predictions
from realm_core.evaluation.retrieving import EngineRetrieving
from realm_core.evaluation.tasks import BM25_SCALE
from realm_core.index.bm25 import SparseRetriever
from realm_core.model.checkpoint import load_model
from realm_core.model.config import Normalisation
from realm_core.questions.answers import holds_answer, is_correct
from realm_core.questions.question_file import Question, read_questions
from realm_core.runs.activity import Activity
from realm_core.serving.engine import Engine
from realm_core.serving.reading import BlockReading, SearchResult
from tests.core.conftest import Deployment
from tests.core.evaluation.material import retrieving
from tests.core.processes import finish, run, start
from tests.core.running import activity_of
from tests.core.training.material import questions, write_lines
from tests.waiting import wait_until

MANY = [
    {**question, "question": f"{question['question']} {number}"} for number in range(2) for question in questions()
] + [{"question": "In which year?", "answers": [r"(18|19)\d\d"], "answer_type": "regex"}]


@pytest.fixture(scope="module", autouse=True)
def single_precision() -> Iterator[None]:
    """With whom a question is read then changes next to nothing."""
    with pytest.MonkeyPatch.context() as patch:
        for loads in ("serving.engine", "model.encoding"):
            patch.setattr(f"realm_core.{loads}.fast_dtype", lambda device: torch.float32)
        yield


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_lines(tmp_path_factory.mktemp("questions") / "many.jsonl", MANY)


@pytest.fixture(scope="module")
def snapshot(deployment: Deployment) -> Snapshot:
    return Snapshot.open(deployment.corpus)


@pytest.fixture(scope="module")
def reading(deployment: Deployment) -> BlockReading:
    model = load_model(deployment.model)
    model.reader.for_inference(torch.device("cpu"))
    return BlockReading(model.reader, model.config, model="m", index="i", corpus="c")


@pytest.fixture(scope="module")
def dense(deployment: Deployment) -> EngineRetrieving:
    model = load_model(deployment.model)
    model.query.for_inference(torch.device("cpu"))
    return retrieving(model, deployment.index, deployment.corpus)


def untimed(predictions: Sequence[Prediction] | Iterator[Prediction]) -> list[Prediction]:
    return [dataclasses.replace(prediction, ms=0.0) for prediction in predictions]


def evaluate(deployment: Deployment, asked: Path, *options: object, run: Path | None = None) -> None:
    activity_of("evaluate", [*deployment.arguments(), "--questions", asked, "--device", "cpu", *options], run=run)


# ── What is said ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_many_at_once_say_what_a_person_is_told(
    deployment: Deployment, dense: EngineRetrieving, reading: BlockReading, snapshot: Snapshot
) -> None:
    many = [Question(row["question"], tuple(row["answers"]), row.get("answer_type", "string")) for row in MANY]
    engine = Engine.load(deployment.model, deployment.index, deployment.corpus, device="cpu")
    ways: tuple[Normalisation, ...] = ("block", "joint", "block+null")
    predicted = [Predictor(dense, reading, snapshot, k=5, normalisation=way).predictions(many) for way in ways]
    # Every third question is compared under each of them.
    for number, (question, *predictions) in enumerate(zip(many, *predicted, strict=True)):
        way, prediction = ways[number % 3], predictions[number % 3]
        answer = engine.ask(question.question, k=5, normalisation=way)
        assert prediction.question == answer.question
        assert prediction.probability == pytest.approx(answer.answers[0].probability, abs=1e-5)
        # of two nearly equal candidates either may be the best
        runner_up = answer.answers[1].probability if len(answer.answers) > 1 else 0.0
        if answer.answers[0].probability - runner_up > 2e-5:
            assert prediction.prediction == answer.answers[0].text
            assert prediction.right == is_correct(answer.answers[0].text, question.answers, question.answer_type)
        assert set(prediction.blocks) == {e.title for e in answer.evidence}
        assert prediction.no_answer_probability == pytest.approx(answer.no_answer_probability, abs=1e-5)
        found = engine.retrieve(question.question, k=12).blocks
        ranks = [b.rank for b in found if holds_answer(b.text, question.answers, question.answer_type)]
        assert prediction.answer_rank == (ranks[0] if ranks else None)
    engine.close()


def test_predictions_from_any_question_on_equal_those_of_all(
    dense: EngineRetrieving, reading: BlockReading, snapshot: Snapshot, asked: Path
) -> None:
    many = read_questions(asked)
    predictor = Predictor(dense, reading, snapshot, k=5, normalisation="joint")
    at_once = untimed(predictor.predictions(many))
    for first in (1, 15, 16, 17, 47, len(many)):
        assert untimed(predictor.predictions(many, first=first)) == at_once[first:]  # to the last bit


class Given:
    """A retriever that always finds the blocks of articles with these titles."""

    def __init__(self, snapshot: Snapshot, titles: Sequence[str]) -> None:
        block_of = {block.title: block for block in map(snapshot.block, range(len(snapshot)))}
        self._blocks = [block_of[title] for title in titles]

    def find(self, questions: Sequence[str], k: int, *, as_typed: bool = True) -> list[SearchResult]:
        own = self._blocks[:k]
        return [SearchResult(question, own, [-float(rank) for rank in range(len(own))]) for question in questions]


def test_recall_counts_the_first_block_that_holds_an_answer(reading: BlockReading, snapshot: Snapshot) -> None:
    order = ["Bhutan", "Berlin", "Mars", "Tungsten", "Ada Lovelace", "Suez Canal", "Nile"]
    asked = [
        Question("a", ("thimphu",)),  # 1: whole words, whatever the casing
        Question("b", ("two MOONS",)),  # 3
        Question("c", ("nothing", "Egypt")),  # 6, Suez Canal, and again 7
        Question("d", ("Amazon",)),  # nowhere among these
        Question("e", (r"19\d\d",), "regex"),  # 2
    ]
    predictor = Predictor(Given(snapshot, order), reading, snapshot, k=2, normalisation="block")
    predictions = list(predictor.predictions(asked))
    assert [prediction.answer_rank for prediction in predictions] == [1, 3, 6, None, 2]
    assert summarise(predictions).recall == {1: 0.2, 5: 0.6, 20: 0.8, 100: 0.8}
    assert {title for prediction in predictions for title in prediction.blocks} == {"Bhutan", "Berlin"}  # k = 2


def test_as_many_blocks_are_read_as_the_model_is_set_to(
    deployment: Deployment, asked: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = dataclasses.replace(load_model(deployment.model).config, k=2)
    write_calibrated(deployment.model, tmp_path / "two", config, ())
    two = dataclasses.replace(deployment, model=tmp_path / "two")
    for one, k in ((deployment, 5), (two, 2)):
        evaluate(one, asked, "--json")
        assert json.loads(capsys.readouterr().out)["of"]["k"] == k
        engine = Engine.load(one.model, one.index, one.corpus, device="cpu")
        assert len(engine.ask("Who?").evidence) == len(engine.retrieve("Who?").blocks) == k
        assert len(engine.ask("Who?", k=3).evidence) == 3
        engine.close()


def test_figures_are_printed_and_left_behind(
    deployment: Deployment, asked: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evaluate(deployment, asked, "--json", "--k", 3, "--plot", tmp_path / "plot.svg", run=tmp_path / "run")
    figures = json.loads(capsys.readouterr().out)
    assert figures == json.loads((tmp_path / "run" / "result.json").read_text())
    assert (figures["n"], figures["questions"], figures["of"]["k"]) == (len(MANY), "many", 3)
    assert (figures["recall@20"], figures["recall@100"]) == (1.0, 1.0)  # there are but twelve blocks
    predictions = list(read_predictions(tmp_path / "run" / "predictions.jsonl"))
    assert [prediction.question for prediction in predictions] == [row["question"] for row in MANY]
    assert figures["exact_match"] == sum(p.right for p in predictions) / len(predictions)
    ids = [element.get("id", "") for element in ElementTree.parse(tmp_path / "plot.svg").iter()]
    assert sum(i.startswith("count-") for i in ids) == len(figures["reliability"])
    evaluate(deployment, asked, "--no-why", "--k", 3)  # without a file, as a table
    shown = dict(line.split() for line in capsys.readouterr().out.splitlines())
    assert float(shown["exact_match"]) == pytest.approx(figures["exact_match"], abs=1e-3)
    assert "of" not in shown and "reliability" not in shown


@pytest.mark.parametrize(
    ("plot", "why"),
    [("none/plot.svg", "none is no folder that can be written to"), ("plot.png", "its name must end in .svg")],
)
def test_a_diagram_that_cannot_be_written_is_refused_before_anything_is_asked(
    deployment: Deployment, asked: Path, tmp_path: Path, plot: str, why: str
) -> None:
    with pytest.raises(RealmError, match=why):
        evaluate(deployment, asked, "--plot", tmp_path / plot, run=tmp_path / "run")
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["task.json"]


def test_figures_outlive_a_disk_without_room_for_the_diagram(
    deployment: Deployment,
    asked: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def filling(_: object, path: Path, **__: object) -> None:
        path.write_bytes(b"<svg half of it")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", filling)
    with pytest.raises(RealmError, match=r"The disk that holds .*plot\.svg is full"):
        evaluate(deployment, asked, "--json", "--plot", tmp_path / "plot.svg", run=tmp_path / "run")
    assert json.loads(capsys.readouterr().out)["n"] == len(MANY)
    assert not [path for path in tmp_path.iterdir() if "plot" in path.name]
    assert not (tmp_path / "run" / "result.json").exists()  # which says that all was done


def test_what_was_right_so_far_is_left_behind_as_it_goes(
    deployment: Deployment, asked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks = iter([False] * 20)

    def stop_at_the_end(_: Activity) -> None:
        if next(checks, True):
            raise Stopped

    monkeypatch.setattr(evaluate_module, "_ROWS", 10)
    with monkeypatch.context() as patch:
        patch.setattr(Activity, "check", stop_at_the_end)
        with pytest.raises(Stopped):
            evaluate(deployment, asked, run=tmp_path)
    evaluate(deployment, asked, run=tmp_path)  # and goes on counting behind those that were asked before
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    every = -(-len(MANY) // 10)
    assert [row["step"] for row in rows] == [*range(every, len(MANY), every), len(MANY)]
    predictions = list(read_predictions(tmp_path / "predictions.jsonl"))
    for row in rows:
        figures = summarise(predictions[: row["step"]])
        assert (row["evaluate.exact_match"], row["evaluate.recall@5"]) == (figures.exact_match, figures.recall[5])


# ── Interrupted ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_killed_and_run_again_it_is_as_if_it_had_not_been(deployment: Deployment, asked: Path, tmp_path: Path) -> None:
    def arguments(name: str) -> list[str]:
        return [
            *("evaluate", *deployment.arguments(), "--questions", str(asked), "--device", "cpu", "--quiet"),
            *("--predictions", str(tmp_path / name)),
        ]

    whole, killed = tmp_path / "whole.jsonl", tmp_path / "killed.jsonl"
    assert run(arguments(whole.name)) == (0, "")
    process = start(arguments(killed.name))
    wait_until(lambda: killed.exists() and killed.read_bytes().count(b"\n") > 3, process)
    process.send_signal(signal.SIGKILL)
    finish(process)
    left = killed.read_bytes()
    assert whole.read_bytes().startswith(left.splitlines(keepends=True)[0])
    killed.write_bytes(left[:-25])  # its last line is torn
    assert run(arguments(killed.name)) == (0, "")
    assert untimed(read_predictions(killed)) == untimed(read_predictions(whole))
    again, once = (dataclasses.replace(summarise(read_predictions(path)), ms=0.0) for path in (killed, whole))
    assert again == once


def test_stopped_it_keeps_what_it_has_and_says_where_it_goes_on(
    deployment: Deployment, asked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "p.jsonl"
    checks = iter([False] * 20)

    def stop_at_the_end(_: Activity) -> None:
        if next(checks, True):
            raise Stopped

    with monkeypatch.context() as patch:
        patch.setattr(Activity, "check", stop_at_the_end)
        with pytest.raises(Stopped):
            evaluate(deployment, asked, "--predictions", path)
    assert path.read_bytes().count(b"\n") == 1 + 21
    said: list[str] = []
    monkeypatch.setattr(Activity, "say", lambda _, message: said.append(message))
    evaluate(deployment, asked, "--predictions", path)
    assert said == [f"Resuming after 21 of {len(MANY)} questions."]
    before = path.read_bytes()
    evaluate(deployment, asked, "--predictions", path)  # finished: nothing is asked again
    assert path.read_bytes() == before


@pytest.mark.parametrize(("options", "named"), [(["--k", "4"], "k"), (["--normalisation", "joint"], "normalisation")])
def test_predictions_of_another_evaluation_are_refused(
    deployment: Deployment, asked: Path, tmp_path: Path, options: list[str], named: str
) -> None:
    path = tmp_path / "p.jsonl"
    evaluate(deployment, asked, "--predictions", path)
    with pytest.raises(RealmError, match=rf"of another evaluation \(it differs in {named}\)"):
        evaluate(deployment, asked, "--predictions", path, *options)
    other = write_lines(tmp_path / "other.jsonl", MANY[:-1])
    with pytest.raises(RealmError, match=r"of another evaluation \(it differs in questions\)"):
        evaluate(deployment, other, "--predictions", path)


def test_one_that_was_begun_before_models_had_a_lexical_weight_goes_on(
    deployment: Deployment, asked: Path, tmp_path: Path
) -> None:
    path = tmp_path / "p.jsonl"
    evaluate(deployment, asked, "--predictions", path)
    whole = path.read_bytes()
    head, *lines = whole.splitlines(keepends=True)
    header = json.loads(head)
    header["identity"].pop("lexical_weight", None)
    path.write_bytes(b"".join([json.dumps(header).encode() + b"\n", *lines[:-2]]))
    evaluate(deployment, asked, "--predictions", path)
    assert len(list(read_predictions(path))) == len(MANY)


def test_what_other_code_has_predicted_is_not_gone_on_with(
    deployment: Deployment, asked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, whole = tmp_path / "p.jsonl", tmp_path / "whole.jsonl"
    evaluate(deployment, asked, "--predictions", path)
    whole.write_bytes(path.read_bytes())
    monkeypatch.setattr(evaluate_module, "answering_code", lambda: "of another version")
    with pytest.raises(RealmError, match="holds the predictions of other code, all of them"):
        evaluate(deployment, asked, "--predictions", path)
    head, first, *lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([head, first.replace(b'"right": true', b'"right": false'), *lines[:-1]]))
    evaluate(deployment, asked, "--predictions", path)
    assert read_header(path).identity["code"] == "of another version"
    assert untimed(read_predictions(path)) == untimed(read_predictions(whole))


# ── BM25 and the same reader ────────────────────────────────────────────────────────────────────────────────────────


def sparse(deployment: Deployment, asked: Path, *options: object) -> None:
    where = ["--model", deployment.model, "--corpus", deployment.corpus, "--device", "cpu"]
    activity_of("evaluate", [*where, "--retriever", "bm25", "--questions", asked, *options])


def test_a_sample_is_the_same_every_time_and_grows_by_adding(
    deployment: Deployment, asked: Path, tmp_path: Path
) -> None:
    drawn = []
    for size in (5, 5, 9, 1000):
        path = tmp_path / f"{len(drawn)}.jsonl"
        evaluate(deployment, asked, "--predictions", path, "--sample", size)
        drawn.append([prediction.question for prediction in read_predictions(path)])
    everything = [question["question"] for question in MANY]
    assert [len(own) for own in drawn] == [5, 5, 9, len(MANY)]
    assert drawn[0] == drawn[1] and set(drawn[0]) < set(drawn[2]) and drawn[3] == everything
    assert drawn[2] == [question for question in everything if question in drawn[2]]  # in their order
    assert drawn[2] != everything[:9]
    with pytest.raises(RealmError, match="it differs in sample"):
        evaluate(deployment, asked, "--predictions", tmp_path / "0.jsonl", "--sample", 6)
    with pytest.raises(RealmError, match="--sample must be 0 or more, not -1"):
        evaluate(deployment, asked, "--sample", -1)


def test_bm25_needs_no_index_and_its_scores_are_the_prior(
    deployment: Deployment, asked: Path, tmp_path: Path, reading: BlockReading, snapshot: Snapshot
) -> None:
    path = tmp_path / "p.jsonl"
    sparse(deployment, asked, "--predictions", path, "--bm25-cache", tmp_path / "cache")
    identity = read_header(path).identity
    assert (identity["retriever"], identity["index"], identity["score_scale"]) == ("bm25", "bm25", BM25_SCALE)
    assert (tmp_path / "cache" / f"bm25-{snapshot.snapshot_id}").is_dir()
    predictions = list(read_predictions(path))
    retriever = SparseRetriever(snapshot)
    for row, prediction in list(zip(MANY, predictions, strict=True))[::7]:
        ((rows,), (scores,)) = retriever.search([row["question"]], 5)
        blocks = [snapshot.block(number) for number in rows]
        scaled = [score * BM25_SCALE for score in scores]
        (read,) = reading.read([SearchResult(row["question"], blocks, scaled)])
        answer = reading.answer(row["question"], read, "block+null")
        weights = torch.softmax(torch.tensor(scores, dtype=torch.float64) * BM25_SCALE, 0).tolist()
        by_id = {e.block_id: e.prior for e in answer.evidence}
        assert [by_id[block.block_id] for block in blocks] == pytest.approx(weights)
        assert prediction.probability == pytest.approx(answer.answers[0].probability, abs=1e-5)


# ── Refused ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--k", "-1"], "k must be from 0 to 50, not -1"),
        (["--k", "51"], "k must be from 0 to 50, not 51"),
        (["--retriever", "bm25"], "--index is for --retriever dense alone"),
        (["--score-scale", "1"], "--score-scale is for --retriever bm25 alone"),
        (["--bm25-cache", "/no"], "--bm25-cache is for --retriever bm25 alone"),
        (["--device", "abacus"], "device must be auto, cpu, cuda or cuda:N"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    deployment: Deployment, asked: Path, options: list[str], said: str
) -> None:
    with pytest.raises(RealmError, match=said):
        evaluate(deployment, asked, *options)


def test_dense_needs_an_index_and_a_scale_is_positive(deployment: Deployment, asked: Path) -> None:
    where = ["--model", deployment.model, "--corpus", deployment.corpus, "--questions", asked]
    with pytest.raises(RealmError, match="--index is needed, unless BM25"):
        activity_of("evaluate", where)
    for scale in ("0", "-1", "nan", "inf"):
        with pytest.raises(RealmError, match="--score-scale must be a number above 0"):
            activity_of("evaluate", [*where, "--retriever", "bm25", "--score-scale", scale])


def test_half_a_character_is_refused_with_the_questions_number(deployment: Deployment, tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text('{"question": "x", "answers": ["y"]}\n{"question": "\\ud800?", "answers": ["y"]}\n')
    with pytest.raises(RealmError, match=r"q\.jsonl, line 2: the character '.*' cannot be stored or displayed"):
        evaluate(deployment, path)
