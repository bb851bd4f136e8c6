"""The first kind of job, for real: a worker builds an index, which can be deployed."""

from __future__ import annotations

from pathlib import Path

from tests.tiny import tiny_model, tiny_snapshot
from tests.workers.conftest import Workers, wait_for_state
from webapp.models import Deployment, IndexGeneration, Job, JobState
from webapp.services.deploying import deploy
from webapp.services.jobs import start_index_build
from webapp.services.places import resolve
from webapp.services.registering import record_corpus, record_model


def test_an_index_is_built_recorded_and_deployed(workers: Workers, tmp_path: Path) -> None:
    model, corpus = record_model(tiny_model(tmp_path)), record_corpus(tiny_snapshot(tmp_path))
    workers.worker()
    job = start_index_build(model, corpus, by=None)
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


def test_a_model_that_is_gone_fails_with_a_sentence(workers: Workers, tmp_path: Path) -> None:
    model, corpus = record_model(tiny_model(tmp_path)), record_corpus(tiny_snapshot(tmp_path))
    (resolve(model.path) / "model.safetensors").unlink()
    workers.worker()
    job = start_index_build(model, corpus, by=None)
    wait_for_state(job, "failed")
    assert job.error.endswith("model.safetensors does not exist.")
