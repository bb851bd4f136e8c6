"""Whatever is sent about documents, the API answers as its description says; the corpus has its files here."""

from __future__ import annotations

from uuid import UUID

import pytest
from django.test import Client
from schemathesis import Case

from tests.attacks.texts import SHORT
from tests.core.documents.pdfs import column, pdf
from tests.web.conftest import Person
from tests.web.test_api_contract import CHECKS, SETTINGS, _one_transaction, description  # noqa: F401  (a fixture)
from webapp.documents import fetching
from webapp.documents import service as documents
from webapp.documents.inputs import DocumentInput, File, Text
from webapp.models import ApiToken, Deployment, Document, Fetch, FetchState

schema = description().include(path_regex="^/api/v1/(documents|document-changes|originals|collections|purges)")


@pytest.fixture
def no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """An address that is to be fetched fails at once."""

    def fail(fetch_id: UUID) -> None:
        Fetch.objects.filter(pk=fetch_id).update(state=FetchState.FAILED, reason="there is no worker here.")

    monkeypatch.setattr(fetching, "_send", fail)


@pytest.mark.postgresql_only
@schema.parametrize()
@SETTINGS
def test_documents_keep_to_the_description(
    case: Case,
    answering: Deployment,
    staff: Person,
    _one_transaction: None,  # noqa: F811
    no_worker: None,
) -> None:
    if "document_id" in case.path_parameters:
        number = Document.objects.count()
        text = f"Turku is a city, looked at {number} times."
        report = File(pdf([column([text])], title="Turku"), "report.pdf")
        added = DocumentInput(report if number % 2 else Text(text), f"turku-{number}", "Turku", licence="CC0")
        documents.add([added], by=staff.user)
        case.path_parameters["document_id"] = added.document_id
    _, token = ApiToken.issue(staff.user, "test", ["operate"])
    case.headers = {**(case.headers or {}), "Authorization": f"Bearer {token}"}
    case.call_and_validate(checks=CHECKS)


@pytest.mark.parametrize("text", SHORT.values(), ids=SHORT)
def test_no_title_is_like_a_hostile_text(text: str, answering: Deployment) -> None:
    response = Client().get("/api/v1/documents", {"title": text})
    assert response.status_code in (200, 400), response.content
    if response.status_code == 200:
        assert response.json()["results"] == []
