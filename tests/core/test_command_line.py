"""`python -m realm_core`: what is printed, what is left in the run folder, and with which status it ends."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from realm_core.__main__ import main
from realm_core.command_line import add_options, argv, task_of
from realm_core.errors import RealmError, Stopped
from realm_core.evaluation.tasks import Evaluate
from realm_core.index.embedding import embed
from realm_core.model.checkpoint import Model, load_model, new_model
from realm_core.model.config import ModelConfig
from realm_core.runs.activity import Activity
from realm_core.serving.engine import Engine
from realm_core.serving.provenance import Answer
from realm_core.tasks import ACTIVITIES
from realm_core.text.joins import join_block
from realm_core.text.wordpieces import Wordpieces
from tests.core.conftest import Deployment
from tests.core.processes import TOP, run
from tests.core.running import activity_of
from tests.core.training.material import QUESTIONS, questions, write_lines


@pytest.fixture(autouse=True)
def no_signals(monkeypatch: pytest.MonkeyPatch) -> None:
    """The signals of this process are pytest's."""
    monkeypatch.setattr(Activity, "stop_on_signals", lambda self: None)


def command(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


def test_ask_prints_an_answer_that_can_be_read_back(
    deployment: Deployment, engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("ask", QUESTIONS[0][0], *deployment.arguments(), "--k", 3) == 0
    answer = Answer.from_dict(json.loads(capsys.readouterr().out))
    assert (answer.question, len(answer.evidence)) == (QUESTIONS[0][0], 3)
    assert {e.block_id for e in answer.evidence} == {e.block_id for e in engine.ask(QUESTIONS[0][0], k=3).evidence}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ask", " ", "DEPLOYMENT"], "error: The question is empty."),
        (["ask", "x", "--k", "0", "DEPLOYMENT"], "error: k must be from 1 to 50, not 0."),
        (["ask", "x", "--model", "/no", "--index", "/no", "--corpus", "/no"], "error: /no/config.json does not exist."),
        (["evaluate", "--questions", "/no.jsonl", "DEPLOYMENT"], "error: /no.jsonl does not exist."),
        (
            ["index", "--model", "MODEL", "--corpus", "/no", "--output", "/tmp"],
            "error: /no/manifest.json does not exist.",
        ),
    ],
)
def test_what_is_wrong_is_one_sentence_and_status_two(
    deployment: Deployment, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    known = {"CORPUS": [str(deployment.corpus)], "MODEL": [str(deployment.model)], "DEPLOYMENT": deployment.arguments()}
    assert command(*(word for argument in arguments for word in known.get(argument, [argument])), "--quiet") == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err.strip().splitlines()) == ("", [said])


def test_what_is_done_unless_told_otherwise_has_both_flags() -> None:
    parser = argparse.ArgumentParser()
    add_options(parser, Evaluate)
    given = ["--questions", "q.jsonl", "--index", "i"]
    told = [task_of(Evaluate, parser.parse_args([*given, *more])) for more in ([], ["--why"], ["--no-why"])]
    assert [one.why for one in told] == [True, True, False]
    assert [[word for word in argv(one) if "why" in word] for one in told] == [[], [], ["--no-why"]]


