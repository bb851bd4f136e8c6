"""A pre-training for real: trainer and builder are two jobs on two workers, and either worker may die (nightly).

Every day test_parts.py kills both workers of such jobs, with scripts in the place of trainer and builder, and
tests/core/training/test_refresh.py has a real trainer and builder, without workers.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.core.training.towns import make_towns
from tests.waiting import wait_until
from tests.workers.conftest import Workers, wait_for_state
from tests.workers.work import record_work
from webapp.jobs import service as jobs
from webapp.metrics.records import Records
from webapp.models import Job, JobKind, ModelVersion
from webapp.storage.places import resolve

pytestmark = [pytest.mark.postgresql_only, pytest.mark.nightly]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("killed", [False, True])
def test_the_index_follows_a_training_that_survives_both_workers(
    workers: Workers, tmp_path: Path, killed: bool
) -> None:
    work = record_work(make_towns(tmp_path))
    trainer, builder = workers.worker(queues="train"), workers.worker(queues="default,index")
    workers.scheduler()
    parameters = {"model": work.model.pk, "corpus": work.corpus.pk, "index": work.index.pk, "spans": work.spans.pk}
    quick = {"steps": 100_000, "batch": 2, "k": 3, "refresh_every": 20, "checkpoint_every": 20, "holdout": 0.0}
    job = jobs.start("pretrain", {**parameters, **quick}, by=None)

    def step() -> int:
        newest = job.metrics.order_by("pk").last()
        return newest.step if newest else 0

    def built_at() -> float:
        """Step of the parameters that the index in use was made with."""
        newest = job.metrics.filter(values__has_key="pretrain.index_lag_steps").order_by("pk").last()
        return newest.step - newest.values["pretrain.index_lag_steps"] if newest else 0

    wait_until(lambda: built_at() > 10)
    part = job.parts.get()
    assert (part.kind, part.queue, part.state) == (JobKind.REFRESH, "index", "running")
    lags = [metric for metric in Records().collect() if metric.name.startswith("realm_index_lag")]
    assert [[sample.labels["job"] for sample in lag.samples] for lag in lags] == [[str(job.pk)]] * 2

    if killed:
        builder.kill()
        reached = step()
        wait_until(lambda: step() > reached + 10)  # it goes on with the index that it has
        trainer.kill()
        workers.worker()
        reached = step()
        wait_until(lambda: built_at() > reached + 10)  # both go on

    Job.objects.filter(pk=job.pk).update(parameters={**Job.objects.get(pk=job.pk).parameters, "steps": 21})
    job.refresh_from_db()
    assert jobs.stop(job, by=None)
    wait_for_state(job, "stopped")
    wait_for_state(part, "stopped")
    assert jobs.resume(job, by=None)  # with fewer steps than it has done: it ends at once
    wait_for_state(job, "succeeded")
    wait_for_state(part, "succeeded", "stopped")
    model = ModelVersion.objects.get(job=job)
    assert (model.parent, model.corpus) == (work.model, work.corpus)
    assert (resolve(model.path) / "config.json").exists()
    # The builder may have been at work when the trainer cleared up: it does so, too, when it ends.
    wait_until(lambda: not any((job.run_dir / name).exists() for name in ("snapshots", "generations")))
