"""A worker's disk fills up while a job writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.tiny import tiny_model, tiny_snapshot
from tests.workers.conftest import Workers, wait_for_state
from webapp.artefacts.registering import record_corpus, record_model
from webapp.jobs import service as jobs
from webapp.models import CorpusSnapshot, IndexGeneration, Job, JobKind, ModelVersion
from webapp.storage.places import corpora_dir, indexes_dir, resolve, sources_dir

# On PostgreSQL, so that a worker's own rows are not on that disk. Every day tests/core/test_full_disk.py runs the same
# activities out of room.
pytestmark = [pytest.mark.postgresql_only, pytest.mark.nightly]

ROOM = 16 << 10  # as in full_disk.py, which would limit this process, too
STEPS = 3


def refused(job: Job) -> None:
    wait_for_state(job, "failed")
    assert "cannot be written: File too large" in job.error and "Traceback" not in job.log


def test_jobs_fail_with_a_sentence_leave_nothing_by_half_and_go_on_once_there_is_room(
    workers: Workers, tmp_path: Path
) -> None:
    places = {f"Place {number}": f"Place {number} lies by the river {number * 7}." for number in range(800)}
    model, corpus = record_model(tiny_model(tmp_path)), record_corpus(tiny_snapshot(tmp_path, places))
    sources_dir().mkdir(exist_ok=True)
    rows = [json.dumps({"id": title, "title": title, "text": f"{text} It is small."}) for title, text in places.items()]
    (sources_dir() / "places.jsonl").write_text("\n".join(rows))
    workers.application = "tests.workers.full_disk"
    full = workers.worker()
    settings = {"steps": STEPS, "batch": 4, "at_once": 4, "checkpoint_every": 1}
    training = jobs.start("ict", {"model": model.pk, "corpus": corpus.pk, **settings}, by=None)
    told = {"source": "jsonl", "file": "places.jsonl", "corpus_name": "places"}
    ingesting = jobs.start(JobKind.INGEST, told, by=None)
    building = jobs.start(JobKind.INDEX, {"model": model.pk, "corpus": corpus.pk}, by=None)
    for job in (training, ingesting, building):
        refused(job)
    assert not ModelVersion.objects.filter(job=training).exists()
    written = [path for path in training.run_dir.rglob("*") if path.is_file()]
    assert max(path.stat().st_size for path in written) < ROOM  # what did not fit is not there by half
    assert not IndexGeneration.objects.exists() and not CorpusSnapshot.objects.exclude(pk=corpus.pk).exists()
    assert not [*corpora_dir().glob("places/*"), *indexes_dir().glob(f"{corpus.snapshot_id}*")]

    full.kill()
    full.wait()
    workers.application = "tests.workers.app"
    workers.worker()
    for job in (training, ingesting, building):
        assert jobs.resume(job, by=None)
    for job in (training, ingesting, building):
        wait_for_state(job, "succeeded")
    assert (resolve(ModelVersion.objects.get(job=training).path) / "model.safetensors").stat().st_size > ROOM
    assert training.metrics.order_by("-step").values_list("step", flat=True).first() == STEPS
    assert CorpusSnapshot.objects.get(job=ingesting).articles == len(places)
    assert IndexGeneration.objects.get(job=building).rows == corpus.blocks == len(places)
