"""A whole site for tests of faults: PostgreSQL, a broker behind a password, web server, worker and scheduler, all real.

As in production the broker is at a port, where others could knock; `make run`'s own listens on a socket.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.askers import asker
from benchmarks.web import Response, request, server
from realm_core.runs.processes import kill_all, start
from tests import forked
from tests.broker import Broker
from tests.postgres import postgres_server
from tests.tiny import tiny_deployment
from tests.waiting import wait_until
from workers.refusal import TOP
from workers.services import environment_for, scheduler, worker


class Site:
    """database: its PostgreSQL. broker: its Valkey. tokens: of an asker and an admin. port: of the web server.

    redis: another program for the broker.
    """

    def __init__(self, folder: Path, stack: ExitStack, redis: str) -> None:
        self._stack = stack
        self.data = folder / "data"
        self.data.mkdir()
        self.database = stack.enter_context(postgres_server(lasting=True))
        (folder / "broker").mkdir()
        self.broker = Broker(folder / "broker", redis)
        self.start_broker()
        given = {name: value for name, value in os.environ.items() if not name.endswith("_URL")}
        environment, _ = environment_for(self.data, given | self.broker.urls)
        self.environment = environment | {
            "DATABASE_URL": self.database.url,
            "ASK_RATE": "100000/min",
            "ASK_CACHE_S": "0",
            "REALM_DEVICE": "cpu",
            "JOB_LEASE_S": "5",
        }
        folders = tiny_deployment(self.data / "tiny")
        prepare = [sys.executable, "-m", "tests.clients.prepare", *map(str, folders)]
        self.tokens = json.loads(forked.run(prepare, self.environment))
        self.port = stack.enter_context(server(self.environment, folder / "web.log", forked.start))[1]

    def run(self, *command: str, **environment: str) -> str:
        """What a command prints."""
        done = subprocess.run(
            [sys.executable, *command],
            cwd=TOP,
            env=self.environment | environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """What the database itself says."""
        with psycopg.connect(host=str(self.database.folder), user="postgres", dbname="postgres") as connection:
            return connection.execute(query.encode()).fetchall()

    def execute(self, statement: str) -> None:
        """Change something in the database itself."""
        address = {"host": str(self.database.folder), "user": "postgres", "dbname": "postgres"}
        with psycopg.connect(**address, autocommit=True) as connection:  # as a new database wants it
            connection.execute(statement.encode())

    def start_broker(self) -> None:
        """Start it on what it wrote before."""
        self._broker = self._start(self.broker.service.command, {}, "broker")
        wait_until(self.broker.answers)

    def stop_broker(self) -> None:
        """Kill it."""
        kill_all(self._broker)
        self._broker.wait()

    def start_workers(self) -> None:
        """A worker of all queues, which knows the tests' own kind of job, and its scheduler."""
        self.start_worker("", "tests.workers.app")
        self.start_scheduler("tests.workers.app")

    def start_worker(self, queues: str, application: str = "workers.app") -> subprocess.Popen[bytes]:
        """A worker of some queues, with commas between; "": of all."""
        told = {"WORKER_QUEUES": queues} if queues else {}
        return self._start(worker(application).command, self.environment | told, "worker")

    def start_scheduler(self, application: str = "workers.app") -> None:
        self._start(scheduler(application).command, self.environment, "scheduler")

    def call(self, method: str, path: str, body: Any = None, token: str = "") -> Response:
        """One request."""
        return request(self.port, method, path, body, token)

    def asker(self) -> Callable[[str], tuple[int, str]]:
        """Asks one question; the status, and the answer's id or when to come back."""
        return asker(self.port, "id", k=3)

    def _start(self, command: tuple[str, ...], environment: dict[str, str], name: str) -> subprocess.Popen[bytes]:
        with open(self.data.parent / f"{name}.log", "ab") as output:
            begin = forked.start if command[0] == sys.executable else start
            process = begin(command, output=output, environment=environment or None)
        self._stack.callback(process.wait)
        self._stack.callback(kill_all, process)
        return process


@contextmanager
def site(folder: Path, redis: str = "") -> Iterator[Site]:
    """A site in an empty folder, ready."""
    with ExitStack() as stack:
        yield Site(folder, stack, redis)
