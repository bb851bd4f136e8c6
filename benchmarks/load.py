"""Many askers at once, over HTTP on this machine: questions a second, how long each takes, memory, and a peer.

python -m benchmarks.load [--seconds S] [--rounds N] [--questions N] [--askers N …] [--no-peer]

A real web server over a database of its own, asked by threads that ask again as soon as they have an answer. Rounds
turn the order of the numbers of askers, and of the peer, so that a drift of the machine meets all of them. Exact
repeats are computed each time; what the cache of them is worth is measured apart. The peer is transformers-haystack's
TransformersExtractiveReader behind gunicorn as well, given the blocks that our search found.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks.answering import K
from benchmarks.askers import Asked, Askers, asker, percentile
from benchmarks.exports import export_span_reader
from benchmarks.inputs import Inputs, add_folders, prepare, with_status
from benchmarks.machine import describe, now
from benchmarks.peers import LIBRARIES
from benchmarks.rounds import apart, run_rounds, summary
from benchmarks.rounds import ratios as within_rounds
from benchmarks.web import database, free_port, memory, on_cpu, request, server, serving
from realm_core.errors import RealmError
from realm_core.files import write_json
from workers.guards import HOST

RESULTS = Path(__file__).resolve().parent / "results" / "load.json"
PEER_ASKERS = 8
_PEER = "peer"
Ask = Callable[[str], tuple[int, str]]

_QUESTIONS = 150  # different ones
_WARM_UP_S = 3.0
_MEMORY_EVERY = 500  # questions
_FLAT = 0.05  # memory may grow by this share
_TARGETS = {"32 to 1": 1.3, "128 to 32": 1.0, "to the peer": 2.0}


@with_status
def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.load", description=__doc__)
    add_folders(parser)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="of each side (default: torch's)")
    parser.add_argument("--askers", type=int, nargs="+", default=[1, 8, 32, 128], help="default: 1 8 32 128")
    parser.add_argument("--seconds", type=float, default=30.0, help="of each number of askers in a round (default: 30)")
    parser.add_argument("--rounds", type=int, default=3, help="default: 3")
    parser.add_argument("--questions", type=int, default=10_000, help="asked to see the memory (default: 10,000)")
    parser.add_argument("--no-peer", action="store_true", help="leave the peer out, and its environment")
    parser.add_argument(
        "--output", type=Path, default=RESULTS, help="JSON file (default: benchmarks/results/load.json)"
    )
    arguments = parser.parse_args(argv)
    results = _measure(prepare(arguments.model, arguments.corpus, arguments.index), arguments)
    print(report(results))
    write_json(arguments.output, results)


def _measure(inputs: Inputs, arguments: argparse.Namespace) -> dict[str, Any]:
    questions = inputs.first_questions(_QUESTIONS)
    machine = describe()
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        environment = database(data, inputs.folders, **on_cpu(arguments.threads))
        with server(environment, data / "web.log") as (process, port):
            contestants = {
                str(n): partial(_load, asker(port), questions, n, arguments.seconds) for n in arguments.askers
            }
            with ExitStack() as both:
                if not arguments.no_peer:
                    ask = both.enter_context(_peer(inputs, _found(port, questions), data, environment))
                    contestants[_PEER] = partial(_load, ask, questions, PEER_ASKERS, arguments.seconds)
                rounds = run_rounds(contestants, arguments.rounds)
            remembered = _memory(port, process.pid, questions, arguments.questions)
        with server({**environment, "ASK_CACHE_S": "3600"}, data / "repeats.log") as (_, port):
            repeats = _load(asker(port), questions[:PEER_ASKERS], PEER_ASKERS, arguments.seconds)
    peer = rounds.pop(_PEER, None)
    results: dict[str, Any] = {
        "format": 1,
        "created": now(),
        "machine": machine,
        "threads": arguments.threads,
        "seconds": arguments.seconds,
        "rounds": arguments.rounds,
        "k": K,
        "askers": {n: figures([one for own in runs for one in own], runs) for n, runs in rounds.items()},
        "memory": remembered,
        "repeats": figures(repeats, [repeats]),
        "peer": peer and {"askers": PEER_ASKERS, **figures([one for own in peer for one in own], peer)},
    }
    return {**results, "ratios": ratios(results), "memory_growth": growth(remembered)}


def _load(ask: Ask, questions: list[str], count: int, seconds: float) -> list[Asked]:
    """What was answered within so many seconds, behind a warm-up in which everybody has had an answer."""
    with Askers(ask, questions, count) as askers:
        time.sleep(_WARM_UP_S)
        while len(askers.since(0)) < count:
            time.sleep(0.2)
        start = time.perf_counter()
        time.sleep(seconds)
        end = time.perf_counter()
        answered = [one for one in askers.since(start) if start <= one.at + one.took_ms / 1e3 <= end]
    if not answered:
        raise RealmError(f"Nobody of {count} askers had an answer within {seconds:g} seconds.")
    return answered


def figures(asked: list[Asked], runs: list[list[Asked]]) -> dict[str, Any]:
    """Questions/s of the runs, and milliseconds of all answers. asked: those of all runs together."""
    good_ms = [one.took_ms for one in asked if one.status == 201]
    if not good_ms:
        raise RealmError(f"No question was answered; the server said {sorted({one.status for one in asked})}.")
    rates = [_rate([one.at + one.took_ms / 1e3 for one in run if one.status == 201]) for run in runs]
    return {
        "questions": len(asked),
        "refused": sum(one.status == 503 for one in asked),
        "failed": sum(one.status not in (201, 503) for one in asked),
        "rates": rates,
        "questions_per_s": summary(rates),
        **{f"p{share:.0%}_ms".replace("%", ""): percentile(good_ms, share) for share in (0.5, 0.95, 0.99)},
        "mean_ms": statistics.mean(good_ms),
    }


def _rate(ends: list[float]) -> float:
    """Answers/s: the slope of the line through (time, answers until then) that is best by least squares.

    Answers come by the batch, sixteen at an instant: by how many there are in a given time the rate would be a multiple
    of a batch, and between the first and the last it would be too high by what the first batch took.
    """
    if len(set(ends)) < 2:
        return 0.0
    return statistics.linear_regression(sorted(ends), range(len(ends))).slope


def ratios(results: dict[str, Any]) -> dict[str, float]:
    """Questions/s: of 32 askers to one's, of 128 to 32's, ours to the peer's; of those that were measured.

    Medians of what they are within a round: the machine's own speed is another in each.
    """
    told = {**results["askers"], **({_PEER: results["peer"]} if results["peer"] else {})}
    pairs = {"32 to 1": ("32", "1"), "128 to 32": ("128", "32"), "to the peer": (str(PEER_ASKERS), _PEER)}
    return {
        name: within_rounds(told[a]["rates"], told[b]["rates"])["median"]
        for name, (a, b) in pairs.items()
        if a in told and b in told
    }


def growth(told: list[dict[str, Any]]) -> float | None:
    """By what share the answering process has grown since a fifth of the questions, which fill arenas and caches.

    From median to median of a tenth: from one look to the next it varies by some in a hundred, up and down.
    """
    last = told[-1]["questions"]
    mib = [(one["questions"] / last, one["memory_mib"]["answering_process"]) for one in told if one["memory_mib"]]
    early = [used for share, used in mib if 0.2 <= share < 0.3]
    late = [used for share, used in mib if share > 0.9]
    return statistics.median(late) / statistics.median(early) - 1 if early and late else None


def _memory(port: int, master: int, questions: list[str], count: int) -> list[dict[str, Any]]:
    """The server's memory while `count` questions are asked by several askers."""
    told = []
    with Askers(asker(port), questions, PEER_ASKERS) as askers:
        asked = 0
        while asked < count:
            while (now := len(askers.since(0))) < min(asked + _MEMORY_EVERY, count):
                time.sleep(0.2)
            asked = now
            told.append({"questions": asked, "memory_mib": memory(master)})
    return told


