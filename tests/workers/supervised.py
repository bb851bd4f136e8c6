"""A supervisor whose programs are small scripts: one that answers /readyz, one that only waits."""

from __future__ import annotations

import sys

import realm_core.runs.kept
import workers.supervisor
from workers.services import Service

_WEB = """
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
    def log_message(self, *args):
        pass

HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
_WORKER = "import time; print('working', flush=True); time.sleep(300)"
_DEAF = """
import signal, time

signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
print("working", flush=True)
signal.sigwait({signal.SIGTERM})
time.sleep(0.5)
print("was asked to end, and goes on", flush=True)
time.sleep(300)
"""
_SLOW = """
import signal, time

def end(*_):
    time.sleep(0.5)
    raise SystemExit(print("ended by itself", flush=True))

signal.signal(signal.SIGTERM, end)
print("working", flush=True)
time.sleep(300)
"""
_BROKEN = "raise SystemExit('I cannot work like this.')"


def programs(port: int) -> list[Service]:
    web = _BROKEN if sys.argv[1] == "broken" else _WEB
    worker = {"deaf": _DEAF, "deaf for long": _DEAF, "slow": _SLOW}.get(sys.argv[1], _WORKER)
    return [
        Service("web", (sys.executable, "-c", web, str(port))),
        Service(
            *("worker", (sys.executable, "-c", worker), 60 if sys.argv[1] == "deaf for long" else 1),
            environment={"OWN_VARIABLE": "of the worker"},
        ),
    ]


workers.supervisor.application = programs
workers.supervisor.PREPARATIONS = ()
if sys.argv[1] == "small logs":
    workers.supervisor._LIMIT_LOGS_EVERY_S = 0.0
    realm_core.runs.kept._LARGE_LOG_BYTES = 3
sys.exit(workers.supervisor.main())
