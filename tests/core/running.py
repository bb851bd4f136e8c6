"""Running a task in this process, as the command line does but for the signals; and what a run tells."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from realm_core.__main__ import run as run_task
from realm_core.command_line import add_options, task_of
from realm_core.errors import Stopped
from realm_core.runs.activity import Activity
from realm_core.task import Task
from realm_core.tasks import ACTIVITIES


def told(name: str, arguments: Sequence[object]) -> Task:
    """The task that these arguments (as texts) ask for."""
    parser = argparse.ArgumentParser()
    add_options(parser, ACTIVITIES[name])
    return task_of(ACTIVITIES[name], parser.parse_args([str(argument) for argument in arguments]))


def activity_of(name: str, arguments: Sequence[object], *, run: Path | None = None) -> None:
    """Run activity `name` with these arguments (as texts) and a quiet `Activity`."""
    run_task(told(name, arguments), Activity(run, quiet=True))


class Stopping(Activity):
    """Is asked to stop after so many looks."""

    def __init__(self, looks: int) -> None:
        super().__init__(quiet=True)
        self._left = looks

    def check(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise Stopped


class Listening(Activity):
    """Keeps what is said, and of that what is warned of."""

    def __init__(self, run: Path | None = None) -> None:
        super().__init__(run, quiet=True)
        self.said: list[str] = []
        self.warned: list[str] = []

    def say(self, message: str) -> None:
        self.said.append(message)

    def warn(self, message: str) -> None:
        self.said.append(message)
        self.warned.append(message)


def rows(run: Path) -> list[dict[str, Any]]:
    """The rows of metrics of a run."""
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def metrics(run: Path, name: str) -> dict[int, float]:
    """A metric by step, as it was last reported."""
    return {row["step"]: row[name] for row in rows(run) if name in row}
