"""Run an activity of realm_core in a process of its own and wait for it: `python -m realm_core …`."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from django.conf import settings

from realm_core.errors import RealmError, Stopped
from realm_core.files import read_json

_STOPPED_STATUS = 3


def run_activity(name: str, *arguments: str | Path) -> dict[str, Any]:
    """Run the activity `name`, with its progress on this terminal; returns its result.

    RealmError if it fails (the reason is on the standard error), Stopped if it was stopped.
    """
    runs = Path(settings.REALM_DATA) / "runs"
    runs.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{name}-", dir=runs) as run:
        command = [sys.executable, "-m", "realm_core", name, *map(str, arguments), "--run", run]
        status = subprocess.run(command, cwd=settings.BASE_DIR, check=False).returncode
        if status == _STOPPED_STATUS:
            raise Stopped
        if status != 0:
            raise RealmError(f"“realm_core {name}” failed; its messages are above.")
        result: dict[str, Any] = read_json(Path(run) / "result.json")
        return result
