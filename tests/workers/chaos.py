"""Chaos: what `make run` runs, with somebody who kills at random; `python -m tests.workers.chaos --kills 50`.

An ICT, a pre-training with its builder, an index build in shards and an ingest go on at the same time, under two
workers, a scheduler, a broker and a web server that the supervisor starts again. At random instants one of these, or
one of the jobs' own processes, gets SIGKILL. All the while watchers look

    at /proc          whether two processes work for one job. The lock of the run folder (runs/launch.py) is there to
                      prevent it; what is looked at is another thing, which run folder each process was started for
    at the disk       whether whatever is visible is whole: models, generations, corpora, and what the records name
    at the web server whether what it answers is of what is deployed

and in the end every job must have succeeded, as many must have been killed as were wanted unless the jobs had all ended
before, and the web server must have answered since the last kill. --postgresql: on a PostgreSQL of its own, which is
not killed, instead of SQLite. --redis PROGRAM: with a broker at a port and behind a password, as production has one.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.web import free_port, request
from realm_core.files import read_json, write_json
from tests.broker import Broker
from tests.postgres import postgres
from tests.waiting import wait_until
from tests.workers import seen

TOP = Path(__file__).resolve().parents[2]
SUPERVISED = """
import sys, workers.supervisor, workers.services as services
from workers.services import application
broker = [services.Service("broker", tuple(sys.argv[1:]))] if sys.argv[1:] else []
workers.supervisor.PREPARATIONS = ()
def programs(port):
    web, worker, _, scheduler = application(port)  # a fetcher has no job that could be lost
    return [*broker, web, worker, services.Service("worker2", worker.command, worker.grace_s), scheduler]
