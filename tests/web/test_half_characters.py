"""Half a character in a job's row, which SQLite keeps: pages, forms and REST show it all the same.

PostgreSQL refuses such a row (test_malformed_jobs.py).
"""

from __future__ import annotations

import pytest

from tests.web.conftest import Person
from tests.web.operating import TokenClient, job
from webapp.models import AuditEntry, Job, JobState

HALF = "half \ud800"  # the first of the two code units of a character


@pytest.fixture
def broken(staff: Person) -> Job:
    """A stopped job with half a character in a parameter, and its entry in the audit trail."""
    parameters = {"attribution": HALF, "source": "vital"}
    made = job(kind="ingest", parameters=parameters, state=JobState.STOPPED)
    AuditEntry.record("job.start", "ingest", by=staff.user, job=made, parameters=parameters)
    return made


def test_rest_shows_a_question_mark_for_it(broken: Job, program: TokenClient) -> None:
    for address in ("jobs", f"jobs/{broken.pk}"):
        response = program.get(f"/api/v1/{address}")
        assert response.status_code == 200 and "half ?" in response.content.decode()


def test_pages_show_a_replacement_character_for_it(broken: Job, staff: Person) -> None:
    for address in (f"jobs/{broken.pk}/", f"jobs/new/ingest/?from={broken.pk}", "audit/"):
        response = staff.client.get(f"/manage/{address}")
        assert response.status_code == 200 and "half \ufffd" in response.content.decode()
    assert staff.client.get("/manage/jobs/").status_code == 200  # which names no parameters