def test_a_file_in_the_place_of_a_folder_is_a_sentence_before_anything_is_worked_on(
    deployment: Deployment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "file"
    file.write_text("a file")
    asked = write_lines(tmp_path / "asked.jsonl", questions())
    made = ["--model", deployment.model, "--corpus", deployment.corpus]
    for arguments, why in (
        (["ict", *made, "--output", file / "made"], "Not a directory"),
        (["ict", *made, "--output", tmp_path / "made", "--run", file], "Not a directory"),
        (["mlm", *made, "--output", tmp_path / "made", "--run", file / "x"], "Not a directory"),
        (["spans", "--corpus", deployment.corpus, "--tagger", "dates", "--output", file], "Not a directory"),
        (["spans", "--corpus", deployment.corpus, "--tagger", "dates", "--output", file / "x"], "Not a directory"),
        (["index", *made, "--output", file], "Not a directory"),
        (["evaluate", *deployment.arguments(), "--questions", asked, "--predictions", tmp_path], "Is a directory"),
        (["evaluate", *deployment.arguments(), "--questions", asked, "--predictions", file / "x"], "Not a directory"),
        (["compare", tmp_path], "Is a directory"),
    ):
        assert command(*arguments, "--quiet") == 2, arguments
        (said,) = capsys.readouterr().err.strip().splitlines()
        assert said.startswith(f"error: {tmp_path}") and said.endswith(f": {why}."), (arguments, said)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["asked.jsonl", "file"]


def test_a_process_ends_with_its_status(tmp_path: Path) -> None:
    """Once for real: the rest of this file runs in this process."""
    arguments = ["ingest", "--source", "jsonl", "--path", "/no.jsonl", "--name", "x", "--output", str(tmp_path)]
    status, errors = run(arguments)
    assert status == 2 and errors.splitlines()[-1].startswith("error: ") and "/no.jsonl" in errors


def test_stopped_is_status_three(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for raised in (Stopped(), KeyboardInterrupt()):

        def stop(arguments: Any, activity: Any, error: BaseException = raised) -> None:
            raise error

        monkeypatch.setattr("realm_core.serving.asking.main", stop)
        assert command("ask", "x", *deployment.arguments()) == 3
        assert capsys.readouterr().err == "Stopped; what was finished is kept.\n"


def test_a_bug_is_not_hidden(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(arguments: Any, activity: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("realm_core.serving.asking.main", broken)
    with pytest.raises(ZeroDivisionError):
        command("ask", "x", *deployment.arguments())


@pytest.mark.parametrize("name", ACTIVITIES)
def test_every_activity_says_what_it_takes(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0
    assert all(option in capsys.readouterr().out.replace("\n", " ") for option in ["--run"])


@pytest.mark.parametrize("arguments", [[], ["answer"], ["ask"], ["index", "--colour"]])
def test_wrong_words_are_refused_with_status_two(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2 and "usage: python -m realm_core" in capsys.readouterr().err


def test_help_loads_nothing_heavy() -> None:
    program = (
        "import sys\nfrom realm_core.__main__ import main\n"
        "try: main(['--help'])\nexcept SystemExit: print('torch' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=TOP, capture_output=True, text=True, check=False)
    assert done.stderr.strip() == "False"
    assert all(name in done.stdout for name in ACTIVITIES)


def test_index_leaves_result_and_progress(
    deployment: Deployment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--model", deployment.model, "--corpus", deployment.corpus, "--output", tmp_path / "indexes"]
    assert command("index", *arguments, "--generation", "mine", "--run", tmp_path / "run") == 0
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert (result["generation"], result["path"]) == ("mine", str(tmp_path / "indexes" / "mine"))
    assert (result["rows"], result["dim"], result["snapshot_id"]) == (12, 16, deployment.corpus.name)
    assert result["model_hash"] == load_model(deployment.model).hash
    progress = json.loads((tmp_path / "run" / "progress.json").read_text())
    assert (progress["done"], progress["total"], progress["unit"]) == (12, 12, "blocks")
    assert "The index is" in capsys.readouterr().err


# ── Activities that have no tests of their own elsewhere ────────────────────────────────────────────────────────────


def test_pack_stores_smaller_and_changes_how_it_reads(deployment: Deployment, tmp_path: Path) -> None:
    packed = tmp_path / "small"
    options = ["--query", "int8", "--reader", "int8", "--normalisation", "joint", "--min-probability", "0.25"]
    assert command("pack", "--model", deployment.model, "--output", packed, *options, "--quiet") == 0
    original, small = load_model(deployment.model), load_model(packed)
    assert (small.config.normalisation, small.config.min_probability) == ("joint", 0.25)
    assert small.block_hash == original.block_hash and small.hash != original.hash  # every index still fits
    engine = Engine.load(packed, deployment.index, deployment.corpus, device="cpu")
    answer = engine.ask("x")
    engine.close()
    assert answer.model == f"small@{small.hash}" and answer.normalisation == "joint"
    assert (answer.answer is None) == (answer.answers[0].probability < 0.25)
    assert command("pack", "--model", deployment.model, "--output", packed, "--quiet") == 2


def test_evaluate_asks_every_question(
    deployment: Deployment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_lines(tmp_path / "q.jsonl", questions())
    predictions = tmp_path / "predictions.jsonl"
    options = ["--questions", path, "--predictions", predictions, "--json", "--k", 12, "--quiet"]
    assert command("evaluate", *deployment.arguments(), *options) == 0
    figures = json.loads(capsys.readouterr().out)
    said = [json.loads(line) for line in predictions.read_text().splitlines()[1:]]  # behind what they are of
    assert figures["n"] == len(said) == len(QUESTIONS)
    assert figures["exact_match"] == sum(row["right"] for row in said) / len(said)
    assert figures["recall@20"] == 1.0  # there are but twelve blocks
    assert [row["question"] for row in said] == [question for question, _, _ in QUESTIONS]


def test_a_warm_start_ranks_by_cosine(
    deployment: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny = load_model(deployment.model).config  # instead of the sentence encoder, which takes its time

    def small(config: ModelConfig, *, seed: int) -> Model:
        return new_model(replace(tiny, dimension=config.dimension), seed=seed)

    monkeypatch.setattr("realm_core.training.warmstart.new_model", small)
    settings = ["--set", "dimension=8", "--set", "scale=30"]
    assert command("warmstart", "--corpus", deployment.corpus, "--output", tmp_path / "warm", *settings) == 0
    assert "keeps" in capsys.readouterr().err
    model = load_model(tmp_path / "warm")
    joined = join_block(Wordpieces.default(), ["Mars", "Nile"], ["It has two moons.", "It flows."], 64)
    mars, nile = embed(model.block, joined)
    assert torch.dot(mars, mars).item() == pytest.approx(30.0, rel=1e-3)  # scale × cosine of a vector with itself
    assert torch.dot(mars, nile).item() < 30.0
    assert torch.equal(embed(model.query, joined), embed(model.block, joined))


def test_a_warm_start_refuses_an_existing_folder_before_it_embeds(
    deployment: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("realm_core.training.warmstart.new_model", lambda *_, **__: pytest.fail("it computes"))
    with pytest.raises(RealmError, match=f"{tmp_path} exists already; choose another name"):
        activity_of("warmstart", ["--corpus", deployment.corpus, "--output", tmp_path, "--set", "dimension=8"])


def test_a_percent_sign_in_the_settings_help_is_shown_once(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command("pretrain", "--help")
    shown = capsys.readouterr().out
    assert "15 % of the wordpieces" in shown and "%%" not in shown


def test_too_small_a_corpus_sets_no_projection(deployment: Deployment, tmp_path: Path) -> None:
    with pytest.raises(RealmError, match="has 12 blocks, too few"):
        activity_of("warmstart", ["--corpus", deployment.corpus, "--output", tmp_path / "warm"])
