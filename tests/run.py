"""`make test`: every test on SQLite, and those that touch the database once more on PostgreSQL.

python -m tests.run [arguments for pytest]

Two streams, for two cores: the tests that touch the database, on one database after the other, and meanwhile those that
do not, whose output is shown when the others are done.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

from tests.postgres import postgres

_INTERRUPTED, _NO_TESTS = 2, 5  # pytest's exit statuses


def main() -> int:
    arguments = sys.argv[1:]
    surroundings = {name: value for name, value in os.environ.items() if name != "TEST_DATABASE_URL"}
    with tempfile.TemporaryFile() as output:
        library = subprocess.Popen(
            _pytest("not database", arguments), env=surroundings, stdout=output, stderr=subprocess.STDOUT
        )
        try:
            statuses = _on_both_databases(arguments, surroundings)
            print("\n== the tests that do not touch the database ==", flush=True)
            statuses.append(library.wait())
        finally:
            library.terminate()
            library.wait()
            output.seek(0)
            sys.stdout.buffer.write(output.read())
            sys.stdout.flush()
    failed = [status for status in statuses if status not in (0, _NO_TESTS)]
    return failed[0] if failed else min(statuses)


def _on_both_databases(arguments: list[str], surroundings: dict[str, str]) -> list[int]:
    command = _pytest("database", arguments)
    print("== the tests that touch the database, on SQLite ==", flush=True)
    sqlite = subprocess.run(command, env=surroundings, check=False).returncode
    if sqlite == _INTERRUPTED:
        return [sqlite]
    print("\n== the same, on PostgreSQL ==", flush=True)
    with postgres() as url:
        environment = {**surroundings, "TEST_DATABASE_URL": url}
        return [sqlite, subprocess.run(command, env=environment, check=False).returncode]


def _pytest(which: str, arguments: list[str]) -> list[str]:
    return [sys.executable, "-m", "pytest", "-m", which, *arguments]


if __name__ == "__main__":
    sys.exit(main())
