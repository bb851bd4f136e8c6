"""`make test`: every test once on SQLite, and those that depend on the database on PostgreSQL, too.

python -m tests.run [arguments for pytest]

Tests marked `nightly`, which take minutes, are among them with NIGHTLY=1 in the environment. Whatever is marked
`both_databases`, `postgresql_first` or `postgresql_only` runs in the one stream that has a PostgreSQL server, and
`postgresql_first` on SQLite at night alone. The other files are divided
over three streams by the seconds that each took when `MEASURE=1 make test` last ran (tests/seconds.json), the longest
first, so that all streams end at about the same time; files that share a server or a browser stay together. The third
begins when PostgreSQL's ends: three processes keep two processors busy, and a fourth makes all of them dearer. The
first stream writes to the terminal as it goes, the output of the others follows when they are done. Each computes with
one thread, because the streams share the processors. They also share a migrated database, which each copies, and the
bytecode of all modules. Temporary files are in memory where there is room: the suite makes and removes some hundred
thousand of them, for which a disk may take a third of its time.
"""

from __future__ import annotations

import heapq
import json
import os
import re
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

from tests import forked
from tests.migrated import VARIABLE, migrate
from tests.nightly import NIGHTLY
from tests.postgres import postgres

_NO_TESTS = 5  # pytest's exit status
_SLOWEST = 15  # tests of each stream whose seconds are told
_STREAMS = 3
_POSTGRESQL = "PostgreSQL"  # among the seconds: how long its stream took
_SECONDS = Path(__file__).with_name("seconds.json")
_NEW_FILE_S = 2.0  # of a file that has not been measured yet
_TOGETHER = ("tests/browser/", "tests/clients/", "tests/attacks/")  # one browser or one server for each
_IN_MEMORY = Path("/dev/shm")
_LEAST_ROOM = 4 << 30  # bytes; the suite takes 1.1 GiB at most
_ON_SQLITE = "not postgresql_only" if NIGHTLY else "not (postgresql_only or (postgresql_first and database))"
_ON_POSTGRESQL = "postgresql_only or ((both_databases or postgresql_first) and database)"


class Stream:
    """One pytest process.

    which: the tests, as pytest's `-m` has it. arguments: more for pytest, files among them.
    url: the database's; SQLite if empty. output: where it writes; the terminal if nothing is given.
    seconds: where it leaves how long each file took.
    """

    def __init__(
        self,
        title: str,
        which: str,
        arguments: list[str],
        *,
        url: str = "",
        output: IO[bytes] | None = None,
        seconds: Path | None = None,
    ):
        environment = {"OMP_NUM_THREADS": "1", **os.environ, "TEST_DATABASE_URL": url}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # each process would compile everything anew
        if seconds is not None:
            environment["TEST_SECONDS"] = str(seconds)
        which = which if NIGHTLY else f"({which}) and not nightly"
        command = [sys.executable, "-m", "pytest", "-m", which, f"--durations={_SLOWEST}", *arguments]
        self.title, self._output = title, output
        self._process = forked.start(command, environment=environment, output=output or sys.stdout.buffer)

    def wait(self) -> None:
        """Until it has ended."""
        self._process.wait()

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


def divide(files: Iterable[str], seconds: dict[str, float], count: int) -> list[list[str]]:
    """`files` in `count` shares that end at about the same time: the longest first, to the shortest share.

    The last begins when PostgreSQL's stream ends. Those of one of the folders `_TOGETHER` are in one share.
    """
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for file in files:
        groups[next((folder for folder in _TOGETHER if file.startswith(folder)), file)].append(file)
    lengths_s = {name: sum(seconds.get(file, _NEW_FILE_S) for file in group) for name, group in groups.items()}
    shares: list[tuple[float, int, list[str]]] = [(0.0, number, []) for number in range(count - 1)]
    shares.append((seconds.get(_POSTGRESQL, 0.0), count - 1, []))
    heapq.heapify(shares)
    for name in sorted(groups, key=lambda name: (-lengths_s[name], name)):
        taken_s, number, share = heapq.heappop(shares)
        share += groups[name]
        heapq.heappush(shares, (taken_s + lengths_s[name], number, share))
    return [sorted(share) for *_, share in sorted(shares, key=lambda share: share[1])]


