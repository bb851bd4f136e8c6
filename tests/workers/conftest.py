"""Real Valkey, real worker and scheduler processes, real subprocesses."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from realm_core.runs.processes import kill_all, start
from tests import forked
from tests.broker import Broker, running_broker
from tests.core.training.towns import Towns, make_towns
from tests.forking import FORKS_JOBS
from tests.waiting import PATIENCE_S, wait_until
from tests.workers.work import Work, record_work
from webapp.jobs.queue import enqueue, producer
from webapp.models import Job, Worker
from workers.services import Service, broker, environment_for, fetcher, scheduler, socket_path, worker

LEASE_S = 2


@pytest.fixture(scope="session")
def broker_data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A data folder with a running Valkey."""
    data = tmp_path_factory.mktemp("broker")
    with open(data / "broker.log", "wb") as output:
        process = start(broker(data).command, output=output)
    wait_until(socket_path(data).exists)
    yield data
    kill_all(process)
    process.wait()


@pytest.fixture(scope="session")
def port_broker() -> Iterator[Broker]:
    """A broker as production has it."""
    with running_broker() as broker:
        yield broker


class Workers:
    """Starts workers and schedulers; all of them end with the test.

    application: Celery's, that they run. environment: of each, and of a web server beside them.
    """

    application = "tests.workers.app"

    def __init__(self, environment: dict[str, str], logs: Path) -> None:
        self.environment = environment
        self._logs = logs
        self.processes: list[subprocess.Popen[bytes]] = []
        self._taking_jobs: list[subprocess.Popen[bytes]] = []

    def worker(self, **told: str) -> subprocess.Popen[bytes]:
        """queues, slots, devices, broker, host, data, log: else as in the environment, or all queues and devices.

        forks: "1" if jobs of realm_core are forked, which saves their imports.
        """
        names = {"queues": "WORKER_QUEUES", "slots": "WORKER_SLOTS", "devices": "REALM_DEVICES", "forks": FORKS_JOBS}
        names |= {"broker": "BROKER_URL", "host": "REALM_HOST", "log": "LOG_FORMAT", "data": "REALM_DATA"}
        process = self._start(worker(self.application), {names[name]: value for name, value in told.items()})
        self._taking_jobs.append(process)
        return process

    def fetcher(self) -> subprocess.Popen[bytes]:
        return self._start(fetcher(self.application), {})

    def scheduler(self) -> subprocess.Popen[bytes]:
        return self._start(scheduler(self.application), {})

    def ready(self) -> None:
        """Wait until every worker takes jobs; else the first to do so could do them all."""
        running = len([process for process in self._taking_jobs if process.poll() is None])
        wait_until(lambda: Worker.objects.count() == running)

    def log(self) -> str:
        return "".join(path.read_text(errors="replace") for path in sorted(self._logs.glob("*.log")))

    def _start(self, service: Service, told: dict[str, str]) -> subprocess.Popen[bytes]:
        environment = {**self.environment, **service.environment, **told}
        with open(self._logs / f"{len(self.processes)}.log", "wb") as output:
            process = forked.start(service.command, output=output, environment=environment)
        self.processes.append(process)
        return process


@pytest.fixture
def workers(broker_data: Path, database_url: str, tmp_path: Path, settings: object) -> Iterator[Workers]:
    """Start real workers on the test's database; messages of earlier tests are gone."""
    kept = {k: v for k, v in os.environ.items() if not k.endswith("_URL") and not k.startswith("WORKER_")}
    environment, _ = environment_for(broker_data, kept)
    environment |= {
        "DATABASE_URL": database_url,
        "REALM_DATA": os.environ["REALM_DATA"],  # where the web side looks for run folders
        "JOB_LEASE_S": str(LEASE_S),
    }
    settings.BROKER_URL = environment["BROKER_URL"]  # type: ignore[attr-defined]
    producer.cache_clear()
    with producer().connection_for_write() as connection:
        connection.default_channel.client.flushall()
    running = Workers(environment, tmp_path)
    yield running
    for process in running.processes:
        kill_all(process)
        process.wait()
    producer.cache_clear()
    print(running.log())


@pytest.fixture(scope="session")
def towns(tmp_path_factory: pytest.TempPathFactory) -> Towns:
    return make_towns(tmp_path_factory.mktemp("towns"))


@pytest.fixture
def work(towns: Towns, db: None) -> Work:
    return record_work(towns)


@pytest.fixture
def web_environment(database_url: str, tmp_path: Path) -> dict[str, str]:
    """The environment of a web server on the test's database and folder, which computes and counts every question."""
    return {
        **os.environ,
        "REALM_DATA": str(tmp_path),
        "DATABASE_URL": database_url,
        "CACHE_URL": "locmem://",
        "ASK_RATE": "0",
        "ASK_CACHE_S": "0",
        "REALM_DEVICE": "cpu",
        "LOG_FORMAT": "json",
    }


def make_job(*, queue: str = "default", **parameters: object) -> Job:
    """A queued job of the tests' own kind that no message tells of yet."""
    return Job.objects.create(kind="script", queue=queue, parameters=parameters)


def send(job: Job) -> None:
    """A message more, which is the newest."""
    job.refresh_from_db()
    enqueue(job)


def wait_for_state(job: Job, *states: str, patience_s: float = PATIENCE_S) -> Job:
    def reached() -> bool:
        job.refresh_from_db()
        return job.state in states

    try:
        wait_until(reached, patience_s=patience_s)
    except AssertionError:
        raise AssertionError(f"The job is {job.state} ({job.error}), not {' or '.join(states)}:\n{job.log}") from None
    return job


def steps(job: Job) -> list[tuple[int, int]]:
    """(process id, step) of every step that was done."""
    path = job.run_dir / "steps.txt"
    lines = path.read_text().splitlines() if path.exists() else []
    return [(int(pid), int(step)) for pid, step in (line.split() for line in lines)]
