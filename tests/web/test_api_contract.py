"""Whatever is sent to the API, it answers as its description says: requests are made up by Schemathesis."""

from __future__ import annotations

from collections.abc import Iterator

import hypothesis
import pytest
import schemathesis
from django.core import signals
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from schemathesis import Case
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi import checks

from tests.nightly import NIGHTLY
from tests.web.conftest import FakeEngine, Person
from tests.web.described import described
from tests.web.operating import evaluation, job, question_set
from tests.web.pages import stored
from webapp.models import ApiToken, JobState, QuestionSet, Schedule

pytestmark = pytest.mark.postgresql_only

SETTINGS = hypothesis.settings(
    max_examples=15 if NIGHTLY else 2,  # of each operation
    derandomize=not NIGHTLY,
    deadline=None,
    database=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)
CHECKS = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
    checks.response_headers_conformance,
]


def description() -> schemathesis.BaseSchema:
    description = schemathesis.openapi.from_dict(described())
    description.app = get_wsgi_application()
    # Wrong values for each of the hundred settings of jobs would be hundreds of requests; test_api_jobs.py sends some.
    description.config.phases.coverage.enabled = False
    return description


schema = description()


@pytest.fixture
def _one_transaction() -> Iterator[None]:
    """A request that ends closes its connection, and with it this test's transaction; not here."""
    for signal in (signals.request_started, signals.request_finished):
        signal.disconnect(close_old_connections)
    yield
    for signal in (signals.request_started, signals.request_finished):
        signal.connect(close_old_connections)


# Documents, collections and purges need the files of a corpus: tests/web/documents/test_contract.py.
@schema.exclude(path_regex="^/api/v1/(documents|originals|collections|purges)").parametrize()
@SETTINGS
def test_the_api_keeps_to_its_description(
    case: Case, engine: FakeEngine, staff: Person, _one_transaction: None
) -> None:
    existing = _existing(case.operation.path)
    for name in case.path_parameters.keys() & existing.keys():
        case.path_parameters[name] = existing[name]
    _, token = ApiToken.issue(staff.user, "test", ["ask", "feedback", "operate"])
    case.headers = {**(case.headers or {}), "Authorization": f"Bearer {token}"}
    case.call_and_validate(checks=CHECKS)


def _existing(address: str) -> dict[str, object]:
    """An existing record for each kind of id that an address has."""
    kept = stored.store()
    index = kept.deployment.index
    measured = evaluation(index, question_set(f"dev{QuestionSet.objects.count()}"))
    records = {"corpora": index.corpus_id, "models": index.model_id, "indexes": index.pk, "evaluations": measured.pk}
    return {
        "answer_id": str(kept.pk),
        "job_id": str(job(state=JobState.STOPPED).pk),
        "record_id": records.get(address.split("/")[3], measured.questions_id),
        "deployment_id": kept.deployment_id,
        "schedule_id": Schedule.objects.create(corpus_name=index.corpus.name, trigger="every", hours=1).pk,
    }
