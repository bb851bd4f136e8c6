"""A web server as `make run` starts it, with a tiny model and a database of its own, for all tests of this folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchmarks.web import server
from tests.tiny import tiny_filler
from workers.guards import HOST

TOP = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Running:
    """The server's address, and the tokens of an asker and an admin."""

    address: str
    asker: str
    admin: str


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    data = tmp_path_factory.mktemp("clients")
    model, index, corpus = tiny_filler(data / "tiny")
    environment = {
        **os.environ,
        "REALM_DATA": str(data),
        "DATABASE_URL": f"sqlite:///{data}/db.sqlite3",
        "CACHE_URL": "locmem://",
        "ASK_RATE": "600/min",
        "REALM_DEVICE": "cpu",
    }
    _run(environment, "manage.py", "migrate", "--no-input", "--verbosity=0")
    tokens = json.loads(_run(environment, "-m", "tests.clients.prepare", str(model), str(index), str(corpus)))
    with server(environment, data / "web.log") as (_process, port):
        yield Running(f"http://{HOST}:{port}", **tokens)


def _run(environment: dict[str, str], *command: str) -> str:
    done = subprocess.run(
        [sys.executable, *command], cwd=TOP, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
