"""What ablations are tested with: the smallest settings, stages that run in this process, one on the towns."""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import nullcontext, redirect_stderr, redirect_stdout
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from realm_core.__main__ import main
from realm_core.runs import part
from realm_core.runs.activity import Activity
from realm_core.runs.folder import RunFolder
from realm_core.training import ablation
from realm_core.training.ablation_plan import StageId
from realm_core.training.loop import Loop
from tests.core.running import activity_of
from tests.core.training.material import write_lines
from tests.core.training.towns import COUNT, Towns

SETTINGS = """
[ict]
steps = 2
batch = 8
[mlm]
steps = 2
batch = 8
[pretrain]
steps = 3
batch = 4
k = 3
refresh = "in-loop"
refresh_every = 1
[finetune]
epochs = 1
batch = 8
[evaluate]
k = 3
"""
STALE = 2  # instead of 30, which would take as many steps


class Inline:
    """Stands in for `start_in`: a stage runs to its end in this process. Starting Python takes seconds."""

    started: list[str]
    stop_at: str | None  # the stage that is stopped while it works
    kill_at: str | None  # the one that dies before it does anything

    def __init__(self, run: RunFolder, command: list[str]) -> None:
        assert command[:3] == [sys.executable, "-m", "realm_core"] and f"--run={run.path}" in command
        name = run.path.name
        Inline.started.append(name)
        if name == Inline.kill_at:
            self._status = -signal.SIGKILL
            return
        with (
            open(run.log_file, "a", encoding="utf-8") as log,
            redirect_stdout(log),
            redirect_stderr(log),
            pytest.MonkeyPatch.context() as patch,
        ):
            patch.setattr(os, "getppid", os.getpid)  # a stage is told that this process is its parent
            if name == Inline.stop_at:
                patch.setattr(Loop, "_gradients", _asked_to_stop_meanwhile)
            self._status = main(command[3:])

    def poll(self) -> int:
        return self._status

    @staticmethod
    def use(patch: pytest.MonkeyPatch) -> None:
        """Let stages run so, with nothing started yet."""
        patch.setattr(part, "start_in", Inline)
        patch.setattr(part, "awaited", nullcontext)
        patch.setattr(ablation, "STALE", STALE)
        patch.setattr(Activity, "stop_on_signals", lambda self: None)  # the signals of this process are pytest's
        Inline.started, Inline.stop_at, Inline.kill_at = [], None, None


GRADIENTS = Loop._gradients


def _asked_to_stop_meanwhile(loop: Loop, losses: Any) -> dict[str, float]:
    """As if a signal came in the midst of a step."""
    loop._activity._stop_requested = True
    return GRADIENTS(loop, losses)


class Case:
    """An ablation on the towns."""

    def __init__(self, towns: Towns, root: Path, settings: str = SETTINGS) -> None:
        self.towns, self.root, self.output = towns, root, root / "out"
        root.mkdir(exist_ok=True)
        self.train = self.questions("train", range(30))
        self.dev = [self.questions("plain", range(30, COUNT))]
        self.config = root / "settings.toml"
        self.config.write_text(settings)

    def questions(self, name: str, towns: range) -> Path:
        rows = [{"question": f"When did Town {i} burn?", "answers": [str(1000 + 7 * i)]} for i in towns]
        return write_lines(self.root / f"{name}.jsonl", rows)

    def arguments(self, *rows: str) -> list[str]:
        made = ["--model", self.towns.model, "--corpus", self.towns.corpus, "--spans", self.towns.spans]
        asked = ["--questions", self.train, "--dev", *self.dev, "--config", self.config, "--output", self.output]
        return [str(word) for word in [*made, *asked, "--device", "cpu", "--builder-device", "cpu", "--rows", *rows]]

    def run(self, *rows: str) -> None:
        activity_of("ablate", self.arguments(*rows), run=self.root / "run")

    def results(self) -> Any:
        return json.loads((self.output / "results.json").read_text())

    def measured(self) -> tuple[list[Any], list[Any]]:
        """(what was passed on, what the stages measured), each as stage, step and time."""
        paths = [self.root / "run" / "metrics.jsonl", *sorted(self.output.glob("runs/*/metrics.jsonl"))]
        passed, *own = ([json.loads(line) for line in path.read_text().splitlines()] for path in paths)
        stages = [path.parent.name for path in paths[1:] for _ in path.read_text().splitlines()]
        names = [str(StageId(row["stage"], row.get("row", ""), row.get("questions", ""))) for row in passed]
        return (
            sorted((name, row["step"], row["time"]) for name, row in zip(names, passed, strict=True)),
            sorted((name, row["step"], row["time"]) for name, row in zip(stages, chain(*own), strict=True)),
        )

    def came_to(self) -> Any:
        """The results, but for the time that they took."""
        results = self.results()
        stages = {stage["name"]: (stage["made"], stage["held_out"]) for stage in results["stages"]}
        return results["of"], results["rows"], stages
