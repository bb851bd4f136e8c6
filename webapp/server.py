"""How gunicorn serves the web application: `gunicorn --config=python:webapp.server webapp.wsgi`.

A thread for every question that may wait for the engine, and some more: whoever finds the line full is told so at once,
and health checks and pages never wait behind questions. A thread that waits costs next to nothing.
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

# glibc gives threads that allocate at the same time heaps of their own, eight for each processor, and what is freed
# in one is of no use to the others. Two are enough: what takes long is computed by a thread for each processor. And it
# hands memory back that the next piece of a batch asks for again: up to 11 MB a question, which cost 3 ms to be mapped.
_M_TRIM_THRESHOLD: Final = -1  # from <malloc.h>
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8
with suppress(AttributeError, OSError):  # another C library
    for _option, _value in ((_M_ARENA_MAX, 2), (_M_MMAP_THRESHOLD, 32 << 20), (_M_TRIM_THRESHOLD, 64 << 20)):
        ctypes.CDLL(None).mallopt(_option, _value)


def _metrics_folder() -> Path:
    """A folder of this server's own, in memory where the system has such a place; those of dead servers go."""
    top = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else Path(tempfile.gettempdir())
    for left in top.glob("realm-metrics-*-*"):
        try:
            os.kill(int(left.name.split("-")[2]), 0)
        except ProcessLookupError:
            shutil.rmtree(left, ignore_errors=True)
        except (PermissionError, ValueError):  # somebody else's
            continue
    return Path(tempfile.mkdtemp(prefix=f"realm-metrics-{os.getpid()}-", dir=top))


# What all processes counted. The client library looks for the folder's name when it is imported, so nothing here may
# have imported it before.
_METRICS: Final = _metrics_folder()
os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(_METRICS)


class ServerLog(Logger):  # type: ignore[misc]  # gunicorn comes without types
    """gunicorn's log, as JSON where LOG_FORMAT wants it so; a line for each request names the request's id."""

    def setup(self, cfg: Any) -> None:
        """Give its handlers our format."""
        super().setup(cfg)
        if _JSON:
            for handler in (*self.error_log.handlers, *self.access_log.handlers):
                handler.setFormatter(JSONLines())

    def access(self, resp: Any, req: Any, environ: dict[str, Any], request_time: Any) -> None:
        """A request that has been answered."""
        if not _JSON:
            super().access(resp, req, environ, request_time)
            return
        fields = {
            "request_id": dict(resp.headers).get("X-Request-ID", ""),
            "method": environ.get("REQUEST_METHOD"),
            "path": environ.get("PATH_INFO"),
            # Of a request that gunicorn itself refuses there is no number.
            "status": getattr(resp, "status_code", None) or int(str(resp.status).split()[0]),
            "bytes": resp.sent,
            "ms": round(request_time.total_seconds() * 1e3, 1),
            "client": environ.get("REMOTE_ADDR"),
        }
        if serving_ms := environ.get("realm.serving_ms"):  # webapp.metrics.middleware, which must not be imported here
            fields["serving_ms"] = {stage: round(spent_ms, 1) for stage, spent_ms in serving_ms.items()}
        self.access_log.log(logging.INFO, "request", extra={"fields": fields})


worker_class = "webapp.patience.PatientWorker"
threads = envint("WEB_THREADS", 0) or envint("ASK_QUEUE", 128, minimum=1) + _BESIDE_QUESTIONS
worker_connections = threads + 224  # with SQLite's files of each thread below 1,024 open files, a common limit
accesslog = "-"
access_log_format = '%(h)s %(t)s "%(r)s" %(s)s %(b)s %(D)sus %({x-request-id}o)s'
logger_class = ServerLog


def on_starting(server: Any) -> None:
    """Refuse, with a sentence, settings that make no sense, a network that would see passwords in plain text, and, in
    production, admins whose passwords anybody guesses."""
    from django.core.exceptions import ImproperlyConfigured

    try:
        from webapp import settings

        # Behind a Unix socket or an open file descriptor is a proxy, which others reach from elsewhere.
        beyond = [one for one in server.cfg.address if not (isinstance(one, tuple) and one[0] in _HERE)]
        if beyond and not settings.HTTPS:
            where = ":".join(map(str, beyond[0][:2])) if isinstance(beyond[0], tuple) else beyond[0]
            raise ImproperlyConfigured(
                f"HTTPS must be on where the web server listens beyond this machine or at a socket ({where}), "
                "behind a proxy that speaks TLS: without it passwords travel in plain text."
            )
        if settings.IN_PRODUCTION:
            _look_at_admins()
    except ImproperlyConfigured as refusal:
        sys.exit(f"error: {refusal}")


def _look_at_admins() -> None:
    """In a process of its own: this one is to be forked, and has no use for Django or a connection."""
    from django.core.exceptions import ImproperlyConfigured

    from webapp.checks import TAG

    options = ["--settings=webapp.settings", "--deploy", "--database=default", f"--tag={TAG}"]
    command = [sys.executable, "-m", "django", "check", *options]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    if checked.returncode:
        told = [line.partition(") ")[2] for line in checked.stderr.splitlines() if "(webapp.E" in line]
        raise ImproperlyConfigured(" ".join(told) or checked.stderr.strip())


def worker_exit(_server: Any, _worker: Any) -> None:
    """Called in a process that ends in good order: it need not be missed. One that did not come as far told nothing."""
    if told := sys.modules.get("webapp.serving.presence"):
        told.presence.leave()


def child_exit(_server: Any, worker: Any) -> None:
    """What a process that is gone counted stays; what it held (questions that wait) does not."""
    from prometheus_client.multiprocess import mark_process_dead

    mark_process_dead(worker.pid)  # type: ignore[no-untyped-call]


def on_exit(_server: Any) -> None:
    """Nobody reads the counters any more."""
    shutil.rmtree(_METRICS, ignore_errors=True)
