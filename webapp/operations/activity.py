"""Run an activity of realm_core in a process of its own and wait for it: `python -m realm_core …`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from django.conf import settings

from realm_core.errors import EXIT_STOPPED, RealmError, Stopped
from realm_core.runs.folder import RunFolder
from realm_core.runs.processes import awaited, start
from webapp.storage.places import runs_dir


def run_activity(name: str, *arguments: str | Path) -> dict[str, Any]:
    """Run the activity `name`, with its progress on this terminal; returns its result.

    It ends with this process. RealmError if it fails (the reason is on the standard error), Stopped if it was stopped.
    """
    runs = runs_dir()
    runs.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{name}-", dir=runs) as folder:
        run = RunFolder(Path(folder))
        command = [sys.executable, "-m", "realm_core", name, *map(str, arguments), "--run", folder]
        # Ctrl-C leaves the block; a process in its own session hears nothing of it.
        with awaited(start(command, folder=settings.BASE_DIR)) as process:
            status = process.wait()
        if status == EXIT_STOPPED:
            raise Stopped
        result = run.result()
        if status != 0 or result is None:
            raise RealmError(f"“realm_core {name}” failed; its messages are above.")
        return result
