"""Running an activity in this process, as the command line does but for the signals."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Sequence
from pathlib import Path

from realm_core.__main__ import ACTIVITIES
from realm_core.runs.activity import Activity


def activity_of(name: str, arguments: Sequence[object], *, run: Path | None = None) -> None:
    """Run activity `name` with these arguments (as texts) and a quiet `Activity`."""
    module = importlib.import_module(ACTIVITIES[name][0])
    parser = argparse.ArgumentParser()
    module.add_arguments(parser)
    module.main(parser.parse_args([str(argument) for argument in arguments]), Activity(run, quiet=True))
