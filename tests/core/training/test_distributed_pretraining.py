"""Two processes that share each batch and one index pre-train what one would."""

from __future__ import annotations

import contextlib
import importlib
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from realm_core.errors import RealmError, Stopped
from realm_core.training import pretrain_step
from realm_core.training.distributed import World
from realm_core.training.loop import Loop
from realm_core.training.masking import MaskedBatches
from tests.core.processes import finish, start_ranks
from tests.core.running import activity_of, rows
from tests.core.training.towns import Towns
from tests.waiting import wait_until

# What each process runs: `python -m realm_core`, in float32 whatever the machine can do, for sums are compared to many
# digits.
PROGRAM = """
import sys
import torch
from realm_core.__main__ import main
from realm_core.training import pretrain_step
pretrain_step.fast_dtype = lambda device: torch.float32
sys.exit(main())
"""
# The same, which leaves beside the run of what step the index was that each process took last, and where it ended.
TELLING = """
import os, sys
from pathlib import Path
from realm_core.__main__ import main
from realm_core.training.live_index import BackgroundRefresh
from realm_core.training.loop import Loop
told, run, take = Path(sys.argv.pop(1)) / os.environ["RANK"], Loop.run, BackgroundRefresh._open
def taken(self, step):
    index = take(self, step)
    told.with_suffix(".index").write_text(str(step))
    return index
def ended(self, *words):
    try:
        return run(self, *words)
    finally:
        told.with_suffix(".ended").write_text(str(self.step))
BackgroundRefresh._open, Loop.run = taken, ended
sys.exit(main())
"""
SETTINGS: dict[str, Any] = {
    "steps": 7,
    "batch": 5,  # shares of two and of three
    "at_once": 2,
    "k": 3,
    "learning_rate": 1e-3,
    "dropout": 0.0,
    "holdout": 0.1,
    "checkpoint_every": 4,
    "refresh": "in-loop",
    "refresh_every": 3,
}


def builders(run: Path) -> list[int]:
    """The processes that build for the training of a run folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has just ended
            words = path.read_text().split("\0")
            if "refresh" in words and any(word.rpartition("=")[2] == str(run) for word in words):
                found.append(int(path.parent.name))
    return found


@pytest.mark.timeout(900)  # three processes are started, on a machine that may be busy
def test_two_processes_learn_what_one_would(towns: Towns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = [*towns.pretrain(tmp_path / "two", SETTINGS), "--run", str(tmp_path / "together")]
    ends = [finish(process) for process in start_ranks(["pretrain", *words], PROGRAM)]
    errors = "".join(said for _, said in ends)
    assert [status for status, _ in ends] == [0, 0], errors
    monkeypatch.setattr(pretrain_step, "fast_dtype", lambda device: torch.float32)
    activity_of("pretrain", towns.pretrain(tmp_path / "one", SETTINGS), run=tmp_path / "alone")
    one, two, begun = (
        load_file(folder / "model.safetensors") for folder in (tmp_path / "one", tmp_path / "two", towns.model)
    )
    assert one.keys() == two.keys()
    for name in one:
        torch.testing.assert_close(one[name], two[name], rtol=1e-3, atol=2e-5)
    moved = [float((one[name] - begun[name]).abs().max()) for name in one.keys() & begun.keys()]
    assert max(moved) > 1e-3
    together, alone = rows(tmp_path / "together"), rows(tmp_path / "alone")
    assert [row["step"] for row in together] == [row["step"] for row in alone]  # each is reported once
    for row, wanted in zip(together, alone, strict=True):
        assert row.keys() == wanted.keys()
        for name in {"pretrain.loss", "pretrain.held_out.loss", "pretrain.held_out.utility"} & row.keys():
            assert row[name] == pytest.approx(wanted[name], rel=1e-3, abs=1e-4)
    assert errors.count("The model is") == 1


@pytest.mark.nightly  # test_two_processes_learn_what_one_would has them without a builder
@pytest.mark.timeout(900)
def test_one_builder_serves_two_processes_which_end_at_the_same_step(towns: Towns, tmp_path: Path) -> None:
    run = tmp_path / "run"
    settings = SETTINGS | {"steps": 1_000_000, "refresh": "process", "refresh_every": 10, "checkpoint_every": 10_000}
    words = [*towns.pretrain(tmp_path / "made", settings | {"holdout": 0.0}), "--run", str(run)]
    both = start_ranks([str(tmp_path), "pretrain", *words], TELLING)
    wait_until(lambda: all((tmp_path / f"{rank}.index").exists() for rank in range(2)), both[0])
    assert len(builders(run)) == 1
    for process in both:
        process.terminate()
    ends = [finish(process) for process in both]
    errors = "".join(said for _, said in ends)
    assert [status for status, _ in ends] == [3, 3], errors
    assert errors.count("Stopped; what was finished is kept.") == 2, errors
    assert builders(run) == []
    ended, index = (
        [int((tmp_path / f"{rank}.{what}").read_text()) for rank in range(2)] for what in ("ended", "index")
    )
    assert ended[0] == ended[1] > min(index) > 0
    assert [path.name for path in (run / "pretrain").iterdir()] == [f"checkpoint-{ended[0]}"]
    assert errors.count("computes on cpu, as the training does") == 1


@pytest.mark.parametrize(("activity", "step", "rest"), [("ict", "IctStep", [0.0]), ("mlm", "MlmStep", [0, 1])])
def test_every_example_counts_alike_whichever_process_has_it(
    towns: Towns,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    activity: str,
    step: str,
    rest: list[float],
) -> None:
    """Of five examples one process takes two, the other three; what each minimises has the batch's loss as its mean."""
    numbers, minimised = iter([2.0, 3.0]), []

    def first_step(loop: Loop, losses_of: Any, _measure: Any) -> None:
        minimised.append(sum(loss.item() for loss, _ in losses_of(0)))
        raise Stopped

    module = importlib.import_module(f"realm_core.training.{activity}")
    monkeypatch.setattr(getattr(module, step), "forward", lambda *_: (torch.tensor(next(numbers)), *rest))
    monkeypatch.setattr(Loop, "run", first_step)
    monkeypatch.setattr(World, "replicate", lambda self, module: module)
    monkeypatch.setattr(World, "wait", lambda self: None)
    for rank in range(2):
        monkeypatch.setattr(World, "join", lambda device, rank=rank: World(rank, 2))
        with pytest.raises(Stopped):
            activity_of(activity, towns.warm_up(tmp_path / "made", {"batch": 5}), run=tmp_path / "run")
    assert sum(minimised) / 2 == pytest.approx((2 * 2.0 + 3 * 3.0) / 5)


