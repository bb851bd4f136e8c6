"""Whatever is sent to the API, it answers as its description says: requests are made up by Schemathesis."""

from __future__ import annotations

import json
from collections.abc import Iterator

import hypothesis
import pytest
import schemathesis
from django.core import signals
from django.db import close_old_connections
from django.test import RequestFactory
from schemathesis import Case
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi import checks

from tests.web.conftest import FakeEngine
from tests.web.pages import stored
from webapp.api.views import SchemaView
from webapp.wsgi import application

CHECKS = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
    checks.response_headers_conformance,
]


def _description() -> schemathesis.BaseSchema:
    response = SchemaView.as_view()(RequestFactory().get("/api/v1/schema/?format=json"))
    description = schemathesis.openapi.from_dict(json.loads(response.render().content))
    description.app = application
    return description


schema = _description()


@pytest.fixture
def _one_transaction() -> Iterator[None]:
    """A request that ends closes its connection, and with it this test's transaction; not here."""
    for signal in (signals.request_started, signals.request_finished):
        signal.disconnect(close_old_connections)
    yield
    for signal in (signals.request_started, signals.request_finished):
        signal.connect(close_old_connections)


@schema.parametrize()
@hypothesis.settings(max_examples=15, deadline=None, database=None, suppress_health_check=list(hypothesis.HealthCheck))
def test_the_api_keeps_to_its_description(case: Case, engine: FakeEngine, _one_transaction: None) -> None:
    kept = stored.store()
    if "answer_id" in case.path_parameters:
        case.path_parameters["answer_id"] = str(kept.pk)
    case.call_and_validate(checks=CHECKS)
