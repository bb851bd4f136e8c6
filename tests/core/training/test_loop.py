"""The loop of every training on a handful of numbers: schedule, decay, clipping, figures, checkpoints, going on."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from realm_core.errors import RealmError, Stopped
from realm_core.files import read_json
from realm_core.runs.activity import Activity
from realm_core.training.distributed import World
from realm_core.training.identity import identity_of
from realm_core.training.loop import Loop, ParameterGroup
from tests.core.running import Stopping, rows

Losses = Iterator[tuple[Tensor, dict[str, float]]]
CURVES = ("step", "small.loss", "small.gradient_norm", "small.learning_rate")


class Numbers(nn.Module):
    """A matrix and a vector, all ones."""

    def __init__(self) -> None:
        super().__init__()
        self.matrix = nn.Parameter(torch.ones(2, 3))
        self.vector = nn.Parameter(torch.ones(3))

    def total(self) -> Tensor:
        """A loss whose gradient is one everywhere, so that AdamW moves everything by the learning rate."""
        return self.matrix.sum() + self.vector.sum()


def loop_of(module: nn.Module, folder: Path, activity: Activity | None = None, **settings: Any) -> Loop:
    given: dict[str, Any] = {
        "steps": 20,
        "warmup": 0.2,
        "weight_decay": 0.0,
        "clip": 1e9,
        "seed": 1,
        "checkpoint_every": 5,
        "metrics_every": 10,
        "identity": identity_of(rows=["these"], settings=[("batch", 2)]),
    }
    groups = settings.pop("groups", None) or [ParameterGroup(module, 0.1)]
    given = {"world": World(), **given, **settings}
    own = {name: given.pop(name) for name in ("steps", "identity", "world", "reported") if name in given}
    activity = activity or Activity(folder, quiet=True)
    return Loop("small", groups, SimpleNamespace(**given), folder=folder / "small", activity=activity, **own)


# ── What a step does ────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_learning_rate_rises_and_falls_in_straight_lines(tmp_path: Path) -> None:
    module = Numbers()
    seen: list[float] = []

    def losses_of(step: int) -> Losses:
        seen.append(module.vector[0].item())
        yield module.total(), {}

    loop_of(module, tmp_path).run(losses_of, dict)
    seen.append(module.vector[0].item())
    factors = [(before - after) / 0.1 for before, after in pairwise(seen)]
    wanted = [0.25, 0.5, 0.75, 1.0, *(step / 16 for step in range(16, 0, -1))]
    assert factors == pytest.approx(wanted, abs=1e-4)


def test_a_training_reports_itself_before_its_first_step_and_after_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, told = Numbers(), list[tuple[int, str]]()
    monkeypatch.setattr(Activity, "progress", lambda _self, done, _total, _unit, message: told.append((done, message)))

    def losses_of(step: int) -> Losses:
        assert len(told) == step + 1
        yield module.total(), {}

    loop_of(module, tmp_path, steps=3).run(losses_of, dict)
    assert told[0] == (0, "small computing the first step")
    assert [(done, message[:11]) for done, message in told[1:]] == [(step, "small loss ") for step in (1, 2, 3)]


def test_only_matrices_decay_and_groups_have_their_own_rate(tmp_path: Path) -> None:
    slow, fast = Numbers(), Numbers()
    fast.vector.requires_grad_(False)

    def losses_of(step: int) -> Losses:
        yield slow.total() + fast.total(), {}

    groups = [ParameterGroup(slow, 0.01), ParameterGroup(fast, 0.1)]
    loop_of(slow, tmp_path, groups=groups, steps=1, warmup=0.0, weight_decay=0.5).run(losses_of, dict)
    assert slow.vector.tolist() == pytest.approx([1 - 0.01] * 3, abs=1e-6)
    assert slow.matrix[0].tolist() == pytest.approx([1 - 0.01 - 0.01 * 0.5] * 3, abs=1e-6)
    assert fast.matrix[0].tolist() == pytest.approx([1 - 0.1 - 0.1 * 0.5] * 3, abs=1e-6)
    assert fast.vector.tolist() == [1.0, 1.0, 1.0]


def test_parts_add_up_and_long_gradients_are_cut(tmp_path: Path) -> None:
    module = Numbers()
    norms: list[float] = []
    clip = torch.nn.utils.clip_grad_norm_

    def noticing(parameters: Any, most: float) -> Tensor:
        own = list(parameters)
        before = clip(own, most)
        norms.append(torch.cat([p.grad.flatten() for p in own]).norm().item())
        return before

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(torch.nn.utils, "clip_grad_norm_", noticing)
        loop_of(module, tmp_path, steps=2, clip=2.0).run(
            lambda step: ((module.total() * share, {}) for share in ((0.5, 1.5), (0.1, 0.2))[step]), dict
        )
    assert norms == pytest.approx([2.0, 0.3 * 3.0], rel=1e-4)  # nine numbers of slope 2, then of slope 0.3
    (row,) = rows(tmp_path)
    assert row["small.gradient_norm"] == pytest.approx((6.0 + 0.9) / 2)  # before they are cut
    assert row["small.learning_rate"] == 1.0


def test_figures_are_means_but_sequences_are_counted(tmp_path: Path) -> None:
    module = Numbers()

    def losses_of(step: int) -> Losses:
        for part in range(2):
            time.sleep(0.005)
            yield module.total() * 0 + step, {"figure": float(step + part), "sequences": 3}

    def measure() -> dict[str, float]:
        time.sleep(0.02)
        return {"recall": 0.5}

    assert loop_of(module, tmp_path).run(losses_of, measure) == {"recall": 0.5}
    reported = [row for row in rows(tmp_path) if "small.loss" in row]
    assert [row["step"] for row in reported] == [10, 20]
    assert [row["small.loss"] for row in reported] == [2 * 4.5, 2 * 14.5]
    assert [row["small.figure"] for row in reported] == [5.0, 15.0]
    # Six sequences in at least ten milliseconds, also where a measure comes between two reports.
    assert all(0 < row["small.sequences_per_s"] < 6 / 0.010 for row in reported)
    held_out = [row for row in rows(tmp_path) if "small.held_out.recall" in row]
    assert [row["step"] for row in held_out] == [5, 10, 15, 20]


def test_parts_count_by_their_sequences(tmp_path: Path) -> None:
    module = Numbers()
    parts = [(3, 1.0), (1, 5.0)]
    loop_of(module, tmp_path, steps=10).run(
        lambda step: ((module.total() * 0, {"figure": value, "sequences": size}) for size, value in parts), dict
    )
    assert [row["small.figure"] for row in rows(tmp_path) if "small.figure" in row] == [2.0]


@pytest.mark.parametrize(("every", "steps"), [(1, range(1, 8)), (3, [3, 6, 7]), (100, [7])])
def test_a_row_of_metrics_is_the_mean_of_so_many_steps(tmp_path: Path, every: int, steps: Sequence[int]) -> None:
    module = Numbers()
    loop = loop_of(module, tmp_path, steps=7, metrics_every=every, checkpoint_every=2)
    loop.run(lambda step: iter([(module.total() * 0 + step, {"figure": 2.0 * step})]), dict)
    reported = rows(tmp_path)
    assert [row["step"] for row in reported] == list(steps)
    for row, before in zip(reported, [0, *steps], strict=False):
        mean = sum(range(before, row["step"])) / (row["step"] - before)
        assert (row["small.loss"], row["small.figure"]) == (pytest.approx(mean), pytest.approx(2 * mean))


def test_a_loss_that_is_no_number_is_refused_before_it_does_harm(tmp_path: Path) -> None:
    module = Numbers()

    def losses_of(step: int) -> Losses:
        yield module.total() * (float("nan") if step == 7 else 1.0), {}

    with pytest.raises(RealmError, match="small: the loss of step 7 is nan; lower the learning rate"):
        loop_of(module, tmp_path).run(losses_of, dict)
    assert torch.isfinite(module.matrix).all()


def test_a_gradient_that_is_no_number_is_refused_before_it_does_harm(tmp_path: Path) -> None:
    module = Numbers()

    def losses_of(step: int) -> Losses:
        # The root's slope at zero is infinite, and the loss a number: it is the last step, so no further loss is seen.
        yield ((module.matrix - module.matrix.detach()).abs().sqrt().sum() if step == 19 else module.total()), {}

    with pytest.raises(RealmError, match="small: the gradient of step 19 is nan; lower the learning rate"):
        loop_of(module, tmp_path).run(losses_of, dict)
    assert torch.isfinite(module.matrix).all()


# ── Checkpoints ─────────────────────────────────────────────────────────────────────────────────────────────────────


def noisy(module: Numbers) -> Any:
    """A loss that depends on the numbers, and on what the step draws."""
    return lambda step: iter([((module.matrix.square().sum() + module.vector.square().sum()) * torch.rand(()), {})])


def test_stopped_and_resumed_it_comes_to_the_same_numbers(tmp_path: Path) -> None:
    whole, resumed = Numbers(), Numbers()
    loop_of(whole, tmp_path / "whole", metrics_every=4).run(noisy(whole), dict)
    stopped = loop_of(resumed, tmp_path, Stopping(7), metrics_every=4)
    with pytest.raises(Stopped):
        stopped.run(noisy(resumed), dict)
    assert stopped.saved_step() == 7
    assert [path.name for path in (tmp_path / "small").iterdir()] == ["checkpoint-7"]
    again = Numbers()  # another process
    loop_of(again, tmp_path, metrics_every=4).run(noisy(again), dict)
    for row, wanted in zip(rows(tmp_path), rows(tmp_path / "whole")[1:], strict=True):  # row 8: steps before and after
        assert {key: row[key] for key in CURVES} == {key: wanted[key] for key in CURVES}
    assert torch.equal(again.matrix, whole.matrix) and torch.equal(again.vector, whole.vector)
    assert not torch.equal(resumed.matrix, whole.matrix)


def test_the_time_that_a_training_lay_stopped_is_not_trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the age of its index would include a night in which it was stopped."""
    module, now = Numbers(), 1000.0
    monkeypatch.setattr(time, "time", lambda: now)

    def losses_of(step: int) -> Losses:
        nonlocal now
        now += 10
        yield module.total(), {}

    for steps, night in ((3, 50_000.0), (5, 40_000.0)):
        with pytest.raises(Stopped):
            loop_of(module, tmp_path, Stopping(steps), steps=12, checkpoint_every=100).run(losses_of, dict)
        now += night
    loop = loop_of(module, tmp_path, steps=12, checkpoint_every=100)
    loop.run(losses_of, dict)
    assert loop.trained_since(1000) == 120 and loop.trained_since(now - 20) == 20
    assert loop.trained_since(1030 + 25_000) == 90  # from the midst of the first night


