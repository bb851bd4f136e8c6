"""Fine-tuning for real, on a dozen articles: it learns, and being killed changes nothing of what comes out."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from realm_core.corpus.store import Snapshot
from realm_core.engine import Engine
from realm_core.errors import RealmError
from realm_core.evaluation.answers import exact_match
from realm_core.index.generation import Generation
from realm_core.index.retriever import check_fit
from realm_core.model.checkpoint import load_model
from realm_core.training.reader_stage import Examples, reader_exact_match
from realm_core.training.retriever_stage import retriever_recall, retriever_task
from realm_core.training.rows import write_rows
from tests.core.conftest import Deployment
from tests.core.processes import finish, start, wait_until
from tests.core.running import activity_of
from tests.core.training.material import reading_rows

LEARNING = {
    "holdout": 0.0,
    "retriever_epochs": 30,
    "retriever_batch": 6,
    "retriever_lr": 5e-3,
    "reader_epochs": 40,
    "reader_lr": 5e-3,
    "reader_head_lr": 1e-2,
    "reader_batch_wordpieces": 800,
    "dropout": 0.0,
}


def arguments(deployment: Deployment, folder: Path, output: str, settings: dict[str, object]) -> list[str]:
    rows = folder / "rows.jsonl"
    if not rows.exists():
        write_rows(rows, reading_rows())
    sets = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    return [*deployment.arguments(), "--rows", str(rows), "--output", str(folder / output), "--device", "cpu", *sets]


@pytest.fixture(scope="module")
def learnt(deployment: Deployment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a trained model, `tuned`, and its `run`."""
    folder = tmp_path_factory.mktemp("finetune")
    activity_of("finetune", arguments(deployment, folder, "tuned", LEARNING), run=folder / "run")
    yield folder


def metrics(run: Path, name: str) -> list[float]:
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [row[name] for row in rows if name in row]


# ── It learns ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("stage", ["retriever", "reader"])
def test_the_loss_falls(learnt: Path, stage: str) -> None:
    losses = metrics(learnt / "run", f"{stage}.loss")
    assert len(losses) >= 4 and losses[-1] < 0.5 * losses[0]


def test_the_reader_answers_what_it_was_taught(deployment: Deployment, learnt: Path) -> None:
    before, after = load_model(deployment.model), load_model(learnt / "tuned")
    examples = Examples(after.config)
    assert reader_exact_match(after, reading_rows(), examples, 1000)["em"] >= 0.75
    assert reader_exact_match(before, reading_rows(), examples, 1000)["em"] <= 0.25


def test_the_retriever_finds_what_it_was_taught(deployment: Deployment, learnt: Path) -> None:
    snapshot, vectors = Snapshot.open(deployment.corpus), Generation.open(deployment.index).vectors_ND
    recalls = []
    for folder in (deployment.model, learnt / "tuned"):
        model = load_model(folder)
        task = retriever_task(model, snapshot, vectors, [], reading_rows())
        recalls.append(retriever_recall(model, task)["recall@1"])
    assert recalls[0] <= 0.4 and recalls[1] >= 0.75


def test_the_whole_answers_better_than_chance(deployment: Deployment, learnt: Path) -> None:
    engine = Engine.load(learnt / "tuned", deployment.index, deployment.corpus, device="cpu")
    said = [engine.ask(row.question, k=1).answers[0].text for row in reading_rows()]
    engine.close()
    right = [exact_match(text, row.answers) for text, row in zip(said, reading_rows(), strict=True)]
    assert sum(right) >= 6


def test_indexes_built_before_stay_right(deployment: Deployment, learnt: Path) -> None:
    model = load_model(learnt / "tuned")
    check_fit(model, Generation.open(deployment.index), Snapshot.open(deployment.corpus))
    base, tuned = load_model(deployment.model), model
    for part in ("query", "reader"):
        frozen, trained = base.parts()[part].state_dict(), tuned.parts()[part].state_dict()
        changed = {name for name in frozen if not torch.equal(frozen[name], trained[name])}
        assert changed and not any("embeddings" in name for name in changed)


