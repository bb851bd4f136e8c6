"""The proxy of docker/Caddyfile, in front of a web server of the tests; it listens on this machine only."""

from __future__ import annotations

import json
import os
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.web import free_port
from workers.guards import HOST

TOP = Path(__file__).resolve().parents[2]
CADDY = Path(sys.executable).with_name("caddy")
# Its authority is its own, and a new one each time.
TRUSTING = ssl.create_default_context()
TRUSTING.check_hostname = False
TRUSTING.verify_mode = ssl.CERT_NONE
LARGEST_BYTES = 4096
# What a client may claim to be logged in as; both proxies remove it, and a web server drops the underscores.
NAMES = dict.fromkeys(("X-Forwarded-User", "X-Forwarded-Groups", "Remote-User", "Remote-Groups"), "admin")
_PATIENCE_S = 30


@contextmanager
def proxy(folder: Path, behind: int, *, waits: bool = False) -> Iterator[int]:
    """Caddy, as it is told for `localhost`, in front of the port `behind`; yields its port.

    What is changed: where it listens, whom it asks, that it lets through bodies of `LARGEST_BYTES` only, and that it
    waits for a server that is gone only if told to, does not take port 80, nor makes the machine trust its authority.
    """
    port = free_port()
    environment = {**os.environ, "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "SITE": "localhost"}
    adapt = [CADDY, "adapt", "--config", TOP / "docker" / "Caddyfile"]
    told: dict[str, Any] = json.loads(subprocess.run(adapt, env=environment, capture_output=True, check=True).stdout)
    (server,) = told["apps"]["http"]["servers"].values()
    server["listen"] = [f"{HOST}:{port}"]
    server["automatic_https"] = {"disable_redirects": True}
    server["protocols"] = ["h1", "h2"]
    (upstream,) = _handlers(told, "reverse_proxy")
    upstream["upstreams"] = [{"dial": f"{HOST}:{behind}"}]
    if not waits:
        upstream["load_balancing"]["try_duration"] = 0
    (limit,) = _handlers(told, "request_body")
    limit["max_size"] = LARGEST_BYTES
    told["admin"] = {"disabled": True}
    told["logging"] = {"logs": {"default": {"level": "DEBUG"}}}
    told["apps"]["pki"] = {"certificate_authorities": {"local": {"install_trust": False}}}
    config = folder / "caddy.json"
    config.write_text(json.dumps(told))
    with open(folder / "caddy.log", "wb") as log:
        process = subprocess.Popen([CADDY, "run", "--config", config], env=environment, stdout=log, stderr=log)
        try:
            _wait_for(process, port)
            yield port
        finally:
            process.terminate()
            process.wait(20)


def tried_in_vain(folder: Path) -> set[int]:
    """Of the requests that Caddy could not pass on at the first attempt: the lengths of their bodies."""
    lines = [line for line in (folder / "caddy.log").read_text().splitlines() if "connection refused" in line]
    return {int(json.loads(line)["request"]["headers"]["Content-Length"][0]) for line in lines if '"request"' in line}


def _handlers(part: Any, name: str) -> Iterator[dict[str, Any]]:
    """The handlers of that name anywhere in Caddy's configuration."""
    if isinstance(part, dict):
        if part.get("handler") == name:
            yield part
        part = list(part.values())
    if isinstance(part, list):
        for inner in part:
            yield from _handlers(inner, name)


def _wait_for(process: subprocess.Popen[bytes], port: int) -> None:
    """Until it has made itself a certificate; before, it listens but shakes no hands."""
    until = time.monotonic() + _PATIENCE_S
    while True:
        try:
            with (
                socket.create_connection((HOST, port), timeout=5) as plain,
                TRUSTING.wrap_socket(plain, server_hostname="localhost"),
            ):
                return
        except OSError:
            assert process.poll() is None and time.monotonic() < until, "Caddy does not start; its log says why."
            time.sleep(0.05)
