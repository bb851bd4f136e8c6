"""A migrated SQLite database: tests/run.py makes one, and what needs one copies it; to migrate takes seconds."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
VARIABLE = "TEST_MIGRATED"  # names the file that tests/run.py has made
IS_MADE = VARIABLE in os.environ


def migrated(path: Path) -> str:
    """Put a database with all tables and without rows at `path`; returns its DATABASE_URL."""
    if IS_MADE:
        shutil.copyfile(os.environ[VARIABLE], path)
    else:
        migrate(path)
    return f"sqlite:///{path}"


def migrate(path: Path) -> None:
    """Make a database at `path`, by a process of its own: this one's settings may name another."""
    environment = {**os.environ, "DATABASE_URL": f"sqlite:///{path}", "REALM_DATA": str(path.parent)}
    command = [sys.executable, "manage.py", "migrate", "--no-input", "--verbosity=0"]
    subprocess.run(command, cwd=TOP, env=environment, check=True)
