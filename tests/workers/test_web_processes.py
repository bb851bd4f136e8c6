"""A real web server of two processes: each says what it answers with, and none is missed when all end."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from benchmarks.web import request, server
from realm_core.index.build import build
from realm_core.runs.activity import Activity
from tests.tiny import tiny_model
from tests.waiting import wait_until
from tests.workers.test_web_faults import deployed, environment  # noqa: F401  (fixtures)
from webapp.artefacts.registering import record_index, record_model
from webapp.models import Deployment, IndexGeneration, WebProcess


def children(master: int) -> set[str]:
    """Ids of the processes that answer."""
    return set(Path(f"/proc/{master}/task/{master}/children").read_text(encoding="utf-8").split())


def answering() -> dict[str, int | None]:
    """What the rows say: process id → deployment, of those that answer."""
    rows = WebProcess.objects.filter(state="ready").values_list("name", "deployment")
    return {name.rpartition(":")[2]: deployment for name, deployment in rows}


@pytest.mark.timeout(170)
def test_each_says_what_it_answers_with(
    environment: dict[str, str],  # noqa: F811
    deployed: IndexGeneration,  # noqa: F811
    tmp_path: Path,
) -> None:
    with server(environment, tmp_path / "web.log", processes=2) as (process, port):
        pids = children(process.pid)

        def all_answer_with(deployment: Deployment) -> bool:
            request(port, "GET", "/readyz")  # of whichever process; it begins to load
            return answering() == dict.fromkeys(pids, deployment.pk)

        wait_until(lambda: all_answer_with(deployed.deployments.get()))
        rival = tiny_model(tmp_path, seed=1)
        folder = build(rival, tmp_path / deployed.corpus.path, tmp_path / "indexes", Activity(quiet=True), device="cpu")
        second = record_index(folder, model=record_model(rival))
        active = Deployment.activate(second)
        wait_until(lambda: all_answer_with(active))
        killed = min(pids)
        os.kill(int(killed), signal.SIGKILL)
        wait_until(lambda: killed not in children(process.pid))
        assert answering().keys() == pids  # it will be missed when it has been silent for a while
    assert answering().keys() == {killed}
