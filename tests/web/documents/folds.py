"""A fold as a worker does it, without the worker: the job's task in this process, then its record."""

from __future__ import annotations

from realm_core.__main__ import run
from realm_core.files import read_json
from realm_core.runs.activity import Activity
from webapp.documents import folding
from webapp.models import Deployment, Job
from webapp.serving.engine import holder
from workers.executions import EXECUTIONS, task_of


def compute(job: Job) -> dict[str, object]:
    """An attempt's process; its result."""
    job.run_dir.mkdir(parents=True, exist_ok=True)
    run(task_of(job), Activity(job.run_dir, quiet=True))
    result: dict[str, object] = read_json(job.run_dir / "result.json")
    return result


def fold() -> Deployment:
    """Fold what is above the index that answers, and load what answers then."""
    job = folding.start(by=None)
    EXECUTIONS["fold"].record(job, compute(job))
    Job.objects.filter(pk=job.pk).update(state="succeeded")
    holder().refresh(wait=True)
    deployment = Deployment.active()
    assert deployment is not None
    return deployment
