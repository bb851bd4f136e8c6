"""Running a task in this process, as the command line does but for the signals."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from realm_core.__main__ import run as run_task
from realm_core.command_line import add_options, task_of
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
