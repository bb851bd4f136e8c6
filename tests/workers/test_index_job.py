"""The first kind of job, for real: a worker builds an index, which can be deployed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from realm_core.index.build import build
from realm_core.index.generation import Generation
from realm_core.runs.activity import Activity
from tests.broker import Broker
from tests.tiny import tiny_model, tiny_snapshot
from tests.waiting import wait_until
from tests.workers.conftest import Workers, wait_for_state
from webapp.artefacts.registering import record_corpus, record_model
from webapp.deployments.service import deploy
from webapp.jobs import service as jobs
from webapp.jobs.queue import producer
from webapp.models import Deployment, IndexGeneration, Job, JobKind, JobState, Worker
from webapp.storage.places import resolve

pytestmark = pytest.mark.postgresql_only  # minutes of processes; here they really write at once


@pytest.mark.nightly  # every day browser/test_admin_way.py has a worker build one, and deploys it
def test_an_index_is_built_recorded_and_deployed(workers: Workers, tmp_path: Path) -> None:
    model, corpus = record_model(tiny_model(tmp_path)), record_corpus(tiny_snapshot(tmp_path))
    workers.worker()
    job = jobs.start(JobKind.INDEX, {"model": model.pk, "corpus": corpus.pk}, by=None)
    wait_for_state(job, "succeeded")
    index = IndexGeneration.objects.get(job=job)
    assert (index.model, index.corpus, index.rows) == (model, corpus, corpus.blocks)
    assert job.result == {"index": index.pk, "generation": index.generation, "rows": index.rows}
    assert (job.progress["done"], job.progress["unit"]) == (corpus.blocks, "blocks")
    deploy(index)
    assert Deployment.objects.get(is_active=True).index == index

    # A worker that died after publishing and before recording: the next attempt finds what is there.
    Job.objects.filter(pk=job.pk).update(state=JobState.QUEUED)
    workers.scheduler()
    wait_for_state(job, "running")
    wait_for_state(job, "succeeded")
    assert IndexGeneration.objects.get(job=job) == index


@pytest.mark.nightly  # test_two_machines.py has the same without a shared data folder
def test_a_large_index_is_built_by_all_machines(
    workers: Workers, port_broker: Broker, tmp_path: Path, settings: Any
) -> None:
    """Two workers with their own names share data folder, database and a broker at a port."""
    settings.BROKER_URL = port_broker.urls["BROKER_URL"]
    producer.cache_clear()
    model, corpus = record_model(tiny_model(tmp_path)), record_corpus(tiny_snapshot(tmp_path))
    owners = set()
    for host in ("first", "second"):
        workers.worker(slots="1", host=host, broker=port_broker.urls["BROKER_URL"])
    workers.ready()
    job = jobs.start(JobKind.INDEX, {"model": model.pk, "corpus": corpus.pk, "shard_rows": 7}, by=None)

    def done() -> bool:
        owners.update(part.lease_owner for part in job.parts.exclude(lease_owner=""))
        return Job.objects.get(pk=job.pk).state == "succeeded"

    wait_until(done, patience_s=120)
    job.refresh_from_db()
    index = IndexGeneration.objects.get(job=job)
    assert {owner.split(":")[1] for owner in owners} == {str(worker.pid) for worker in workers.processes}
    assert set(Worker.objects.values_list("host", flat=True)) == {"first", "second"}
    assert [part.result for part in job.parts.order_by("created_at")] == [
        {"shard": 0, "rows": 7},
        {"shard": 1, "rows": 5},
    ]
    assert (index.rows, job.progress["done"], job.progress["total"]) == (12, 12, 12)
    alone = build(resolve(model.path), resolve(corpus.path), tmp_path / "alone", Activity(quiet=True), device="cpu")
    made = Generation.open(resolve(index.path))
    assert [shard["stop"] for shard in made.manifest["shards"]] == [7, 12]
    torch.testing.assert_close(made.vectors_ND.float(), Generation.open(alone).vectors_ND.float(), rtol=0, atol=0.1)
    assert sorted(path.name for path in resolve(index.path).iterdir()) == [
        "manifest.json",
        "vectors-00000.safetensors",
        "vectors-00001.safetensors",
    ]


@pytest.mark.nightly  # test_jobs.py has jobs that fail with a sentence
def test_a_model_that_is_gone_fails_with_a_sentence(workers: Workers, tmp_path: Path) -> None:
    model, corpus = record_model(tiny_model(tmp_path)), record_corpus(tiny_snapshot(tmp_path))
    (resolve(model.path) / "model.safetensors").unlink()
    workers.worker()
    job = jobs.start(JobKind.INDEX, {"model": model.pk, "corpus": corpus.pk}, by=None)
    wait_for_state(job, "failed")
    assert job.error.endswith("model.safetensors does not exist.")