def needs_postgresql(path: Path) -> bool:
    """Whether a file has tests for PostgreSQL; the others need not be read by its stream."""
    text = path.read_text()
    return re.search(r"mark\.(both_databases|postgresql_first|postgresql_only)", text) is not None


def needs_sqlite(path: Path) -> bool:
    """Whether a file has tests for SQLite: all but those whose tests are all for PostgreSQL alone."""
    return re.search(r"^pytestmark = .*mark\.postgresql_only", path.read_text(), re.MULTILINE) is None


def room_in_memory(folder: Path = _IN_MEMORY) -> Path | None:
    """`folder`, for temporary files, if programs in it can be run and it has room; otherwise None, and /tmp serves."""
    if "TMPDIR" in os.environ or not os.access(folder, os.W_OK):
        return None
    fits = shutil.disk_usage(folder).free >= _LEAST_ROOM
    return folder if fits and not os.statvfs(folder).f_flag & os.ST_NOEXEC else None


def main() -> int:
    arguments = sys.argv[1:]
    files = sorted(Path("tests").rglob("test_*.py"))
    chosen = any(Path(argument.partition("::")[0]).exists() for argument in arguments)
    if chosen:
        shares, on_postgresql = [arguments], arguments
    else:
        seconds = json.loads(_SECONDS.read_text())
        shares = [[*arguments, *share] for share in divide(map(str, filter(needs_sqlite, files)), seconds, _STREAMS)]
        on_postgresql = [*arguments, *(str(path) for path in files if needs_postgresql(path))]
    with ExitStack() as stack:
        temporary = stack.enter_context(tempfile.TemporaryDirectory(prefix="realm-tests-", dir=room_in_memory()))
        Path(temporary).chmod(0o711)  # PostgreSQL does not run as root, but as a user who must come through here
        os.environ["TMPDIR"] = tempfile.tempdir = temporary
        measured = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="realm-seconds-")))
        made = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="realm-migrated-"))) / "db.sqlite3"
        migrate(made)
        os.environ[VARIABLE] = str(made)
        url = stack.enter_context(postgres())

        def started(title: str, which: str, arguments: list[str], **more: Any) -> Stream:
            stream = Stream(title, which, arguments, **more)
            stack.callback(stream.end)
            return stream

        def kept() -> IO[bytes]:
            return stack.enter_context(tempfile.TemporaryFile())

        streams: list[Stream] = []
        print(f"== SQLite, 1 of {len(shares)} ==", flush=True)
        for number, share in enumerate(shares, 1):
            if number == len(shares):
                began = time.monotonic()
                postgresql = started(_POSTGRESQL, _ON_POSTGRESQL, on_postgresql, url=url, output=kept())
                if number > 1:
                    postgresql.wait()
                postgresql_s = time.monotonic() - began
            title, path = f"SQLite, {number} of {len(shares)}", measured / f"{number}.json"
            streams.append(started(title, _ON_SQLITE, share, output=kept() if streams else None, seconds=path))
        statuses = [stream.finish() for stream in [*streams, postgresql]]
        if os.environ.get("MEASURE") == "1" and not chosen:
            taken = {file: s for path in measured.iterdir() for file, s in json.loads(path.read_text()).items()}
            taken[_POSTGRESQL] = round(postgresql_s, 1)
            _SECONDS.write_text(json.dumps(dict(sorted(taken.items())), indent=1) + "\n")
    failed = [status for status in statuses if status not in (0, _NO_TESTS)]
    return failed[0] if failed else min(statuses)


if __name__ == "__main__":
    sys.exit(main())
