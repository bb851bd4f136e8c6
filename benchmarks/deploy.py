"""Deploy and roll back while people ask: does a question fail, and does one wait because of it?

python -m benchmarks.deploy [--processes N] [--askers N] [--thinks S] [--rounds N] [--changes N] [--seconds S]
                            [--postgresql] [--output FILE]

A real web server over a database of its own, asked over HTTP by several threads, without a pause or as people do who
think before they ask. It answers first from the model that is given and then, by turns, from another and from the
first: the other was fine-tuned for two steps, so query embedder and reader have weights of their own, and its index is
a copy under another name. Each round has a new web server, and each change a line: how long until the first answer of
the new pair and until the last of the earlier one, how long the slowest question took that was under way meanwhile, and
the server's memory. Before each change there is a rest. Windows of the rests, as long as the longest change of their
round, say what questions usually take, and so how many took longer than the usual 99th percentile in the windows that
begin with a change. All of it is written, too.

That share would be 1 % without any deployment. Its interval of 95 % takes windows for independent, not questions: what
makes one of them wait makes its neighbours wait, too. How often windows taken at random show that share or more, and
what the rounds show apart from one another, stands beside it.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.askers import Asked, Askers, Change, asker, change_over, operate, percentile
from benchmarks.inputs import TOP, Inputs, add_folders, prepare, run_activity, with_status
from benchmarks.machine import describe, now
from benchmarks.rounds import summary
from benchmarks.web import database, memory, operator_token, server
from benchmarks.windows import Window, Windows, longer, share_longer
from realm_core.files import read_json, write_json
from tests.postgres import postgres

RESULTS = Path(__file__).resolve().parent / "results" / "deploy.json"

_QUESTIONS = 150
_LEARNT = TOP / "models" / "questions" / "plain-train.jsonl"
_LEARNT_QUESTIONS = 32  # two steps


@dataclass(frozen=True)
class Round:
    """What one web server showed."""

    changes: list[Change]
    windows: Windows


@with_status
def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.deploy", description=__doc__)
    add_folders(parser)
    parser.add_argument("--other", type=Path, help="of the same index (default: the model, fine-tuned for two steps)")
    parser.add_argument("--processes", type=int, default=1, help="web processes (default: 1, as `make run`)")
    parser.add_argument("--postgresql", action="store_true", help="on a PostgreSQL of its own instead of SQLite")
    parser.add_argument("--askers", type=int, default=4, help="threads that ask (default: 4)")
    parser.add_argument("--thinks", type=float, default=0.0, help="mean seconds before each asks again (default: 0)")
    parser.add_argument("--rounds", type=int, default=3, help="web servers, one after the other (default: 3)")
    parser.add_argument("--changes", type=int, default=6, help="deployments of each, every other back (default: 6)")
    parser.add_argument("--seconds", type=float, default=30.0, help="of rest before each change (default: 30)")
    parser.add_argument("--output", type=Path, default=RESULTS, help=f"JSON file (default: results/{RESULTS.name})")
    arguments = parser.parse_args(argv)
    with ExitStack() as stack:
        _measure(prepare(arguments.model, arguments.corpus, arguments.index), arguments, stack)


def _measure(inputs: Inputs, arguments: argparse.Namespace, stack: ExitStack) -> None:
    data = stack.enter_context(tempfile.TemporaryDirectory())
    url = stack.enter_context(postgres()) if arguments.postgresql else ""
    model = (arguments.other or _fine_tuned(inputs, Path(data))).absolute()
    other = (model, inputs.corpus, _copy(inputs.index, Path(data)))
    environment = database(Path(data), other, inputs.folders, url=url)
    token = operator_token(environment)
    rounds: list[Round] = []
    for number in range(arguments.rounds):
        with server(environment, Path(data) / "web.log", processes=arguments.processes) as (process, port):
            rounds.append(_round(inputs, arguments, number * arguments.changes, port, token, process.pid))
    figures = _figures(rounds)
    _print(figures)
    write_json(
        arguments.output,
        {
            "machine": describe(),
            "at": now(),
            "web_processes": arguments.processes,
            "database": "PostgreSQL" if arguments.postgresql else "SQLite",
            "askers": arguments.askers,
            "thinks_s": arguments.thinks,
            **figures,
        },
    )
    print(f"Written to {arguments.output}.")


def _round(inputs: Inputs, arguments: argparse.Namespace, first: int, port: int, token: str, master: int) -> Round:
    """Rests and changes of one web server. first: number of its first change, of all rounds'."""
    questions = inputs.first_questions(_QUESTIONS)
    with Askers(asker(port), questions, arguments.askers, thinks_s=arguments.thinks) as askers:
        time.sleep(5)  # what is made on first use
        names = (f"other-{inputs.index.name}", inputs.index.name)
        rests, changes = [], []
        for number in range(first, first + arguments.changes):
            rests.append(_rest(askers, arguments.seconds, master))
            changes.append(_change(askers, number, names[number % 2], port, token, master))
        length_s = min(arguments.seconds, max(change.until_all_s for change in changes))
        time.sleep(max(0.0, changes[-1].at + length_s - time.perf_counter()))
        return Round(changes, _windows(askers, rests, changes, length_s))


