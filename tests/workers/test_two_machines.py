"""An index built by workers of two machines that share nothing but database, broker and object store (nightly).

Every day test_parts.py has shards of several workers, one of which dies; tests/core/test_object_store.py has builds on
two machines that share a store.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from realm_core.index.build import build
from realm_core.object_store import get_folder
from realm_core.runs.activity import Activity
from tests.broker import Broker
from tests.s3 import S3, running_s3
from tests.tiny import tiny_model, tiny_snapshot
from tests.waiting import wait_until
from tests.workers.conftest import Workers, wait_for_state
from webapp.artefacts.registering import adopt_model, record_corpus
from webapp.deployments.service import deploy
from webapp.jobs import service as jobs
from webapp.jobs.queue import producer
from webapp.models import IndexGeneration, Job, JobKind
from webapp.storage.places import corpora_dir, resolve

# Real processes on two machines need a database that both reach.
pytestmark = [pytest.mark.postgresql_only, pytest.mark.nightly]

SHARD_ROWS = 6  # of twelve


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch, workers: Workers) -> Iterator[S3]:
    """A store, which this process and the workers know."""
    with running_s3() as running:
        for name, value in running.environment.items():
            monkeypatch.setenv(name, value)
        workers.environment |= running.environment
        yield running


@pytest.mark.timeout(900)  # processes are started, on a machine that may be busy
def test_two_machines_build_an_index_and_one_dies(
    workers: Workers, s3: S3, port_broker: Broker, tmp_path: Path, settings: Any
) -> None:
    workers.environment |= port_broker.urls
    settings.BROKER_URL = port_broker.urls["BROKER_URL"]
    producer.cache_clear()
    model, corpus = adopt_model(tiny_model(tmp_path)), record_corpus(tiny_snapshot(corpora_dir().parent))
    call_command("fill_store")  # what an earlier test has published without a store
    for host in ("first", "second"):
        workers.worker(slots="1", host=host, data=str(tmp_path / host))
    workers.scheduler()
    workers.ready()
    job = jobs.start(JobKind.INDEX, {"model": model.pk, "corpus": corpus.pk, "shard_rows": SHARD_ROWS}, by=None)
    owners: dict[int, set[str]] = {}

    def second_holds_a_shard() -> bool:
        for part in job.parts.filter(state="running"):
            owners.setdefault(part.parameters["shard"], set()).add(part.lease_owner.partition("/")[0])
        return any("second" in held for held in owners.values())

    wait_until(second_holds_a_shard)
    workers.processes[1].kill()
    wait_for_state(job, "succeeded")
    assert [part.state for part in job.parts.all()] == ["succeeded"] * 2

    index = IndexGeneration.objects.get(job=job)
    assert index.rows == 12 and not resolve(index.path).exists()  # here, where no job ran
    alone = build(
        resolve(model.path), resolve(corpus.path), tmp_path / "alone", Activity(), shard_rows=SHARD_ROWS, device="cpu"
    )
    made = get_folder(resolve(index.path))
    names = [f"vectors-{number:05d}.safetensors" for number in range(2)]
    assert sorted(path.name for path in made.iterdir()) == ["manifest.json", *names]
    assert [(made / name).read_bytes() for name in names] == [(alone / name).read_bytes() for name in names]
    assert not any(".partial" in name for name in s3.objects())
    assert deploy(index).index == index
    assert Job.objects.get(pk=job.pk).error == ""
