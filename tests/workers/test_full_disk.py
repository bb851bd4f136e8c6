"""A worker's disk fills up while a job writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tiny import tiny_model, tiny_snapshot
from tests.workers.conftest import Workers, wait_for_state
from webapp.models import JobKind, ModelVersion
from webapp.services import jobs
from webapp.services.places import resolve
from webapp.services.registering import record_corpus, record_model

pytestmark = pytest.mark.postgresql_only  # so that a worker's own rows are not on that disk

ROOM = 16 << 10  # as in full_disk.py, which would limit this process, too
STEPS = 3


def test_its_job_fails_with_a_sentence_and_goes_on_once_there_is_room(workers: Workers, tmp_path: Path) -> None:
    model, corpus = record_model(tiny_model(tmp_path)), record_corpus(tiny_snapshot(tmp_path))
    settings = {"steps": STEPS, "batch": 4, "at_once": 4, "checkpoint_every": 1}
    workers.application = "tests.workers.full_disk"
    full = workers.worker()
    job = jobs.start(JobKind.ICT, {"model": model.pk, "corpus": corpus.pk, **settings}, by=None)
    wait_for_state(job, "failed")
    assert "cannot be written: File too large" in job.error and "Traceback" not in job.log
    assert not ModelVersion.objects.filter(job=job).exists()
    written = [path for path in job.run_dir.rglob("*") if path.is_file()]
    assert max(path.stat().st_size for path in written) < ROOM  # what did not fit is not there by half

    full.kill()
    full.wait()
    workers.application = "tests.workers.app"
    workers.worker()
    assert jobs.resume(job, by=None)
    wait_for_state(job, "succeeded")
    made = ModelVersion.objects.get(job=job)
    assert (resolve(made.path) / "model.safetensors").stat().st_size > ROOM
    assert job.metrics.order_by("-step").values_list("step", flat=True).first() == STEPS