workers.supervisor.application = programs
sys.exit(workers.supervisor.main())
"""
_LOOK_S = 0.1
_PATIENCE_S = 1200.0  # after the last kill, until every job has ended
_ANSWER_PATIENCE_S = 120.0  # and then until the web server has given
_ANSWERS = 3  # since the last kill; the first of them may have been on its way before
TRAINING = {"batch": 2, "at_once": 2, "checkpoint_every": 20, "holdout": 0.0}


class Chaos:
    """One run. kills: how many. pause_s: longest time between two of them. steps: of each training.

    seed: of what is killed, and when. broker: another than the supervisor's own.
    """

    def __init__(
        self, data: Path, kills: int, pause_s: float, steps: int, seed: int, broker: Broker | None = None
    ) -> None:
        self.data, self.kills, self.pause_s, self.steps, self._broker = data, kills, pause_s, steps, broker
        self._draw = random.Random(seed)
        self.killed: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.answers = 0  # that the web server gave
        self.too_early = False  # whether the jobs had ended before all kills were made
        self._port = free_port()
        self._over = threading.Event()

    def run(self) -> None:
        """Everything; raises AssertionError with what was seen."""
        jobs = _begin(self.steps)
        log = open(self.data / "supervisor.log", "wb")  # noqa: SIM115 - closed below
        command, urls = (self._broker.service.command, self._broker.urls) if self._broker else ((), {})
        supervisor = subprocess.Popen(
            [sys.executable, "-c", SUPERVISED, *command],
            cwd=TOP,
            env=os.environ | {"PORT": str(self._port), "JOB_LEASE_S": "6", "ASK_CACHE_S": "0"} | urls,
            stdout=log,
            stderr=log,
        )
        watchers = [
            threading.Thread(target=self._watch, args=(look,)) for look in (self._twice, self._partial, self._ask)
        ]
        for watcher in watchers:
            watcher.start()
        try:
            # Before it is ready, the supervisor takes three deaths for a fault and ends.
            wait_until(lambda: self._is_ready(supervisor), patience_s=300)
            while self.killed.total() < self.kills and not self.too_early:
                time.sleep(self._draw.uniform(0, self.pause_s))
                self.too_early = self._have_ended(jobs, supervisor)
                if not self.too_early:
                    self._kill_one(supervisor)
            before = self.answers
            wait_until(lambda: self._have_ended(jobs, supervisor), patience_s=_PATIENCE_S)
            # The supervisor starts again what was killed, and that answers.
            wait_until(lambda: self.answers >= before + _ANSWERS, patience_s=_ANSWER_PATIENCE_S)
        finally:
            self._over.set()
            supervisor.send_signal(signal.SIGTERM)
            supervisor.wait(60)
            for watcher in watchers:
                watcher.join()
            log.close()
        for job in _again(jobs):
            if job.state != "succeeded":
                self.wrong.append(f"{job} {job.pk}: {job.error}\n{job.log[-2000:]}")
        self._partial()
        assert not self.wrong, "\n".join(self.wrong)

    def _is_ready(self, supervisor: subprocess.Popen[bytes]) -> bool:
        assert supervisor.poll() is None, "The supervisor has ended."
        return request(self._port, "GET", "/readyz")[0] == 200

    def _have_ended(self, jobs: list[Any], supervisor: subprocess.Popen[bytes]) -> bool:
        assert supervisor.poll() is None, "The supervisor has ended."
        return not any(job.is_active for job in _again(jobs))

    # ---- killing

    def _kill_one(self, supervisor: subprocess.Popen[bytes]) -> None:
        """SIGKILL to a program of the supervisor's or, every third time, to a job's process.

        Of either the kind is drawn first, so that there being many of one does not shelter another. A job's process has
        got further before it dies: one that dies again and again without that is given up, and rightly.
        """
        programs: dict[str, list[int]] = {}
        activities: dict[str, list[int]] = {}
        for pid, words in seen.processes():
            if run := seen.run_of(words):
                if seen.has_got_further(pid, Path(run)):
                    activities.setdefault(seen.kind(words), []).append(pid)
            elif (kind := seen.kind(words)) and seen.parent(pid) == supervisor.pid:
                programs.setdefault(kind, []).append(pid)
        victims = activities if activities and sum(self.killed.values()) % 3 == 0 else programs
        if victims:
            kind = self._draw.choice(sorted(victims))
            try:
                os.kill(self._draw.choice(victims[kind]), signal.SIGKILL)
            except ProcessLookupError:
                return
            self.killed[kind] += 1

    # ---- watching

    def _watch(self, look: Callable[[], None]) -> None:
        from django.db import connection

        while not self._over.wait(_LOOK_S):
            try:
                look()
            except Exception as error:  # a watcher that ended would see nothing more, and nobody would know
                if (told := f"{look.__name__} could not look: {error!r}") not in self.wrong:
                    self.wrong.append(told)
        connection.close()

    def _twice(self) -> None:
        """Two processes that were started for the same run folder, seen at one time."""
        self.wrong += [f"Processes {pids} work in {run} at once." for run, pids in seen.working_twice().items()]

    def _partial(self) -> None:
        """Whatever can be seen must be whole, and whatever is recorded must be there."""
        from django.db import OperationalError

        from webapp.models import CorpusSnapshot, IndexGeneration, ModelVersion
        from webapp.storage.places import resolve

        for pattern, needed in (
            ("models/[!.]*", "model.safetensors"),
            ("corpora/[!.]*/[!.]*", "manifest.json"),
            ("indexes/[!.]*", "manifest.json"),
        ):
            for path in self.data.glob(pattern):
                if not (path / needed).exists() or (path.parent.name == "indexes" and not _all_shards(path)):
                    self.wrong.append(f"{path} can be seen and is not whole.")
        try:
            records = [*ModelVersion.objects.all(), *CorpusSnapshot.objects.all(), *IndexGeneration.objects.all()]
        except OperationalError:  # SQLite was busy
            return
        for record in records:
            if not any((resolve(record.path) / name).exists() for name in ("config.json", "manifest.json")):
                self.wrong.append(f"{record} is recorded, and {record.path} is not there.")

    def _ask(self) -> None:
        """What serves stays what it was."""
        from django.db import OperationalError

        from webapp.models import Deployment

        time.sleep(0.5)
        status, _, content = request(
            self._port, "POST", "/api/v1/ask", {"question": "When did something burn in town 3?"}
        )
        if status not in (0, 201, 503):  # killed; answered; not ready yet
            self.wrong.append(f"The web server said {status}: {content[:500]!r}")
        if status != 201:
            return
        try:
            deployed = Deployment.objects.select_related("index").get(is_active=True)
        except OperationalError:  # SQLite was busy
            return
        index = json.loads(content)["index"]
        if not index == deployed.index.generation == "deployed":
            self.wrong.append(f"The answer is of {index}.")
        self.answers += 1


# ---- what is done


def _begin(steps: int) -> list[Any]:
    """Records, a deployment, and the four jobs, which wait for a worker."""
    from django.core.management import call_command

    from tests.core.training.towns import make_towns
    from tests.workers.work import record_work, source
    from webapp.jobs import service as jobs
    from webapp.models import Deployment, IndexGeneration, JobKind
    from webapp.storage.places import sources_dir

    call_command("migrate", verbosity=0)
    data = sources_dir().parent
    work = record_work(make_towns(data / "given"))
    IndexGeneration.objects.filter(pk=work.index.pk).update(generation="deployed")
    manifest = data / work.index.path / "manifest.json"
    write_json(manifest, read_json(manifest) | {"generation": "deployed"}, sealed=True)
    Deployment.activate(IndexGeneration.objects.get())
    source(sources_dir(), 20 * steps)
    start = {"model": work.model.pk, "corpus": work.corpus.pk}
    pretrain = {"index": work.index.pk, "spans": work.spans.pk, "steps": steps, "k": 3, "refresh_every": 20}
    return [
        jobs.start(kind, parameters, by=None)
        for kind, parameters in (
            (JobKind.INDEX, {**start, "shard_rows": 10}),
            ("pretrain", {**start, **TRAINING, **pretrain}),
            ("ict", {**start, **TRAINING, "steps": steps}),
            (JobKind.INGEST, {"source": "jsonl", "file": "villages.jsonl", "corpus_name": "villages"}),
        )
    ]


def _again(jobs: list[Any]) -> list[Any]:
    from webapp.models import Job

    return list(Job.objects.filter(pk__in=[job.pk for job in jobs]))


# ---- what is seen


def _all_shards(folder: Path) -> bool:
    shards = json.loads((folder / "manifest.json").read_text())["shards"]
    return all((folder / shard["file"]).exists() for shard in shards)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--pause-s", type=float, default=12.0, help="longest time between two")
    parser.add_argument(
        "--steps", type=int, default=3000, help="of each training: enough for them to outlast the kills"
    )
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--postgresql", action="store_true", help="on a PostgreSQL of its own instead of SQLite")
    parser.add_argument("--redis", metavar="PROGRAM", help="for a broker as production has it, such as redis-server")
    options = parser.parse_args()
    with ExitStack() as stack:
        if options.postgresql:
            os.environ["DATABASE_URL"] = stack.enter_context(postgres())
        return _run_all(options)


def _run_all(options: argparse.Namespace) -> int:
    """One run, and a sentence on how it went; the exit status."""
    data = Path(tempfile.mkdtemp(prefix="realm-chaos-"))
    os.environ.update(REALM_DATA=str(data), DJANGO_SETTINGS_MODULE="webapp.settings", ASK_RATE="0", OMP_NUM_THREADS="1")
    # As the supervisor would choose, so that jobs can be sent before it runs.
    os.environ.update(BROKER_URL="memory://", CACHE_URL="locmem://")
    import django

    django.setup()
    for name in ("BROKER_URL", "CACHE_URL"):
        del os.environ[name]
    from django.db import connection

    broker = None
    if options.redis:
        (data / "redis").mkdir()
        broker = Broker(data / "redis", options.redis)
    began = time.monotonic()
    chaos = Chaos(data, options.kills, options.pause_s, options.steps, options.seed, broker)
    try:
        chaos.run()
    except AssertionError as error:
        print(f"seed {options.seed}: after {dict(chaos.killed)}: {error}\nAll of it is in {data}.", file=sys.stderr)
        return 1
    killed = ", ".join(f"{count} × {kind}" for kind, count in sorted(chaos.killed.items()))
    print(
        f"{chaos.killed.total()} kills ({killed}) and {chaos.answers:,} answers in {time.monotonic() - began:.0f} s on "
        f"{connection.display_name}: every job ended right."
        + (f" That was before all of {options.kills} kills were made." if chaos.too_early else "")
    )
    connection.close()
    shutil.rmtree(data)
    return 0


if __name__ == "__main__":
    sys.exit(main())
