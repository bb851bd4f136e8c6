"""The training loop: optimiser, schedule, checkpoints, resuming, metrics and stopping.

A checkpoint is a folder `checkpoint-STEP/` of safetensors and JSON. It is published by a rename, and the previous one
is removed afterwards. One is also written every ten minutes: on a processor `checkpoint_every` steps may take hours,
which a killed training would lose. A resumed run gets the same batches, because they depend only on the step's number
and the seed.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor, nn

from realm_core.errors import RealmError, Stopped
from realm_core.files import new_folder, read_json, remove_folder, sha256_of_file, write_json
from realm_core.model.embedder import Embedder
from realm_core.model.encoder import Encoder
from realm_core.model.reader import Reader
from realm_core.runs.activity import Activity
from realm_core.tensors import load_tensors, save_tensors
from realm_core.training.adamw import AdamW
from realm_core.training.distributed import World
from realm_core.training.identity import Identity, differences

_ADAM_EPSILON = 1e-6  # BERT's
_SEQUENCES = "sequences"
_OF_STEPS = ("gradient_norm", "learning_rate")  # means over steps, not over sequences
_TENSORS = "state.safetensors"
_LONGEST_UNSAVED_S = 600


class LoopSettings(Protocol):
    """What the settings of every training say about its loop."""

    seed: int
    warmup: float
    weight_decay: float
    clip: float
    checkpoint_every: int
    metrics_every: int


@dataclass(frozen=True)
class ParameterGroup:
    """Parameters that share a peak learning rate."""

    module: nn.Module
    learning_rate: float


@dataclass
class _Row:
    """What the next row of metrics is the mean of; a checkpoint keeps it, so that resuming leaves the curves alike."""

    sums: dict[str, float] = field(default_factory=dict)
    steps: int = 0
    seconds: float = 0.0

    def add(self, *of_a_step: dict[str, float]) -> None:
        """Add the sums of a step's figures."""
        self.steps += 1
        for figures in of_a_step:
            for key, value in figures.items():
                self.sums[key] = self.sums.get(key, 0.0) + value