def test_a_process_without_a_sentence_computes_one_that_weighs_nothing(
    towns: Towns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a step's sentences only one could be masked, and the other process has it; DDP waits for both."""
    masked, computed = MaskedBatches.__call__, []

    def first_step(loop: Loop, losses_of: Any, _measure: Any) -> None:
        computed.extend(losses_of(0))
        raise Stopped

    monkeypatch.setattr(MaskedBatches, "__call__", lambda self, step: masked(self, step).part(slice(0, 1)))
    monkeypatch.setattr(Loop, "run", first_step)
    monkeypatch.setattr(World, "join", lambda device: World(0, 2))
    monkeypatch.setattr(World, "wait", lambda self: None)
    monkeypatch.setattr(World, "replicate", lambda self, module: module)
    with pytest.raises(Stopped):
        activity_of(
            "pretrain", towns.pretrain(tmp_path / "made", SETTINGS | {"refresh": "never"}), run=tmp_path / "run"
        )
    [(loss, figures)] = computed
    assert loss.item() == 0 and loss.requires_grad and figures["sequences"] == 0


@pytest.mark.parametrize(
    ("activity", "message"),
    [
        ("pretrain", "batch must be at least 3, one example a process, not 2"),
        ("ict", "batch must be at least 6, 2 examples a process, not 2"),  # each other's negatives
        ("mlm", "batch must be at least 3, one example a process, not 2"),
    ],
)
def test_more_processes_than_examples_are_refused_before_anything_is_loaded(
    towns: Towns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, activity: str, message: str
) -> None:
    monkeypatch.setattr(World, "join", lambda device: World(0, 3))
    monkeypatch.setattr(World, "wait", lambda self: None)
    make = towns.pretrain if activity == "pretrain" else towns.warm_up
    words = [*make(tmp_path / "made", {"batch": 2}), "--model", tmp_path / "none", "--corpus", tmp_path / "none"]
    with pytest.raises(RealmError, match=message):
        activity_of(activity, words, run=tmp_path / "run")
