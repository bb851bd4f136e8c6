"""Two people start the same job in the same moment: one job begins, and who came second is led to it."""

from __future__ import annotations

import html
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection
from django.http import HttpResponse

from tests.web.conftest import Person
from tests.web.pages import stored
from webapp.jobs import queue
from webapp.jobs import service as jobs
from webapp.models import AuditEntry, Job

pytestmark = pytest.mark.both_databases


@pytest.mark.django_db(transaction=True)
def test_of_two_equal_starts_at_once_the_second_leads_to_the_job_of_the_first(
    staff: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = stored.deployment().index
    form = {"model": index.model_id, "corpus": index.corpus_id, "shard_rows": 7, "search": "auto"}
    both_have_been_read = threading.Barrier(2, timeout=60)
    fingerprint = jobs._fingerprint

    def at_once(kind: str, parameters: Mapping[str, Any]) -> str:
        both_have_been_read.wait()
        return fingerprint(kind, parameters)

    def start(_number: int) -> HttpResponse:
        try:
            return staff.client.post("/manage/jobs/new/index/", form)  # type: ignore[return-value]
        finally:
            connection.close()

    monkeypatch.setattr(jobs, "_fingerprint", at_once)
    monkeypatch.setattr(queue, "_send", lambda *_: None)
    with ThreadPoolExecutor(2) as threads:
        started, refused = sorted(threads.map(start, range(2)), key=lambda response: response.status_code)
    address = f"/manage/jobs/{Job.objects.get().pk}/"
    assert (started.status_code, started["Location"]) == (302, address)
    assert refused.status_code == 409
    assert f'The same is being done already: <a href="{address}">' in html.unescape(refused.content.decode())
    assert AuditEntry.objects.count() == 1
