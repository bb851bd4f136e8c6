"""Deploy and roll back while people ask: does a question fail, and does one wait because of it?

python -m benchmarks.deploy [--processes N] [--askers N] [--changes N] [--seconds S]

A real web server over a database of its own, asked over HTTP by several threads without a pause. It answers first from
one generation of the index and then, by turns, from a copy under another name and from the first. Each change has a
line: how long until the first answer of the new pair and until the last of the earlier one, how long the slowest
question took that was asked meanwhile, and the server's memory. Before each change there is a rest; all rests together
say what questions usually take, and so how many of those asked meanwhile took longer than the usual 99th percentile.
All of it is written, too.
"""

from __future__ import annotations

import argparse
import datetime
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.inputs import TOP, Inputs, prepare
from benchmarks.load import Askers, Change, asker, change_over, operate, percentile
from benchmarks.machine import describe
from benchmarks.web import memory, server
from realm_core.errors import RealmError
from realm_core.files import read_json, write_json

RESULTS = Path(__file__).resolve().parent / "results" / "deploy.json"

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
    parser.add_argument("--seconds", type=float, default=30.0, help="of rest before each change (default: 30)")
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
            "ASK_CACHE_S": "0",
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
        names = (f"other-{inputs.index.name}", inputs.index.name)
        usual: list[float] = []
        changes: list[Change] = []
        for number in range(arguments.changes):
            usual += _rest(askers, arguments.seconds, master)
            changes.append(_change(askers, number, names[number % 2], port, token, master))
    p99 = percentile(usual, 0.99)
    meanwhile = [took for change in changes for took in change.took_ms]
    longer = sum(took > p99 for took in meanwhile)
    for name, took_ms in (("usually", usual), ("meanwhile", meanwhile)):
        print(
            f"{name}: {len(took_ms)} questions, median {statistics.median(took_ms):.0f} ms, p99 "
            f"{percentile(took_ms, 0.99):.0f} ms, slowest {max(took_ms):.0f} ms"
        )
    print(f"{longer} of the latter took longer than the usual p99; {len(meanwhile) / 100:.0f} would have anyway.")
    write_json(
        RESULTS,
        {
            "machine": describe(),
            "at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "web_processes": arguments.processes,
            "askers": arguments.askers,
            "usual": {
                "questions": len(usual),
                "median_ms": statistics.median(usual),
                "p99_ms": p99,
                "slowest_ms": max(usual),
            },
            "meanwhile": {
                "questions": len(meanwhile),
                "failed": sum(change.failed for change in changes),
                "median_ms": statistics.median(meanwhile),
                "p99_ms": percentile(meanwhile, 0.99),
                "slowest_ms": max(meanwhile),
                "longer_than_usual_p99": longer,
            },
            "changes": [
                {"first_answer_s": change.until_new_s, "all_s": change.until_all_s, "slowest_ms": change.slowest_ms}
                for change in changes
            ],
        },
    )
    print(f"Written to {RESULTS}.")


def _rest(askers: Askers, seconds: float, master: int) -> list[float]:
    """Milliseconds of the questions that began while nothing changed."""
    began = time.perf_counter()
    time.sleep(seconds)
    took = [one.took_ms for one in askers.since(began) if one.at >= began]
    print(
        f"rest: {len(took) / seconds:.1f} questions/s, median {statistics.median(took):.0f} ms, slowest "
        f"{max(took):.0f} ms; {memory(master)}",
        flush=True,
    )
    return took


def _change(askers: Askers, number: int, name: str, port: int, token: str, master: int) -> Change:
    """Deploy the generation of that name. The other one was deployed first, so it is deployment 1."""
    change = change_over(
        askers,
        lambda: operate(port, token, f"deployments/{number % 2 + 1}/activate", {}),
        name,
        settle_s=2.0,
    )
    print(
        f"{'back' if number % 2 else 'there'}: first answer after {change.until_new_s:.1f} s, all after "
        f"{change.until_all_s:.1f} s; {change.questions} questions meanwhile, {change.failed} failed, median "
        f"{change.median_ms:.0f} ms, slowest {change.slowest_ms:.0f} ms; {memory(master)}",
        flush=True,
    )
    return change


def _copy(index: Path, folder: Path) -> Path:
    """The same generation under another name."""
    copy = folder / f"other-{index.name}"
    shutil.copytree(index, copy)
    write_json(copy / "manifest.json", read_json(copy / "manifest.json") | {"generation": copy.name}, sealed=True)
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
