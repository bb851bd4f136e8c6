"""A small server of Milvus in a process of its own, at a port of this machine, that can be killed and started again."""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.web import free_port
from realm_core.index.choice import MilvusServer
from realm_core.runs.processes import kill_all, start
from tests.waiting import wait_until
from workers.guards import HOST


class LocalMilvus:
    """folder: of what it keeps."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._port = folder, free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.server = MilvusServer(f"http://{HOST}:{self._port}")

    def start(self) -> None:
        """On what it kept; returns when it takes connections."""
        place = ("--data-dir", str(self._folder), "--host", HOST, "--port", str(self._port))
        with open(self._folder.with_suffix(".log"), "ab") as output:
            self._process = start((sys.executable, "-m", "milvus_lite", "server", *place), output=output)
        wait_until(self._answers)

    def kill(self) -> None:
        """By SIGKILL."""
        if self._process is not None:
            kill_all(self._process)
            self._process.wait()
            self._process = None

    def _answers(self) -> bool:
        assert self._process is not None and self._process.poll() is None, self._folder.with_suffix(".log").read_text()
        with socket.socket() as door:
            return door.connect_ex((HOST, self._port)) == 0


@contextmanager
def running_milvus() -> Iterator[LocalMilvus]:
    """A server that answers; its folder goes with it."""
    with tempfile.TemporaryDirectory(prefix="realm-milvus-") as name:
        milvus = LocalMilvus(Path(name) / "data")
        milvus.start()
        try:
            yield milvus
        finally:
            milvus.kill()
