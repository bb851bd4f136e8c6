"""The workers' application with one more kind of job, a small script, and a hurried scheduler.

Shards and builders of a script are scripts, too: its parameter `parts` says how many shards it has, `builder` that one
runs beside it. Parameters that begin with `part_` are the parts'. Addresses of this machine are fetched, too. With
FORKS_JOBS in the environment realm_core's own jobs are forked (tests/forking.py); they do not end with the worker then.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from workers.app import app  # first: it sets up Django

# isort: split

from realm_core.runs.folder import RunFolder
from realm_core.runs.processes import start_in
from realm_core.task import JobPart
from tests import forked
from tests.forking import FORKS_JOBS, Start
from webapp.models import Job, JobKind
from workers import job_run, tasks
from workers.beat import every
from workers.executions import EXECUTIONS, JobExecution

__all__ = ["app"]


_LOCKED = """
import os, runpy
from realm_core.runs import launch
launch._lock_file(os.environ.pop("TESTS_LOCK"), alone=True)
runpy.run_module("realm_core", run_name="__main__", alter_sys=True)
"""


def start_forked_in(
    run: RunFolder,
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    folder: Path,
    nice: int,
) -> subprocess.Popen[bytes]:
    """`start_in`; but a command of realm_core is forked, which saves its imports, with the lock of its run folder."""
    _python, _option, module, *arguments = command
    if module != "realm_core":
        return start_in(run, command, environment=environment, folder=folder, nice=nice)
    surroundings = {**environment, "TESTS_LOCK": str(run.lock_file)}
    start = Start(module=module, program=_LOCKED, arguments=arguments, environment=surroundings)
    with open(run.log_file, "ab") as log:
        return forked.Forked(start, log.fileno(), log.fileno())


def command(job: Job) -> list[str]:
    own = {name: value for name, value in job.parameters.items() if not name.startswith("part")}
    return ["tests.workers.script", *(f"--{name}={value}" for name, value in own.items() if name != "builder")]


def record(_job: Job, result: dict[str, Any]) -> dict[str, Any]:
    return {"recorded": result["steps"]}


def shards(job: Job) -> Sequence[JobPart]:
    return [JobPart(JobKind.INDEX_SHARD, {"shard": n, "rows": 5}) for n in range(job.parameters.get("parts", 0))]


def builder(job: Job) -> Sequence[JobPart]:
    return [JobPart(JobKind.REFRESH, {})] if job.parameters.get("builder") else []


def of_scripts(kind: JobExecution, steps: int) -> JobExecution:
    """The kind; but as a part of a script it is one, too."""

    def is_script(job: Job) -> bool:
        return job.parent is not None and job.parent.kind == "script"

    def own(job: Job) -> list[str]:
        if job.parent is None or not is_script(job):
            return kind.command(job)
        told = {name.removeprefix("part_"): value for name, value in job.parent.parameters.items() if "part_" in name}
        return ["tests.workers.script", *(f"--{name}={value}" for name, value in {"steps": steps, **told}.items())]

    return JobExecution(command=own, record=lambda job, result: result if is_script(job) else kind.record(job, result))


EXECUTIONS["script"] = JobExecution(command=command, record=record, before=shards, beside=builder)
EXECUTIONS[JobKind.INDEX_SHARD] = of_scripts(EXECUTIONS[JobKind.INDEX_SHARD], 5)
EXECUTIONS[JobKind.REFRESH] = of_scripts(EXECUTIONS[JobKind.REFRESH], 100_000)
tasks.fetch_for = partial(tasks.fetch_for, allowed=lambda _: True)
if os.environ.pop(FORKS_JOBS, None):
    job_run.start_in = start_forked_in
app.conf.beat_schedule["tidy"]["schedule"] = every(0.5)
tasks.RESEND_AFTER_S = 2
# Which worker a message reaches is chance, and a test waits some seconds for one with a free device.
tasks._PASS_ON_AFTER_S = tasks._PASS_ON_AT_LEAST_EVERY_S = 0.5
