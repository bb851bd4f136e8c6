"""gunicorn's configuration for the web application: `gunicorn --config=python:webapp.server webapp.wsgi`.

One thread for every question that may wait for the engine, and some more: if the queue is full a question is refused at
once, and health checks and pages never wait behind questions. A waiting thread costs little.
"""

from __future__ import annotations

import ctypes
import logging
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from gunicorn.glogging import Logger

from webapp.environment import envint
from webapp.logs import JSONLines

_BESIDE_QUESTIONS: Final = 32  # threads
_HERE: Final = ("127.0.0.1", "::1", "localhost")
_JSON: Final = os.environ.get("LOG_FORMAT", "").strip().lower() == "json"

os.environ.setdefault("DATABASE_POOL", "16")

# glibc gives concurrently allocating threads heaps of their own, up to eight per processor, and memory freed in one
# heap cannot be used by the others. Two are enough, because long computations run in one thread per processor. glibc
# also returns memory that the next part of a batch requests again: up to 11 MB per question, which took 3 ms to map.
_M_TRIM_THRESHOLD: Final = -1  # from <malloc.h>
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8
with suppress(AttributeError, OSError):  # another C library
    for _option, _value in ((_M_ARENA_MAX, 2), (_M_MMAP_THRESHOLD, 32 << 20), (_M_TRIM_THRESHOLD, 64 << 20)):
        ctypes.CDLL(None).mallopt(_option, _value)


def _metrics_folder() -> Path:
    """A folder for this server, in memory if the system supports that; folders of dead servers are removed."""
    top = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else Path(tempfile.gettempdir())
    for left in top.glob("realm-metrics-*-*"):
        try:
            os.kill(int(left.name.split("-")[2]), 0)
        except ProcessLookupError:
            shutil.rmtree(left, ignore_errors=True)
        except (PermissionError, ValueError):  # of another user
            continue
    return Path(tempfile.mkdtemp(prefix=f"realm-metrics-{os.getpid()}-", dir=top))


# Metrics of all processes. The client library reads the folder's name when it is imported, so nothing may import it
# before this line.
_METRICS: Final = _metrics_folder()
os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(_METRICS)


class ServerLog(Logger):  # type: ignore[misc]  # gunicorn has no types
    """gunicorn's log, as JSON if LOG_FORMAT says so; each request's line has the request's id."""

    def setup(self, cfg: Any) -> None:
        """Set our formatter on its handlers."""
        super().setup(cfg)
        if _JSON:
            for handler in (*self.error_log.handlers, *self.access_log.handlers):
                handler.setFormatter(JSONLines())

    def atoms(self, resp: Any, req: Any, environ: dict[str, Any], request_time: Any) -> dict[str, Any]:
        """What a line of text may have: `h` is the client, not the proxy; `r` has no query, which may be a question."""
        address = environ["RAW_URI"].partition("?")[0]
        asked = f"{environ['REQUEST_METHOD']} {address} {environ['SERVER_PROTOCOL']}"
        return {**super().atoms(resp, req, environ, request_time), "h": _client(environ), "r": asked}

    def access(self, resp: Any, req: Any, environ: dict[str, Any], request_time: Any) -> None:
        if not _JSON:
            super().access(resp, req, environ, request_time)
            return
        fields = {
            "request_id": dict(resp.headers).get("X-Request-ID", ""),
            "method": environ.get("REQUEST_METHOD"),
            "path": environ.get("PATH_INFO"),
            # For a request that gunicorn itself refuses there is no duration.
            "status": getattr(resp, "status_code", None) or int(str(resp.status).split()[0]),
            "bytes": resp.sent,
            "ms": round(request_time.total_seconds() * 1e3, 1),
            "client": _client(environ),
        }
        if serving_ms := environ.get("realm.serving_ms"):  # set by webapp.metrics.middleware
            fields["serving_ms"] = {stage: round(spent_ms, 1) for stage, spent_ms in serving_ms.items()}
        self.access_log.log(logging.INFO, "request", extra={"fields": fields})


def _client(environ: dict[str, Any]) -> str:
    """The client's address; only a process that answers requests, and so has loaded Django, calls this."""
    from webapp.access.limits import forwarded_address

    return forwarded_address(environ).encode("unicode_escape").decode("ascii") or "-"


# An X_Forwarded_User from a client would be read as the proxy's X-Forwarded-User; this is also gunicorn's default.
header_map = "drop"
worker_class = "webapp.patience.PatientWorker"
threads = envint("WEB_THREADS", 0) or envint("ASK_QUEUE", 128, minimum=1) + _BESIDE_QUESTIONS
limit_request_line = 8190  # gunicorn's most: a sentence to fill is in the address, an Arabic letter six characters
worker_connections = threads + 224  # with each thread's SQLite files below 1,024 open files, a common limit
accesslog = "-"
access_log_format = '%(h)s %(t)s "%(r)s" %(s)s %(b)s %(D)sus %({x-request-id}o)s'
logger_class = ServerLog


def on_starting(server: Any) -> None:
    """Refuse unsafe settings with an error message: passwords in plain text over a network and, in production, admins
    with easily guessed passwords and a database of a newer version."""
    from django.core.exceptions import ImproperlyConfigured

    try:
        from webapp import settings

        # A Unix socket or an open file descriptor means a proxy, which other machines can reach.
        beyond = [one for one in server.cfg.address if not (isinstance(one, tuple) and one[0] in _HERE)]
        if beyond and not settings.HTTPS:
            where = ":".join(map(str, beyond[0][:2])) if isinstance(beyond[0], tuple) else beyond[0]
            raise ImproperlyConfigured(
                f"HTTPS must be on where the web server listens beyond this machine or at a socket ({where}), "
                "behind a proxy that speaks TLS: without it passwords travel in plain text."
            )
        if settings.IN_PRODUCTION:
            _check_database()
    except ImproperlyConfigured as refusal:
        sys.exit(f"error: {refusal}")


def _check_database() -> None:
    """Run our checks in a child process: this one is to be forked, and must not load Django or open a connection."""
    from django.core.exceptions import ImproperlyConfigured

    from webapp.checks import TAG, VERSION_TAG

    tags = (f"--tag={TAG}", f"--tag={VERSION_TAG}")
    options = ["--settings=webapp.settings", "--deploy", "--database=default", *tags]
    command = [sys.executable, "-m", "django", "check", *options]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    if checked.returncode:
        errors = [line.partition(") ")[2] for line in checked.stderr.splitlines() if "(webapp.E" in line]
        raise ImproperlyConfigured(" ".join(errors) or checked.stderr.strip())


def worker_exit(_server: Any, _worker: Any) -> None:
    """Called in a process that ends normally: it removes its row. A process killed earlier leaves its row to expire."""
    if module := sys.modules.get("webapp.serving.presence"):
        module.presence.leave()


def child_exit(_server: Any, worker: Any) -> None:
    """Keep the counters of a process that has ended, but not its gauges (waiting questions)."""
    from prometheus_client.multiprocess import mark_process_dead

    mark_process_dead(worker.pid)  # type: ignore[no-untyped-call]


def on_exit(_server: Any) -> None:
    """Remove the folder: no process reads the counters any more."""
    shutil.rmtree(_METRICS, ignore_errors=True)