def _found(port: int, questions: list[str]) -> dict[str, list[str]]:
    """The texts of the blocks that our search finds for each question."""
    found = {}
    for question in questions:
        status, _, body = request(port, "POST", "/api/v1/retrieve", {"question": question, "k": K})
        if status != 200:
            raise RealmError(f"The web server answered {status}: {body[:500].decode(errors='replace')}")
        found[question] = [block["text"] for block in json.loads(body)["blocks"]]
    return found


@contextmanager
def _peer(inputs: Inputs, found: dict[str, list[str]], data: Path, environment: dict[str, str]) -> Iterator[Ask]:
    """What asks the peer, whose server is there as long."""
    python, reader, program = LIBRARIES.ensure(), data / "reader", data / "peer_wsgi.py"
    program.write_bytes((Path(__file__).resolve().parent / "peer_wsgi.py").read_bytes())
    apart(lambda: export_span_reader(inputs.model, reader))
    write_json(data / "readings.json", found)
    given = {
        **environment,
        "PEER_READER": str(reader),
        "PEER_READINGS": str(data / "readings.json"),
        "PEER_DTYPE": "float32",  # as it comes
        "HF_HUB_OFFLINE": "1",
        "HAYSTACK_TELEMETRY_ENABLED": "False",
    }
    port = free_port()
    command = (
        *(str(python), "-m", "gunicorn", "peer_wsgi", f"--chdir={data}", f"--bind={HOST}:{port}"),
        *("--worker-class=gthread", "--workers=1", "--threads=160", "--timeout=120", "--no-control-socket"),
    )
    with serving(command, port, given, data / "peer.log"):
        yield partial(_ask_peer, port)


def _ask_peer(port: int, question: str) -> tuple[int, str]:
    return request(port, "POST", "/ask", {"question": question})[0], "peer"


def report(results: dict[str, Any]) -> str:
    """The table."""
    lines = [
        f"{'askers':<18} {'questions/s':<20} {'p50 ms':>8} {'p95 ms':>8} {'p99 ms':>8} {'refused':>8} {'failed':>7}"
    ]
    rows = {**results["askers"], f"{PEER_ASKERS}, repeats": results["repeats"]}
    if results["peer"]:
        rows[f"{PEER_ASKERS}, Haystack"] = results["peer"]
    for name, own in rows.items():
        rate = own["questions_per_s"]
        lines.append(
            f"{name:<18} {rate['median']:>6.1f} ({rate['low']:.1f}–{rate['high']:.1f})".ljust(40)
            + f"{own['p50_ms']:>7.0f} {own['p95_ms']:>8.0f} {own['p99_ms']:>8.0f}"
            + f" {own['refused']:>8} {own['failed']:>7}"
        )
    lines += [
        f"{name}: {ratio:.2f} times (target {_TARGETS[name]}, {'reached' if ratio >= _TARGETS[name] else 'missed'})"
        for name, ratio in results["ratios"].items()
    ]
    if told := [one for one in results["memory"] if one["memory_mib"]]:
        lines += [
            f"after {one['questions']} questions: {one['memory_mib']['answering_process']:.0f} MiB" for one in told
        ]
    if (grown := results["memory_growth"]) is not None:
        flat = "reached" if grown <= _FLAT else "missed"
        lines.append(f"memory since a fifth of them: {grown:+.1%} (target at most {_FLAT:.0%}, {flat})")
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
