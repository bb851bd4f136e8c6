"""A worker folds the edits of documents, and one that is killed meanwhile costs nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from django.conf import LazySettings

import webapp.serving.living
from realm_core.runs.processes import kill_all
from tests.waiting import wait_until
from tests.workers.conftest import Workers, wait_for_state
from tests.workers.work import deployed_pair
from webapp.documents import folding
from webapp.documents import service as documents
from webapp.documents.inputs import DocumentInput, Text
from webapp.documents.viewing import show
from webapp.models import Deployment, IndexGeneration

pytestmark = pytest.mark.postgresql_only  # processes that write at once


@pytest.mark.nightly  # core/living/test_crashes.py kills a fold at many instants
def test_a_killed_fold_has_not_happened_and_happens_again(
    workers: Workers, settings: LazySettings, tmp_path: Path
) -> None:
    data = Path(os.environ["REALM_DATA"]) / tmp_path.name
    settings.REALM_DATA = workers.environment["REALM_DATA"] = str(data)
    webapp.serving.living._views.clear()
    deployed_pair(data)
    first = Deployment.active()
    documents.add([DocumentInput(Text("Turku is a city in Finland."), "turku", "Turku")], by=None)

    worker = workers.worker()
    job = folding.start(by=None)
    wait_until(lambda: (job.run_dir / "log.txt").exists())  # its process has begun
    kill_all(worker)
    assert Deployment.active() == first and IndexGeneration.every.count() == 1
    documents.add([DocumentInput(Text("Oulu is a city in Finland."), "oulu", "Oulu")], by=None)

    workers.worker()
    workers.scheduler()
    wait_for_state(job, "succeeded")
    active = Deployment.active()
    assert active is not None and active.index.job == job and active.index.corpus.job == job
    assert job.result["index"] == active.index.pk and job.attempt == 2
    assert show("turku").text and show("oulu").text and folding.edits(active.index).segments == 1
