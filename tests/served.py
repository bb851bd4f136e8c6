"""A web server as `make run` starts it, over a tiny model and a database of its own, for tests with real requests."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.web import server
from tests import forked
from tests.migrated import migrated
from tests.tiny import tiny_filler
from workers.guards import HOST

TOP = Path(__file__).resolve().parents[1]
_PREPARE = (sys.executable, "-m", "tests.clients.prepare")


@dataclass(frozen=True)
class Served:
    """The server's address, the tokens of an asker and an admin (names and passwords: the same words), its log."""

    address: str
    asker: str
    admin: str
    log: Path


@contextmanager
def served(data: Path, **environment: str) -> Iterator[Served]:
    """A server with `data` for its files, while it is ready. environment: variables that differ from the usual."""
    model, index, corpus = tiny_filler(data / "tiny")
    surroundings = {
        **os.environ,
        "REALM_DATA": str(data),
        "DATABASE_URL": migrated(data / "db.sqlite3"),
        "CACHE_URL": "locmem://",
        "ASK_RATE": "600/min",
        "REALM_DEVICE": "cpu",
        **environment,
    }
    tokens = json.loads(forked.run([*_PREPARE, str(model), str(index), str(corpus)], surroundings))
    log = data / "web.log"
    with server(surroundings, log, forked.start) as (_process, port):
        yield Served(f"http://{HOST}:{port}", log=log, **tokens)
