"""A migrated SQLite database: tests/run.py makes one, and what needs one copies it; to migrate takes seconds.

And the test's own database as an earlier version had it.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.db import connection

from tests import forked

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
    environment["DJANGO_SETTINGS_MODULE"] = "webapp.settings"
    forked.run([sys.executable, "-m", "django", "migrate", "--no-input", "--verbosity=0"], environment)


@contextmanager
def migrated_back(to: str) -> Iterator[Any]:
    """The test's database with the tables of an earlier version; gives the state of the models there.

    Nothing is announced: permissions of the newest models stay as they are.
    """
    from django.db.migrations.executor import MigrationExecutor  # needs the settings

    newest = MigrationExecutor(connection).loader.graph.leaf_nodes()
    try:
        state = MigrationExecutor(connection).migrate([("webapp", to)])
        state.clear_delayed_apps_cache()
        yield state
    finally:
        MigrationExecutor(connection).migrate(newest)
