"""An S3-compatible store in a process of its own, at a port of this machine."""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import s3fs

from benchmarks.web import free_port
from realm_core.runs.processes import kill_all, start
from tests.waiting import wait_until
from workers.guards import HOST

BUCKET = "artefacts"


class S3:
    """Where it is. host: the address that it listens at."""

    def __init__(self, log: Path, host: str = HOST) -> None:
        self._log, self._host, self._port = log, host, free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def environment(self) -> dict[str, str]:
        """The variables that name it, as operations.md has them."""
        return {
            "REALM_STORE": f"s3://{BUCKET}/realm",
            "AWS_ENDPOINT_URL": f"http://{self._host}:{self._port}",
            "AWS_ACCESS_KEY_ID": "tests",
            "AWS_SECRET_ACCESS_KEY": "tests",
            "AWS_DEFAULT_REGION": "us-east-1",
        }

    def files(self) -> Any:
        """Its objects, seen without the project's code."""
        return s3fs.S3FileSystem(
            key="tests",
            secret="tests",
            endpoint_url=self.environment["AWS_ENDPOINT_URL"],
            use_listings_cache=False,
            skip_instance_cache=True,
        )

    def objects(self) -> list[str]:
        """The names of all objects in the store."""
        return [name.removeprefix(f"{BUCKET}/realm/") for name in self.files().find(BUCKET)]

    def start(self) -> None:
        """Returns when its bucket is there."""
        command = (sys.executable, "-m", "moto.server", "--host", self._host, "--port", str(self._port))
        with open(self._log, "ab") as output:
            self._process = start(command, output=output)
        wait_until(self._answers)
        self.files().mkdir(BUCKET)

    def stop(self) -> None:
        """By SIGKILL; what it had is gone."""
        if self._process is not None:
            kill_all(self._process)
            self._process.wait()

    def _answers(self) -> bool:
        assert self._process is not None and self._process.poll() is None, self._log.read_text()
        with socket.socket() as door:
            return door.connect_ex((self._host, self._port)) == 0


@contextmanager
def running_s3(host: str = HOST) -> Iterator[S3]:
    """A store that answers, with an empty bucket."""
    with tempfile.TemporaryDirectory(prefix="realm-s3-") as folder:
        s3 = S3(Path(folder) / "log", host)
        s3.start()
        try:
            yield s3
        finally:
            s3.stop()
