"""`make test`: every test on SQLite, then those that touch the database once more on PostgreSQL.

python -m tests.run [arguments for pytest]
"""

from __future__ import annotations

import os
import subprocess
import sys

from tests.postgres import postgres


def main() -> int:
    arguments = sys.argv[1:]
    surroundings = {name: value for name, value in os.environ.items() if name != "TEST_DATABASE_URL"}
    print("== all tests, on SQLite ==", flush=True)
    sqlite = _pytest(arguments, surroundings)
    if sqlite == 2:  # interrupted
        return sqlite
    print("\n== the tests that touch the database, on PostgreSQL ==", flush=True)
    with postgres() as url:
        postgresql = _pytest(["-m", "database", *arguments], {**surroundings, "TEST_DATABASE_URL": url})
    return sqlite or postgresql


def _pytest(arguments: list[str], environment: dict[str, str]) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
