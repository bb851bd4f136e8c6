"""The web server as `make run` starts it, over a database of its own: latency of POST /api/v1/ask, and memory."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.answering import ASKERS, K
from benchmarks.inputs import TOP, Inputs, Size
from benchmarks.rounds import latencies
from realm_core.errors import RealmError
from realm_core.runs.processes import awaited, start
from workers.guards import HOST
from workers.services import web

Begin = Callable[..., subprocess.Popen[bytes]]  # as realm_core.runs.processes.start does

Response = tuple[int, dict[str, str], bytes]

_READY_WITHIN_S = 120.0
_ANSWER_WITHIN_S = 120.0


def measure(inputs: Inputs, size: Size, threads: int) -> dict[str, Any]:
    """Latencies over HTTP, one question at a time; memory when ready, after them, and after several askers."""
    questions = inputs.first_questions(size.questions)
    with tempfile.TemporaryDirectory() as data:
        environment = database(Path(data), inputs.folders, **on_cpu(threads))
        with server(environment, Path(data) / "web.log") as (process, port):
            ready = memory(process.pid)
            times_ms = [_ask_ms(port, question) for question in questions[:3] + questions][3:]
            used = memory(process.pid)
            with ThreadPoolExecutor(ASKERS) as askers:
                list(askers.map(lambda question: _ask_ms(port, question), questions))
            return {
                "server": "gunicorn, 1 process, as `make run` starts it",
                "questions": len(questions),
                **latencies(times_ms),
                "memory_mib": {"ready": ready, "after_one_by_one": used, "after_all_askers": memory(process.pid)},
            }


def database(data: Path, *pairs: tuple[Path, Path, Path], url: str = "", **variables: str) -> dict[str, str]:
    """Make a database that names what to answer from, the last of some (model, corpus, index); returns a web server's
    environment.

    data: its data folder. url: of the database (default: SQLite in `data`). variables: more of the environment.
    """
    environment = {
        **os.environ,
        "REALM_DATA": str(data),
        "DATABASE_URL": url or f"sqlite:///{data}/db.sqlite3",
        "CACHE_URL": "locmem://",
        "ASK_RATE": "0",  # no limit on questions
        "ASK_CACHE_S": "0",  # every question is computed
        **variables,
    }
    run_command(environment, "manage.py", "migrate", "--no-input", "--verbosity=0")
    for folders in pairs:
        run_command(environment, "-m", "benchmarks.record", *map(str, folders))
    return environment


def on_cpu(threads: int) -> dict[str, str]:
    """The environment of a web server that computes with so many threads of the processor."""
    return {"REALM_DEVICE": "cpu", "OMP_NUM_THREADS": str(threads)}


def operator_token(environment: dict[str, str]) -> str:
    """A token of an operator, who is made for it."""
    who = ("--username=operator", "--email=o@example.org")
    own = environment | {"DJANGO_SUPERUSER_PASSWORD": "benchmark"}
    run_command(own, "manage.py", "createsuperuser", "--no-input", *who)
    return run_command(environment, "manage.py", "create_token", "operator", "--scope=operate").strip()


def run_command(environment: dict[str, str], *command: str) -> str:
    """What a Python command has printed; RealmError if it did not succeed."""
    done = subprocess.run(
        [sys.executable, *command], cwd=TOP, env=environment, stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode != 0:
        raise RealmError(f"{' '.join(command[:2])} did not succeed; the reason stands above.")
    return done.stdout


@contextmanager
def server(
    environment: dict[str, str],
    log: Path,
    begin: Begin = start,
    *,
    processes: int = 1,
    application: str = "webapp.wsgi",
    ready: str = "/readyz",
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The web server, ready, and its port. begin: starts its process. ready: what it answers with 200 by then."""
    port = free_port()
    command = [application if word == "webapp.wsgi" else word for word in web(port).command]
    with serving([*command, f"--workers={processes}"], port, environment, log, begin, ready) as process:
        yield process, port


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.socket() as free:
        free.bind((HOST, 0))
        return int(free.getsockname()[1])


@contextmanager
def serving(
    command: Sequence[str],
    port: int,
    environment: dict[str, str],
    log: Path,
    begin: Begin = start,
    ready: str = "/readyz",
) -> Iterator[subprocess.Popen[bytes]]:
    """A server's process while it is ready; told to end afterwards."""
    with open(log, "wb") as output:
        process = begin(list(command), output=output, environment=environment)
    with awaited(process, grace_s=10):
        until = time.monotonic() + _READY_WITHIN_S
        while request(port, "GET", ready)[0] != 200:
            if process.poll() is not None or time.monotonic() > until:
                raise RealmError(f"The web server does not become ready: {log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.2)
        yield process


def _ask_ms(port: int, question: str) -> float:
    started_at = time.perf_counter()
    status, _, body = request(port, "POST", "/api/v1/ask", {"question": question, "k": K})
    elapsed_ms = (time.perf_counter() - started_at) * 1e3
    if status != 201:
        raise RealmError(f"The web server answered {status}: {body[:500].decode(errors='replace')}")
    return elapsed_ms


def request(port: int, method: str, path: str, body: Any = None, token: str = "") -> Response:
    """One request, with its body as JSON: status (0: no answer at all), header fields, content."""
    connection = http.client.HTTPConnection(HOST, port, timeout=_ANSWER_WITHIN_S)
    headers = {"Content-Type": "application/json"} if body is not None else {}
    headers |= {"Authorization": f"Bearer {token}"} if token else {}
    try:
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
    except (OSError, http.client.HTTPException):
        time.sleep(0.05)  # who asks again at once would keep a processor busy
        return 0, {}, b""
    finally:
        connection.close()


def memory(master: int) -> dict[str, float] | None:
    """MiB of the server's processes, from /proc: of the (first) one that answers, resident set now and at its highest;
    of all together, with what they share counted once (PSS). None where the system has no /proc."""
    try:
        children = Path(f"/proc/{master}/task/{master}/children").read_text(encoding="utf-8").split()
        answering = children[0]
        return {
            "answering_process": _kib(answering, "status", "VmRSS") / 1024,
            "answering_process_highest": _kib(answering, "status", "VmHWM") / 1024,
            "all_processes": sum(_kib(pid, "smaps_rollup", "Pss") for pid in (str(master), *children)) / 1024,
        }
    except (OSError, IndexError):
        return None


def _kib(pid: str, file: str, key: str) -> int:
    for line in Path(f"/proc/{pid}/{file}").read_text(encoding="utf-8").splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1])
    return 0
