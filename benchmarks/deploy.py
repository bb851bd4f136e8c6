"""Deploy and roll back while people ask: does a question fail, and does one wait because of it?

python -m benchmarks.deploy [--processes N] [--askers N] [--changes N] [--seconds S]

A real web server over a database of its own, asked over HTTP by several threads without a pause. It answers first from
one generation of the index and then, by turns, from a copy under another name and from the first. Each change has a
line: how long until the first answer of the new pair and until the last of the earlier one, how long the slowest
question took that was under way meanwhile, and the server's memory. Above them stands what questions usually take.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.inputs import TOP, Inputs, prepare
from benchmarks.load import Askers, asker, change_over, operate, percentile
from benchmarks.web import memory, server
from realm_core.errors import RealmError
from realm_core.files import read_json, write_json

_QUESTIONS = 150


def main() -> int:
    """Measure and print; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.deploy", description=__doc__)
    parser.add_argument("--model", type=Path, help="model folder (default: models/realm-mini)")
    parser.add_argument("--corpus", type=Path, help="snapshot folder (default: the default corpus)")
    parser.add_argument("--index", type=Path, help="generation folder (default: made if missing)")
    parser.add_argument("--processes", type=int, default=1, help="web processes (default: 1, as `make run`)")
    parser.add_argument("--askers", type=int, default=4, help="threads that ask without a pause (default: 4)")
    parser.add_argument("--changes", type=int, default=6, help="deployments, every other one a way back (default: 6)")
    parser.add_argument("--seconds", type=float, default=30.0, help="how long the usual is measured (default: 30)")
    arguments = parser.parse_args()
    try:
        _measure(prepare(arguments.model, arguments.corpus, arguments.index), arguments)
    except RealmError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _measure(inputs: Inputs, arguments: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as data:
        other = _copy(inputs.index, Path(data))
        environment = {
            **os.environ,
            "REALM_DATA": data,
            "DATABASE_URL": f"sqlite:///{data}/db.sqlite3",
            "CACHE_URL": "locmem://",
            "ASK_RATE": "0",
            "DJANGO_SUPERUSER_PASSWORD": "benchmark",
        }
        _run(environment, "manage.py", "migrate", "--no-input", "--verbosity=0")
        for index in (other, inputs.index):
            _run(environment, "-m", "benchmarks.record", str(inputs.model), str(inputs.corpus), str(index))
        _run(environment, "manage.py", "createsuperuser", "--no-input", "--username=operator", "--email=o@example.org")
        token = _run(environment, "manage.py", "create_token", "operator", "--scope=operate").strip()
        with server(environment, Path(data) / "web.log", processes=arguments.processes) as (process, port):
            _report(inputs, arguments, port, token, process.pid)


def _report(inputs: Inputs, arguments: argparse.Namespace, port: int, token: str, master: int) -> None:
    with Askers(asker(port, "index"), inputs.first_questions(_QUESTIONS), arguments.askers) as askers:
        time.sleep(5)  # what is made on first use
        began = time.perf_counter()
        time.sleep(arguments.seconds)
        usual = [one.took_ms for one in askers.since(began)]
        print(
            f"usual: {len(usual) / arguments.seconds:.1f} questions/s, median {statistics.median(usual):.0f} ms, p99 "
            f"{percentile(usual, 0.99):.0f} ms, slowest {max(usual):.0f} ms; {memory(master)}",
            flush=True,
        )
        names = (f"other-{inputs.index.name}", inputs.index.name)
        for number in range(arguments.changes):
            # The other one has been deployed first, so it is deployment 1; each way back names the pair, not the row.
            back = number % 2 == 1
            change = change_over(
                askers,
                lambda back=back: operate(port, token, f"deployments/{2 if back else 1}/activate", {}),
                names[back],
                settle_s=2.0,
            )
            print(
                f"{'back' if back else 'there'}: first answer after {change.until_new_s:.1f} s, all after "
                f"{change.until_all_s:.1f} s; {change.questions} questions meanwhile, {change.failed} failed, median "
                f"{change.median_ms:.0f} ms, slowest {change.slowest_ms:.0f} ms; {memory(master)}",
                flush=True,
            )


def _copy(index: Path, folder: Path) -> Path:
    """The same generation under another name."""
    copy = folder / f"other-{index.name}"
    shutil.copytree(index, copy)
    write_json(copy / "manifest.json", read_json(copy / "manifest.json") | {"generation": copy.name})
    return copy


def _run(environment: dict[str, str], *command: str) -> str:
    """What a command printed."""
    done = subprocess.run(
        [sys.executable, *command], cwd=TOP, env=environment, stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode != 0:
        raise RealmError(f"{' '.join(command[:2])} did not succeed; the reason stands above.")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
