"""`make test`: every test, on SQLite, on PostgreSQL, or where the database decides on both.

python -m tests.run [arguments for pytest]

Tests marked `nightly`, which take minutes, are among them with NIGHTLY=1 in the environment.

Four streams at once, about as long as one another: the tests that touch the database, on either database
(tests/conftest.py says which run where); those of the library; and the others, with the attacks, on PostgreSQL as well.
The first writes to the terminal as it goes, the others' output follows when they are done. Each computes with one
thread, because the streams share the processors and threads that wait for one another take several times as long then.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import IO

from tests.postgres import postgres

_NO_TESTS = 5  # pytest's exit status
_SLOWEST = 15  # tests of each stream whose seconds are told


class Stream:
    """One pytest process; output: where it writes, the terminal if nothing is given."""

    def __init__(self, title: str, which: str, arguments: list[str], url: str = "", output: IO[bytes] | None = None):
        environment = {"OMP_NUM_THREADS": "1", **os.environ, "TEST_DATABASE_URL": url}
        which = which if os.environ.get("NIGHTLY") == "1" else f"({which}) and not nightly"
        command = [sys.executable, "-m", "pytest", "-m", which, f"--durations={_SLOWEST}", *arguments]
        self.title, self._output = title, output
        self._process = subprocess.Popen(command, env=environment, stdout=output, stderr=output and subprocess.STDOUT)

    def finish(self) -> int:
        """Wait, show what was kept back, and return the exit status."""
        status = self._process.wait()
        if self._output is not None:
            print(f"\n== {self.title} ==", flush=True)
            self._output.seek(0)
            sys.stdout.buffer.write(self._output.read())
            sys.stdout.flush()
        return status

    def end(self) -> None:
        """Stop it, if it still runs."""
        self._process.terminate()
        self._process.wait()


def main() -> int:
    arguments = sys.argv[1:]
    # To look through all tests takes seconds: those that a stream certainly leaves out are not even read.
    no_library = [*arguments, "--ignore=tests/core"]
    library = [*arguments, *(f"--ignore={folder}" for folder in Path("tests").iterdir() if folder.name != "core")]
    with ExitStack() as stack:
        url = stack.enter_context(postgres())
        another_url = url.removesuffix("postgres") + "others"  # another database of the same server
        kept = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(3)]
        print("== the tests that touch the database, on SQLite ==", flush=True)
        streams = [
            Stream("on SQLite", "database and not (postgresql_only or once)", no_library),
            Stream("on PostgreSQL", "database and not (sqlite_only or once)", no_library, url, kept[0]),
            Stream("the library's tests", "library", library, "", kept[1]),
            Stream("the others", "once or not (library or database)", arguments, another_url, kept[2]),
        ]
        for stream in streams:
            stack.callback(stream.end)
        statuses = [stream.finish() for stream in streams]
    failed = [status for status in statuses if status not in (0, _NO_TESTS)]
    return failed[0] if failed else min(statuses)


if __name__ == "__main__":
    sys.exit(main())