class Loop:
    """Trains the parameters of `groups` that require a gradient.

    folder: where checkpoints are kept. name: of this stage, the prefix of its metrics. identity: of the rows and
    settings that decide each step's batch; a checkpoint of another identity is refused, one with another number of
    steps is not. reported: makes the figures of a row of metrics of their means over sequences; by default it is these.
    """

    def __init__(
        self,
        name: str,
        groups: Sequence[ParameterGroup],
        config: LoopSettings,
        identity: Identity,
        folder: Path,
        activity: Activity,
        world: World,
        *,
        steps: int,
        reported: Callable[[dict[str, float]], dict[str, float]] = dict,
    ) -> None:
        self._reported, self._world = reported, world
        self.name, self.steps, self._config = name, steps, config
        self._identity, self._folder, self._activity = identity, folder, activity
        self._warmup_steps = max(1, round(config.warmup * steps))
        self._named = {
            f"{number}.{name}": parameter
            for number, group in enumerate(groups)
            for name, parameter in group.module.named_parameters()
            if parameter.requires_grad
        }
        # LayerNorm's parameters and biases are vectors; only matrices decay.
        self._optimiser = AdamW(
            [
                {
                    "params": [p for p in group.module.parameters() if p.requires_grad and (p.dim() > 1) == decays],
                    "lr": group.learning_rate,
                    "weight_decay": config.weight_decay if decays else 0.0,
                    "peak": group.learning_rate,
                }
                for group in groups
                for decays in (True, False)
            ],
            epsilon=_ADAM_EPSILON,
        )
        self.step, self._saved_at = 0, 0.0
        self._pauses: list[tuple[float, float]] = []  # in which nothing was trained that is kept
        self._row = _Row()

    def run(
        self,
        losses_of: Callable[[int], Iterable[tuple[Tensor, dict[str, float]]]],
        measure: Callable[[], dict[str, float]],
    ) -> dict[str, float]:
        """Train to the last step; returns the last held-out measurement.

        losses_of(step) yields the parts of a step's loss, which are summed; memory holds the graph of one part at a
        time. Each comes with figures to report: `sequences`, the size of the part (1 by default), and others, which are
        averaged over the sequences of all processes. A part's loss is weighted already, and computed by what the world
        replicated. measure() is called at each checkpoint and at the end, by every process, and all measure the same.
        """
        measured = self.resume()
        self._show("computing the first step" if self.step == 0 else "resumed from its checkpoint")
        self._saved_at = time.monotonic()
        while self.step < self.steps:
            self._stop_if_asked(measured)
            began = time.monotonic()
            torch.manual_seed(
                self._config.seed * 1_000_003 + self.step
            )  # so that dropout depends on the step's number, too
            figures = self._gradients(losses_of(self.step))
            norm = torch.nn.utils.clip_grad_norm_(self._named.values(), self._config.clip).item()
            if not math.isfinite(norm):  # the step would make every parameter NaN, and the last step's loss is not seen
                raise RealmError(f"{self.name}: the gradient of step {self.step} is {norm}; lower the learning rate.")
            factor = self._factor(self.step)
            self._row.add(figures, {"gradient_norm": norm, "learning_rate": factor})
            for group in self._optimiser.groups:
                group["lr"] = group["peak"] * factor
            self._optimiser.step()
            self._optimiser.forget_gradients()
            self.step += 1
            self._row.seconds += time.monotonic() - began
            self._show(f"loss {self._row.sums['loss'] / self._row.steps:.3f}")
            if self.step % self._config.metrics_every == 0 or self.step == self.steps:
                self._report()
            if self.step % self._config.checkpoint_every == 0 or self.step == self.steps:
                summed = self._world.sum(measure(), self._device)
                measured = {key: value / self._world.size for key, value in summed.items()}
                if measured and self._world.leads:
                    self._activity.metrics(
                        self.step, **{f"{self.name}.held_out.{key}": value for key, value in measured.items()}
                    )
                    shown = ", ".join(f"{key} {value:.3f}" for key, value in measured.items())
                    self._activity.say(f"{self.name}, step {self.step}, held out: {shown}")
                self._save(measured)
            elif self._world.any(time.monotonic() - self._saved_at >= _LONGEST_UNSAVED_S, self._device):
                self._save(measured)
        return measured or measure()

    def trained_since(self, at: float) -> float:
        """Seconds of this training since `at` (seconds since the epoch), without those before it was resumed."""
        now = time.time()
        return max(0.0, now - at - sum(max(0.0, end - max(begin, at)) for begin, end in self._pauses))

    @property
    def _device(self) -> torch.device:
        return next(iter(self._named.values())).device

    def _show(self, message: str) -> None:
        """Report the step; figures in the message are those of this process."""
        if self._world.leads:
            self._activity.progress(self.step, self.steps, "steps", f"{self.name} {message}")

    def _stop_if_asked(self, measured: dict[str, float]) -> None:
        """Save a checkpoint and raise `Stopped` if any process was asked to stop: all stop at the same step."""
        asked = False
        try:
            self._activity.check()
        except Stopped:
            asked = True
        if self._world.any(asked, self._device):
            self._save(measured)
            raise Stopped

    def _gradients(self, losses: Iterable[tuple[Tensor, dict[str, float]]]) -> dict[str, float]:
        """Add up a step's gradients; returns its loss, its number of sequences, and each figure summed over them."""
        sums: dict[str, float] = {"loss": 0.0, _SEQUENCES: 0.0}
        for loss, figures in losses:
            if not torch.isfinite(loss):
                raise RealmError(
                    f"{self.name}: the loss of step {self.step} is {loss.item()}; lower the learning rate."
                )
            loss.backward()
            sums["loss"] += loss.item()
            sequences = figures.get(_SEQUENCES, 1)
            sums[_SEQUENCES] += sequences
            for key, value in figures.items():
                if key != _SEQUENCES:
                    sums[key] = sums.get(key, 0.0) + value * sequences
        return sums

    def _report(self) -> None:
        """Report the means over all processes since the previous row, and begin the next one."""
        row, self._row = self._row, _Row()
        sums = self._world.sum(row.sums, self._device)
        loss, sequences = sums.pop("loss"), sums.pop(_SEQUENCES)
        steps = row.steps * self._world.size
        means = {"loss": loss / steps, **{key: sums.pop(key) / steps for key in _OF_STEPS}}
        means |= self._reported({key: value / sequences for key, value in sums.items()})
        means["sequences_per_s"] = sequences / row.seconds
        if self._world.leads:
            self._activity.metrics(self.step, **{f"{self.name}.{key}": value for key, value in means.items()})

    def _factor(self, step: int) -> float:
        if step < self._warmup_steps:
            return (step + 1) / self._warmup_steps
        return max(0.0, (self.steps - step) / max(1, self.steps - self._warmup_steps))

    def _save(self, measured: dict[str, float]) -> None:
        sums = self._world.sum(self._row.sums, self._device)  # all processes resume with their mean
        row = dataclasses.replace(self._row, sums={key: value / self._world.size for key, value in sums.items()})
        if self._world.leads:
            self._write(measured, row)
        self._world.wait()
        self._saved_at = time.monotonic()

    def _write(self, measured: dict[str, float], row: _Row) -> None:
        final = self._folder / f"checkpoint-{self.step}"
        if final.exists():
            return
        tensors = {f"parameter.{name}": parameter.detach().contiguous() for name, parameter in self._named.items()}
        for name, parameter in self._named.items():
            for key, value in self._optimiser.state[parameter].items():
                tensors[f"{key}.{name}"] = value.detach().contiguous().reshape(value.shape)
        state = {
            "step": self.step,
            "steps": self.steps,
            "identity": self._identity.hash,
            "parts": dict(self._identity.parts),
            "measured": measured,
            "row": dataclasses.asdict(row),
            "saved_at": time.time(),
            "pauses": self._pauses,
        }
        with new_folder(final) as temporary:
            save_tensors(temporary / _TENSORS, tensors)
            write_json(temporary / "state.json", {**state, "sha256": sha256_of_file(temporary / _TENSORS)})
        for folder in self._folder.glob("checkpoint-*"):
            if folder != final:
                remove_folder(folder)

    def saved_step(self) -> int | None:
        """The step of the last checkpoint, if there is one."""
        return max((int(path.name.rpartition("-")[2]) for path in self._folder.glob("checkpoint-*")), default=None)

    def resume(self) -> dict[str, float]:
        """Load the last checkpoint, if there is one; returns what was measured there.

        With `step` equal to `steps` afterwards there is nothing left to do.
        """
        saved = self.saved_step()
        if not self._world.agrees(-1 if saved is None else saved, self._device):
            raise RealmError(
                f"{self._folder} does not hold the same checkpoint for all processes of the training: the run folder "
                "must be on storage that all of its machines share."
            )
        if saved is None:
            return {}
        folder = self._folder / f"checkpoint-{saved}"
        state = read_json(folder / "state.json")
        if state.get("identity") != self._identity.hash:
            differing = differences(state.get("parts", self._identity.parts), self._identity.parts)
            raise RealmError(
                f"{folder} belongs to other rows or settings than this run's"
                f"{f' (it differs in {differing})' if differing else ''}; choose another run folder."
            )
        if state["steps"] != self.steps:
            self._activity.say(f"{self.name}: the number of steps is now {self.steps:,}; it was {state['steps']:,}.")
        tensors = load_tensors(folder / _TENSORS)
        if state.get("step") != saved or sha256_of_file(folder / _TENSORS) != state.get("sha256"):
            raise RealmError(f"{folder} is damaged: {_TENSORS} or state.json is not what was written there.")
        try:
            with torch.no_grad():
                for name, parameter in self._named.items():
                    parameter.copy_(tensors[f"parameter.{name}"])
                    self._optimiser.state[parameter] = {
                        key: tensors[f"{key}.{name}"].to(parameter.device)  # fused AdamW requires "step" there, too
                        for key in ("step", "exp_avg", "exp_avg_sq")
                        if f"{key}.{name}" in tensors
                    }
        except (KeyError, RuntimeError) as error:
            raise RealmError(f"{folder} belongs to another model: {error}.") from None
        self.step = state["step"]
        self._row = _Row(**state.get("row", {}))
        if "saved_at" in state:
            self._pauses = [*map(tuple, state["pauses"]), (state["saved_at"], time.time())]
        self._activity.say(f"{self.name}: resuming at step {self.step:,} of {self.steps:,}.")
        measured: dict[str, float] = state.get("measured", {})
        return measured


def no_dropout_in_attention(bert: nn.Module, dropout: float) -> None:
    """Set the dropout of the hidden layers; attention has none, because the fast kernels do not support it."""
    for name, module in bert.named_modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0 if name.endswith("attention.self.dropout") else dropout


def made_ready(part: Embedder | Encoder | Reader, device: torch.device, dropout: float) -> None:
    """Bring a part of a model to the device, and set up what is trained of it: all but BERT's embeddings."""
    part.to(device)
    part.bert.embeddings.requires_grad_(False)  # they stay those of the base model and need not be stored
    no_dropout_in_attention(part.bert, dropout)
