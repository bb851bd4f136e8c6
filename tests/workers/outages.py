"""A pre-training whose broker, database and workers go away: `python -m tests.workers.outages --seconds 60`.

A site of its own (PostgreSQL, Valkey or Redis, web server, scheduler) with one worker for trainers and another for
index builders, asked all the while. One after the other is killed and stays away: the broker, the database, the
builder's worker, the trainer's worker. Meanwhile nothing may work twice, people get answers wherever the database is
there, and the training goes on by itself unless it was the trainer's worker that died. Afterwards rows and index catch
up, and the job ends right.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.askers import Askers
from tests.waiting import wait_until
from tests.workers import seen
from tests.workers.site import Site, site

_STEPS = 10**7  # more than there is time for; the end is told to it
QUICK = {"batch": 2, "at_once": 2, "k": 3, "refresh_every": 20, "checkpoint_every": 20, "holdout": 0.0}
_RECORD = """
import django, json
django.setup()
from pathlib import Path
from tests.core.training.towns import make_towns
from tests.workers.work import record_work
from webapp.storage.places import sources_dir
work = record_work(make_towns(sources_dir().parent / "towns"))
print(json.dumps({"model": work.model.pk, "corpus": work.corpus.pk, "index": work.index.pk, "spans": work.spans.pk}))
"""
_STATUSES = {"broker": {201}, "database": {201, 503}, "index": {201}, "train": {201}}  # of questions, while it is away


@dataclass(frozen=True)
class Outage:
    """What was seen. seconds: that `gone` was away. trained: steps that were made meanwhile.

    back_s: from its return until an index of later parameters was in use, as the rows tell.
    answers: status → questions that ended with it, from when it went until then.
    """

    gone: str
    seconds: float
    trained: int
    back_s: float
    answers: Counter[int]


class Watch:
    """Asks, and looks whether anything works twice. answers: by their status; twice: what did."""

    def __init__(self, running: Site) -> None:
        self._ask = running.asker()
        self.answers: Counter[int] = Counter()
        self.twice: list[dict[str, list[int]]] = []

    def __call__(self, question: str) -> tuple[int, str]:
        told = self._ask(question)
        self.answers[told[0]] += 1
        if found := seen.working_twice():
            self.twice.append(found)
        return told


class Training:
    """A pre-training as a job of the site's."""

    def __init__(self, running: Site) -> None:
        self._running = running
        self._workers = {queues: running.start_worker(queues) for queues in ("train", "default,index")}
        running.start_scheduler()
        parameters = {**json.loads(running.run("-c", _RECORD, DJANGO_SETTINGS_MODULE="webapp.settings")), **QUICK}
        body = {"kind": "pretrain", "parameters": {**parameters, "steps": _STEPS}}
        status, _, content = running.call("POST", "/api/v1/jobs", body, running.tokens["admin"])
        assert status == 201, content
        self._path = f"/api/v1/jobs/{json.loads(content)['id']}"
        self._run = running.data / "runs" / str(json.loads(content)["id"])

    def built_at(self) -> float:
        """Step of the parameters that the index in use was made with, as the rows tell."""
        rows = self._running.rows(
            "SELECT step - (values->>'pretrain.index_lag_steps')::float FROM webapp_jobmetric "
            "WHERE values ? 'pretrain.index_lag_steps' ORDER BY id DESC LIMIT 1"
        )
        return float(rows[0][0]) if rows else 0.0

    def step(self) -> int:
        """The step that the trainer itself noted last."""
        try:
            return int(
                (self._run / "metrics.jsonl").read_text().splitlines()[-1].partition('"step": ')[2].split(",")[0]
            )
        except (OSError, IndexError, ValueError):  # it has noted none, or is about to
            return 0

    def away(self, gone: str, seconds: float, watch: Watch) -> Outage:
        """Kill one of broker, database, index (the builder's worker) and train, and let it come back after seconds."""
        stop, start = self._switches(gone)
        answers, step, began = watch.answers.copy(), self.step(), time.monotonic()
        stop()
        time.sleep(seconds)
        lasted, trained = time.monotonic() - began, self.step() - step
        start()
        back = time.monotonic()
        # The index in use is then one whose parameters are younger than the outage.
        wait_until(lambda: self.built_at() > step + trained)
        return Outage(gone, lasted, trained, time.monotonic() - back, watch.answers - answers)

    def end(self) -> None:
        """Let it be done, and see that it ends right and has left a model."""
        admin = self._running.tokens["admin"]
        assert self._running.call("POST", f"{self._path}/stop", {}, admin)[0] < 300
        wait_until(lambda: self.told()["state"] == "stopped")
        # With fewer steps than it has done it ends at once.
        self._running.execute(
            "UPDATE webapp_job SET parameters = parameters || '{\"steps\": 21}' WHERE parent_id IS NULL"
        )
        assert self._running.call("POST", f"{self._path}/resume", {}, admin)[0] < 300
        wait_until(lambda: self.told()["state"] not in ("queued", "running"))
        assert self.told()["state"] == "succeeded", self.told()
        assert self._running.rows("SELECT count(*) FROM webapp_modelversion WHERE job_id IS NOT NULL") == [(1,)]

    def told(self) -> dict[str, Any]:
        """The job as the web server tells it."""
        told: dict[str, Any] = json.loads(self._running.call("GET", self._path, token=self._running.tokens["admin"])[2])
        return told

    def _switches(self, gone: str) -> tuple[Callable[[], object], Callable[[], object]]:
        running = self._running
        if gone == "broker":
            return running.stop_broker, running.start_broker
        if gone == "database":
            return lambda: running.database.stop(at_once=True), running.database.start
        queues = next(queues for queues in self._workers if gone in queues)

        def kill() -> None:
            self._workers[queues].kill()
            self._workers[queues].wait()

        return kill, lambda: self._workers.update({queues: running.start_worker(queues)})


def watch_outages(running: Site, seconds: float) -> list[Outage]:
    """All four, one after the other; raises AssertionError with what was not as it should be."""
    os.environ["REALM_DATA"] = str(running.data)  # of which processes are looked for
    training, watch = Training(running), Watch(running)
    with Askers(watch, ["Who?"], 1, thinks_s=0.2):
        wait_until(lambda: training.built_at() > 0)
        outages = [training.away(gone, seconds, watch) for gone in _STATUSES]
        training.end()
    assert not watch.twice, watch.twice
    for outage in outages:
        assert set(outage.answers) <= _STATUSES[outage.gone] and outage.answers[201], outage
        assert (outage.trained > 0) == (outage.gone != "train"), outage
    return outages


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="how long each is away (default: 60)")
    parser.add_argument("--redis", default="", metavar="PROGRAM", help="for the broker, such as redis-server")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="realm-outages-") as folder, site(Path(folder), options.redis) as running:
        for outage in watch_outages(running, options.seconds):
            print(
                f"{outage.gone} away for {outage.seconds:.0f} s: {outage.trained:,} steps meanwhile; a new index in "
                f"use {outage.back_s:.0f} s after its return; questions {dict(outage.answers)}"
            )
    print("The job ended right, and nothing worked twice.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