def test_the_result_tells_model_and_recipe(learnt: Path) -> None:
    result = json.loads((learnt / "run" / "result.json").read_text())
    model = load_model(learnt / "tuned")
    assert (result["path"], result["model_hash"]) == (str(learnt / "tuned"), model.hash)
    assert model.about is not None and "fine-tuned from" in model.about["recipe"][-1]
    assert not (learnt / "run" / "reader").exists() and not (learnt / "run" / "retriever").exists()


# ── It can be killed ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.timeout(900)  # two processes are started, on a machine that may be busy
def test_killed_and_stopped_it_comes_to_the_same_bytes(deployment: Deployment, tmp_path: Path) -> None:
    settings = LEARNING | {"retriever_epochs": 12, "reader_epochs": 20, "reader_batch_wordpieces": 400}
    settings |= {"dropout": 0.1, "checkpoint_every": 4, "holdout": 0.2}
    run = tmp_path / "run"
    command = ["finetune", *arguments(deployment, tmp_path, "resumed", settings), "--run", str(run)]

    def reached(stage: str, step: int) -> bool:
        return any(int(f.name.rpartition("-")[2]) >= step for f in (run / stage).glob("checkpoint-*"))

    killed = start(command)
    wait_until(lambda: reached("retriever", 12), killed)
    killed.kill()
    assert finish(killed)[0] == -signal.SIGKILL
    stopped = start(command)
    wait_until(lambda: reached("reader", 8), stopped)
    stopped.send_signal(signal.SIGTERM)
    status, errors = finish(stopped)
    assert (status, "Stopped" in errors) == (3, True), errors
    assert "retriever: going on at step" in errors
    assert not (tmp_path / "resumed").exists()
    assert reached("reader", 8)

    activity_of("finetune", arguments(deployment, tmp_path, "resumed", settings), run=run)
    activity_of("finetune", arguments(deployment, tmp_path, "whole", settings), run=tmp_path / "other-run")
    resumed, whole = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("resumed", "whole"))
    assert resumed == whole
    figures = [json.loads((tmp_path / name / "result.json").read_text())["held_out"] for name in ("run", "other-run")]
    assert figures[0] == figures[1] and {"recall@1", "em"} <= figures[0].keys()


# ── What it refuses ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_checkpoint_of_other_settings_is_refused(deployment: Deployment, tmp_path: Path) -> None:
    checkpoint = tmp_path / "run" / "retriever" / "checkpoint-3"
    checkpoint.mkdir(parents=True)
    (checkpoint / "state.json").write_text('{"step": 3, "steps": 9, "identity": "another", "measured": {}}')
    with pytest.raises(RealmError, match=r"checkpoint-3 is of other rows or settings"):
        activity_of("finetune", arguments(deployment, tmp_path, "m", LEARNING), run=tmp_path / "run")


def test_a_model_that_exists_is_refused(deployment: Deployment, tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    with pytest.raises(RealmError, match="exists already; choose another name"):
        activity_of("finetune", arguments(deployment, tmp_path, "m", LEARNING))


def test_rows_that_are_all_held_out_teach_nothing(deployment: Deployment, tmp_path: Path) -> None:
    write_rows(tmp_path / "rows.jsonl", [])
    with pytest.raises(RealmError, match="hold nothing to learn from"):
        activity_of("finetune", arguments(deployment, tmp_path, "m", LEARNING))


def test_a_loss_that_is_no_number_ends_it(deployment: Deployment, tmp_path: Path) -> None:
    wild = LEARNING | {"retriever_epochs": 0, "reader_lr": 1e30, "reader_head_lr": 1e30}
    with pytest.raises(RealmError, match=r"reader: the loss of step \d+ is (nan|inf); lower the learning rate"):
        activity_of("finetune", arguments(deployment, tmp_path, "m", wild), run=tmp_path / "run")
    assert not (tmp_path / "m").exists()
