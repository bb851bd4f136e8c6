"""The query embedder trained alone: its loss, that it learns, and that nothing else changes."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest
import torch

from realm_core.corpus.store import Snapshot
from realm_core.errors import RealmError, Stopped
from realm_core.index.build import build
from realm_core.index.generation import Generation
from realm_core.index.retriever import DenseRetriever
from realm_core.model.checkpoint import Model, load_model, own_adapter, save_model
from realm_core.model.packed import Packed
from realm_core.runs.activity import Activity
from realm_core.training.config import RetrieverConfig
from realm_core.training.nearest import Nearest
from realm_core.training.tasks import TrainRetriever
from realm_core.training.train_retriever import Batches, Learnt, RetrieverStep, main
from tests.core.conftest import Deployment
from tests.core.running import activity_of, metrics, told
from tests.core.training.material import QUESTIONS, questions, write_lines
from tests.core.training.test_low_rank import trained as reader_trained
from tests.tiny import tiny_snapshot

MATRIX = "encoder.layer.1.attention.self.query.weight"
LEARNING: dict[str, Any] = {
    "epochs": 30,
    "batch": 6,
    "right_within": 12,
    "low_rank": 4,
    "query_lr": 1e-2,
    "dense_lr": 1e-2,
    "holdout": 0.0,
    "metrics_every": 1,
}


def arguments(deployment: Deployment, folder: Path, settings: dict[str, Any], *options: object) -> list[str]:
    words = ["--model", deployment.model, "--index", deployment.index, "--device", "cpu", *options]
    if "--questions" not in options:
        words += ["--questions", write_lines(folder / "tiny.jsonl", questions())]
    sets = [word for key, value in (LEARNING | settings).items() for word in ("--set", f"{key}={value}")]
    return [str(word) for word in [*words, *sets]]


def train(deployment: Deployment, folder: Path, settings: dict[str, Any], *options: object, name: str = "made") -> Path:
    words = [*arguments(deployment, folder, settings, *options), "--output", folder / name]
    activity_of("train-retriever", words, run=folder / f"run-{name}")
    return folder / name


def found_first(model: Path, deployment: Deployment) -> int:
    """How many of the questions find their own article first."""
    snapshot = Snapshot.open(deployment.corpus)
    rows = DenseRetriever(load_model(model), Generation.open(deployment.index)).rows([q for q, *_ in QUESTIONS], 1)
    return sum(snapshot.block(row).title == title for (row,), (*_, title) in zip(rows, QUESTIONS, strict=True))


def test_it_learns_and_everything_else_stays(deployment: Deployment, tmp_path: Path) -> None:
    made = train(deployment, tmp_path, {})
    losses = list(metrics(tmp_path / "run-made", "train-retriever.loss").values())
    assert losses[-1] < 0.5 * losses[0]
    assert found_first(deployment.model, deployment) < 6 and found_first(made, deployment) >= 9
    before, after = load_model(deployment.model), load_model(made)
    assert (made / "model.safetensors").read_bytes() == (deployment.model / "model.safetensors").read_bytes()
    assert after.block_hash == before.block_hash and after.hash != before.hash
    old, new = before.query.state_dict(), after.query.state_dict()
    change = new[f"bert.{MATRIX}"] - old[f"bert.{MATRIX}"]
    assert int(torch.linalg.matrix_rank(change, rtol=1e-3)) == 4
    assert not torch.equal(old["dense.weight"], new["dense.weight"])
    same = {name for name in old if torch.equal(old[name], new[name])}
    assert same >= {name for name in old if name.startswith("norm.") or "embeddings" in name or "LayerNorm" in name}
    for part in ("block", "reader"):
        states = [getattr(model, part).state_dict() for model in (before, after)]
        assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    assert after.about is not None and "query embedder of" in after.about["recipe"][-1]


def test_matrices_may_change_freely(deployment: Deployment, tmp_path: Path) -> None:
    made = train(deployment, tmp_path, {"low_rank": 0, "query_lr": 5e-3})
    assert found_first(made, deployment) >= 9 and not (made / "adapter.safetensors").exists()
    change = (
        load_model(made).query.bert.state_dict()[MATRIX] - load_model(deployment.model).query.bert.state_dict()[MATRIX]
    )
    assert int(torch.linalg.matrix_rank(change, rtol=1e-3)) > 8


def test_a_stopped_training_goes_on_as_if_it_had_not_been(deployment: Deployment, tmp_path: Path) -> None:
    settings = {"epochs": 4, "checkpoint_every": 3}
    whole = train(deployment, tmp_path, settings, name="whole")
    task = told("train-retriever", [*arguments(deployment, tmp_path, settings), "--output", tmp_path / "stopped"])
    assert isinstance(task, TrainRetriever)
    run = tmp_path / "run-stopped"
    with pytest.raises(Stopped):
        main(task, _StoppedAt(run, 5))
    assert len(metrics(run, "train-retriever.loss")) == 5
    main(task, Activity(run, quiet=True))
    assert load_model(tmp_path / "stopped").hash == load_model(whole).hash
    assert not list(run.glob("train-retriever*"))  # nothing of what was kept is left


class _StoppedAt(Activity):
    """Is asked to stop once a step is done."""

    def __init__(self, run: Path, step: int) -> None:
        super().__init__(run, quiet=True)
        self._step, self._asked = step, False

    def progress(self, done: int, total: int, unit: str, message: str = "") -> None:
        self._asked = unit == "steps" and done == self._step
        super().progress(done, total, unit, message)

    def check(self) -> None:
        if self._asked:
            raise Stopped


def test_a_query_embedder_is_trained_further_beside_a_low_rank_reader(deployment: Deployment, tmp_path: Path) -> None:
    reader_trained(deployment.model, tmp_path / "read", "steps=4")
    first = Deployment(tmp_path / "read", deployment.index, deployment.corpus, tmp_path)
    train(first, tmp_path, {"epochs": 2}, name="first")
    second = Deployment(tmp_path / "first", deployment.index, deployment.corpus, tmp_path)
    train(second, tmp_path, {"epochs": 2, "seed": 2}, name="second")
    reader, both, further = (own_adapter(tmp_path / name) for name in ("read", "first", "second"))
    assert reader.keys() < both.keys() == further.keys()
    assert all(torch.equal(both[name], further[name]) for name in reader)
    down = f"query.bert.{MATRIX}:down"
    assert both[down].shape == further[down].shape == (4, 32) and not torch.equal(both[down], further[down])
    # And the reader's own adapter goes on beside that of the query embedder.
    again = reader_trained(tmp_path / "second", tmp_path / "again", "steps=4", "seed=3")
    own = own_adapter(tmp_path / "again")
    assert own.keys() == further.keys() and torch.equal(own[down], further[down])
    name = f"reader.bert.{MATRIX}:down"
    assert own[name].shape == further[name].shape and not torch.equal(own[name], further[name])
    assert torch.equal(again.query.dense.weight, load_model(tmp_path / "second").query.dense.weight)


def test_a_trained_retriever_gets_another_models_reader(deployment: Deployment, tmp_path: Path) -> None:
    reader_trained(deployment.model, tmp_path / "read", "steps=4")
    retriever = train(deployment, tmp_path, {"epochs": 2})
    options = ["--retriever", retriever, "--reader", tmp_path / "read", "--output", tmp_path / "both"]
    activity_of("combine", options)
    both, first, second = map(load_model, (tmp_path / "both", retriever, tmp_path / "read"))
    assert (tmp_path / "both" / "model.safetensors").read_bytes() == (retriever / "model.safetensors").read_bytes()
    _alike(both, first, "query")
    _alike(both, first, "block")
    _alike(both, second, "reader")
    assert both.block_hash == first.block_hash
    assert [model.about["recipe"] for model in (both,) if model.about] == [[_last(second), _last(first)]]
    # Where the embedders' weights are others, the model is stored whole.
    other = load_model(tmp_path / "read")
    with torch.no_grad():
        other.query.bert.state_dict()[MATRIX].mul_(1.5)
    save_model(other, tmp_path / "other")
    activity_of("combine", ["--retriever", retriever, "--reader", tmp_path / "other", "--output", tmp_path / "whole"])
    whole = load_model(tmp_path / "whole")
    assert not (tmp_path / "whole" / "adapter.safetensors").exists()
    _alike(whole, first, "query")
    _alike(whole, second, "reader")


def _last(model: Model) -> str:
    assert model.about is not None
    return str(model.about["recipe"][-1])


def _alike(one: Model, other: Model, part: str) -> None:
    states = [getattr(model, part).state_dict() for model in (one, other)]
    for name, tensor in states[0].items():
        assert torch.allclose(tensor, states[1][name], atol=1e-3), f"{part}.{name}"


def test_questions_are_searched_for_in_several_indexes(deployment: Deployment, tmp_path: Path) -> None:
    articles = {"Red Sea": "The Red Sea lies between Africa and Asia.", "Thimphu": "Thimphu is the capital of Bhutan."}
    corpus = tiny_snapshot(tmp_path / "more", articles)
    other = build(deployment.model, corpus, tmp_path / "more" / "indexes", Activity(quiet=True), device="cpu")
    settings = {"epochs": 2, "holdout": 0.4}
    train(deployment, tmp_path, settings, "--index", deployment.index, other)
    measured = json.loads((tmp_path / "made" / "config.json").read_text())["about"]["held_out"]
    names = {Generation.open(path).name for path in (deployment.index, other)}
    assert set(measured) == {f"recall@{k}.{name}" for k in (1, 5, 20) for name in names}
    assert measured[f"recall@20.{Generation.open(deployment.index).name}"] == 1.0  # all of a dozen blocks


@pytest.mark.parametrize(
    ("rows", "settings", "message"),
    [
        ([{"question": "Who?", "answers": ["nobody at all"]}], {}, "has a right block near; nothing can be learnt"),
        (
            questions(),
            {"repeat": "{elsewhere = 2}"},
            r"repeat names no question file that is given: 'elsewhere'",
        ),
        (questions(), {"repeat": "{tiny = 0}"}, "nothing can be learnt"),
        (questions(), {"holdout": 1.0}, "nothing can be learnt|holdout"),
    ],
)
def test_what_cannot_be_learnt_is_said(
    deployment: Deployment, tmp_path: Path, rows: list[Any], settings: dict[str, Any], message: str
) -> None:
    file = write_lines(tmp_path / "tiny.jsonl", rows)
    with pytest.raises((RealmError, SystemExit), match=message):
        train(deployment, tmp_path, settings, "--questions", file)
    assert not (tmp_path / "made").exists()


def test_an_index_of_another_model_is_refused(deployment: Deployment, tmp_path: Path) -> None:
    other = load_model(deployment.model)
    with torch.no_grad():
        other.block.dense.weight.mul_(2)
    save_model(other, tmp_path / "other")
    wrong = Deployment(tmp_path / "other", deployment.index, deployment.corpus, tmp_path)
    with pytest.raises(RealmError, match="was built with another block embedder"):
        train(wrong, tmp_path, {})
    same = write_lines(tmp_path / "tiny.jsonl", questions())
    folder = tmp_path / "folder"
    folder.mkdir()
    twice = write_lines(folder / "tiny.jsonl", questions())
    with pytest.raises(RealmError, match="another question file is called"):
        train(deployment, tmp_path, {}, "--questions", same, twice)


def test_the_loss_is_the_formula() -> None:
    """−log of the prior's mass on the right blocks, among its own that are clear and the others' that are not its."""
    draw, torch_draw = random.Random(3), torch.Generator().manual_seed(3)
    vectors = torch.randn(30, 4, generator=torch_draw)
    queries = torch.randn(3, 4, generator=torch_draw)
    rows = [draw.sample(range(30), 6) for _ in range(3)]
    right = [[rank in (0, 3) for rank in range(6)], [rank == 1 for rank in range(6)], [rank == 5 for rank in range(6)]]
    unclear = [[rank == 2 for rank in range(6)], [False] * 6, [rank in (0, 1) for rank in range(6)]]
    nearest = Nearest(torch.tensor(rows, dtype=torch.int32), torch.tensor(right), torch.tensor(unclear))
    learnt = Learnt([[number] for number in range(3)], nearest, vectors, [0, 1, 2])

    def embed(packed: Packed) -> torch.Tensor:
        return queries[packed.ids_T]

    step = RetrieverStep(embed, others=6, device=torch.device("cpu"))
    expected, best = 0.0, 0
    for own, query in enumerate(queries):
        scores = {row: float(query @ vectors[row]) for ranking in rows for row in ranking}
        clear = {row for row, flag in zip(rows[own], unclear[own], strict=True) if not flag}
        wanted = {row for row, flag in zip(rows[own], right[own], strict=True) if flag}
        counted = clear | (set(scores) - set(rows[own]))
        mass = sum(math.exp(scores[row]) for row in wanted) / sum(math.exp(scores[row]) for row in counted)
        expected -= math.log(mass) / 3
        best += max(clear, key=scores.__getitem__) in wanted
    loss, share = step(learnt, [0, 1, 2])
    assert loss.item() == pytest.approx(expected, rel=1e-5) and share == pytest.approx(best / 3)


def test_every_question_comes_once_an_epoch() -> None:
    empty = Nearest(*(torch.zeros(0, 1) for _ in range(3)))
    one = Learnt([], empty, torch.zeros(0, 1), [0, 1, 2, 3, 4, 4])
    other = Learnt([], empty, torch.zeros(0, 1), [7, 8])
    config = RetrieverConfig(epochs=5, batch=3)
    batches = Batches([one, other], config)
    assert batches.steps == 5 * 3  # two batches of the one, and one of the other, which has fewer than a batch
    made = [batches.of(step) for step in range(15)]
    again = Batches([one, other], config)
    assert [again.of(step) for step in (14, 5)] == [made[14], made[5]]  # a resumed run starts anywhere
    longer = Batches([one, other], config.model_copy(update={"epochs": 9}))
    assert [longer.of(step) for step in range(15)] == made
    epochs = [made[start : start + 3] for start in range(0, 15, 3)]
    for own in (one, other):
        passes = [[n for at, numbers in epoch if at is own for n in numbers] for epoch in epochs]
        assert all(sorted(numbers) == own.drawn for numbers in passes)
        assert len({tuple(numbers) for numbers in passes}) > 1
    assert len({tuple(at is one for at, _ in epoch) for epoch in epochs}) > 1