def _windows(askers: Askers, rests: list[tuple[float, float]], changes: list[Change], length_s: float) -> Windows:
    """All of one length: that of a change does not end with its own last earlier answer, which likely takes long."""
    usual = [window for began, ended in rests for window in askers.windows(began, ended, length_s)]
    changed = [askers.since(change.at, change.at + length_s) for change in changes]
    return Windows([_took_ms(window) for window in usual], [_took_ms(window) for window in changed])


def _figures(rounds: list[Round]) -> dict[str, Any]:
    """What all rounds show; longer_than_usual_p99 counts within each round."""
    windows = [one.windows for one in rounds]
    return {
        "usual": _times([window for one in windows for window in one.usual]),
        "meanwhile": {
            **_times([window for one in windows for window in one.changed]),
            "failed": sum(change.failed for one in rounds for change in one.changes),
            "longer_than_usual_p99": sum(sum(one.longer) for one in windows),
            "share": share_longer(windows),
            "share_of_rounds": summary([longer([one]) for one in windows]),
        },
        "rounds": [
            {
                "usual_p99_ms": one.windows.p99_ms,
                "changes": [
                    {
                        "first_answer_s": change.until_new_s,
                        "all_s": change.until_all_s,
                        "slowest_ms": float(window.max()),
                        "questions": len(window),
                        "longer_than_usual_p99": count,
                    }
                    for change, window, count in zip(one.changes, one.windows.changed, one.windows.longer, strict=True)
                ],
            }
            for one in rounds
        ],
    }


def _took_ms(asked: list[Asked]) -> Window:
    return np.array([one.took_ms for one in asked])


def _times(windows: list[Window]) -> dict[str, float]:
    took_ms = np.concatenate(windows).tolist()
    return {
        "windows": len(windows),
        "questions": len(took_ms),
        "median_ms": statistics.median(took_ms),
        "p99_ms": percentile(took_ms, 0.99),
        "slowest_ms": max(took_ms),
    }


def _print(figures: dict[str, Any]) -> None:
    for name in ("usual", "meanwhile"):
        told = figures[name]
        print(
            f"{name}: {told['questions']} questions in {told['windows']} windows, median {told['median_ms']:.0f} ms, "
            f"p99 {told['p99_ms']:.0f} ms, slowest {told['slowest_ms']:.0f} ms"
        )
    meanwhile = figures["meanwhile"]
    whole, apart = meanwhile["share"], meanwhile["share_of_rounds"]
    print(
        f"{meanwhile['failed']} failed. {meanwhile['longer_than_usual_p99']} took longer than the usual p99 of their "
        f"round: {whole['share']:.2%} (95 %: {whole['low']:.2%} to {whole['high']:.2%}; rounds {apart['low']:.2%} to "
        f"{apart['high']:.2%}), where 1 % would have anyway; windows taken at random show that in "
        f"{whole['by_chance']:.0%} of draws."
    )


def _rest(askers: Askers, seconds: float, master: int) -> tuple[float, float]:
    """When a time in which nothing changed began and ended."""
    began = time.perf_counter()
    time.sleep(seconds)
    ended = time.perf_counter()
    took = [one.took_ms for one in askers.since(began)]
    print(
        f"rest: {len(took) / seconds:.1f} questions/s, median {statistics.median(took):.0f} ms, slowest "
        f"{max(took):.0f} ms; {memory(master)}",
        flush=True,
    )
    return began, ended


def _change(askers: Askers, number: int, name: str, port: int, token: str, master: int) -> Change:
    """Deploy the generation of that name. The other one was deployed first, so it is deployment 1."""
    change = change_over(
        askers,
        lambda: operate(port, token, f"deployments/{number % 2 + 1}/activate", {}, confirmed=True),
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


def _fine_tuned(inputs: Inputs, folder: Path) -> Path:
    """The model after two steps on questions: as large as any that was fine-tuned, and of the same index."""
    some = folder / "some.jsonl"
    with open(_LEARNT, encoding="utf-8") as file:
        some.write_text("".join(islice(file, _LEARNT_QUESTIONS)), encoding="utf-8")
    where = ["--model", inputs.model, "--index", inputs.index, "--corpus", inputs.corpus, "--questions", some]
    settings = ["--set=epochs=1", "--set=holdout=0.0", "--set=supply=false"]
    return run_activity("finetune", *map(str, where), *settings, "--output", str(folder / "fine-tuned"))


def _copy(index: Path, folder: Path) -> Path:
    """The same generation under another name."""
    copy = folder / f"other-{index.name}"
    shutil.copytree(index, copy)
    write_json(copy / "manifest.json", read_json(copy / "manifest.json") | {"generation": copy.name}, sealed=True)
    return copy


if __name__ == "__main__":
    sys.exit(main())