def test_slow_steps_are_kept_although_the_next_checkpoint_is_far(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, now, kept = Numbers(), 0.0, list[int | None]()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    loop = loop_of(module, tmp_path, steps=12, checkpoint_every=100)

    def losses_of(step: int) -> Losses:
        nonlocal now
        now += 250
        kept.append(loop.saved_step())
        yield module.total(), {}

    loop.run(losses_of, dict)
    assert kept == [None, None, None, 3, 3, 3, 6, 6, 6, 9, 9, 9]
    assert not any("held_out" in name for row in rows(tmp_path)[:-1] for name in row)  # that takes long, too


def test_a_checkpoint_that_is_half_there_is_not_there(tmp_path: Path) -> None:
    module = Numbers()
    loop = loop_of(module, tmp_path)
    assert loop.saved_step() is None and loop.resume() == {}
    (tmp_path / "small" / ".checkpoint-5.tmp").mkdir(parents=True)
    assert loop.saved_step() is None
    loop.run(noisy(module), lambda: {"recall": 0.25})
    assert [path.name for path in (tmp_path / "small").iterdir()] == ["checkpoint-20"]
    finished = loop_of(Numbers(), tmp_path)
    assert finished.run(noisy(module), dict) == {"recall": 0.25} and finished.step == 20  # nothing was left to do


def test_a_checkpoint_of_something_else_is_refused(tmp_path: Path) -> None:
    module = Numbers()
    loop_of(module, tmp_path).run(noisy(module), dict)
    differing = identity_of(rows=["those"], settings=[("batch", 3)])
    named = r"checkpoint-20 belongs .* \(it differs in batch: 2 there, 3 here; rows\); choose another run folder"
    with pytest.raises(RealmError, match=named):
        loop_of(module, tmp_path, identity=differing).resume()
    state = tmp_path / "small" / "checkpoint-20" / "state.json"
    state.write_text(json.dumps({name: value for name, value in read_json(state).items() if name != "parts"}))
    with pytest.raises(RealmError, match="belongs to other rows or settings than this run's; choose another"):
        loop_of(module, tmp_path, identity=differing).resume()  # of an earlier version, which names nothing
    with pytest.raises(RealmError, match=r"checkpoint-20 belongs to another model"):
        loop_of(module, tmp_path, groups=[ParameterGroup(nn.Linear(2, 2), 0.1)]).resume()
