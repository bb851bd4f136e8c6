"""Many documents are removed by one edit over REST, all or none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from realm_core.corpus.records import LONGEST_ID
from tests.tiny import ARTICLES
from tests.web.documents.conftest import meanwhile, titles
from tests.web.operating import TokenClient, post, problem
from webapp.documents import service
from webapp.documents.inputs import MOST_DOCUMENTS
from webapp.models import CorpusChange, CorpusState, Deployment, Document, DocumentStatus

ADDRESS = "documents/bulk/remove"
ALL = set(ARTICLES)


def removed(program: TokenClient, *ids: str, **headers: str) -> Any:
    body = json.dumps({"ids": ids})
    return program.post(f"/api/v1/{ADDRESS}", body, content_type="application/json", headers=headers)


def refused(program: TokenClient, *ids: Any) -> list[str]:
    """The fields that are wrong."""
    return [one["field"] for one in problem(post(program, ADDRESS, {"ids": ids}), 400)["errors"]]


def test_many_are_removed_by_one_edit(answering: Deployment, program: TokenClient) -> None:
    made = {"id": "guides/turku", "title": "Turku", "text": "Turku is a city in Finland."}
    assert post(program, "documents", made).status_code == 201
    before = CorpusState.objects.count()
    done = removed(program, "Nile", made["id"])
    assert (done.status_code, done.content) == (204, b"")
    assert titles() == ALL - {"Nile"}
    assert CorpusState.objects.count() == before + 1
    assert CorpusChange.objects.filter(kind="removed").count() == 2
    for document_id in ("Nile", made["id"]):
        assert program.get(f"/api/v1/documents/{document_id}").json()["status"] == DocumentStatus.REMOVED


def test_a_removal_with_a_key_is_made_once(answering: Deployment, program: TokenClient) -> None:
    key = {"Idempotency-Key": "night"}
    assert "Idempotency-Replayed" not in removed(program, "Nile", **key)
    assert post(program, "documents/Nile/restore", {}).status_code == 200
    again = removed(program, "Nile", **key)
    assert (again.status_code, again["Idempotency-Replayed"]) == (204, "true")
    assert titles() == ALL
    problem(removed(program, "Nile", "Oulu", **key), 422)


def test_one_that_is_not_there_refuses_all_by_its_place(answering: Deployment, program: TokenClient) -> None:
    first, second = sorted(ALL)[:2]
    assert removed(program, first).status_code == 204
    assert refused(program, second, "unknown", first) == ["ids[1]", "ids[2]"]
    key = {"Idempotency-Key": "k"}
    [error] = problem(removed(program, second, "unknown", **key), 400)["errors"]
    assert error == {"field": "ids[1]", "detail": "The corpus has no document 'unknown'."}
    assert titles() == ALL - {first}
    assert removed(program, second, **key).status_code == 204, "what was refused has used no key"


def test_one_that_goes_meanwhile_refuses_all(
    answering: Deployment, program: TokenClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = sorted(ALL)[:2]
    meanwhile(monkeypatch, service.Edit, "_commit", lambda: service.remove([second], by=None))
    assert refused(program, first, second) == ["ids[1]"]
    assert titles() == ALL - {second}


def test_a_list_must_have_each_document_once(answering: Deployment, program: TokenClient) -> None:
    first, second = sorted(ALL)[:2]
    told = problem(removed(program, first, second, first, first), 400)["errors"]
    assert told == [{"field": f"ids[{place}]", "detail": "It is ids[0], too."} for place in (2, 3)]
    assert refused(program) == ["ids"]
    assert refused(program, first, 7) == ["ids[1]"]
    assert refused(program, *(str(number) for number in range(MOST_DOCUMENTS + 1))) == ["ids"]
    assert titles() == ALL and not Document.objects.exists()


def test_as_many_as_are_allowed_fit_into_one_request(answering: Deployment, program: TokenClient) -> None:
    ids = [f"{number:04d}".ljust(LONGEST_ID, "\N{GRINNING FACE}") for number in range(MOST_DOCUMENTS)]
    body = json.dumps({"ids": ids}, ensure_ascii=False)
    errors = problem(program.post(f"/api/v1/{ADDRESS}", body, content_type="application/json"), 400)["errors"]
    assert errors[-1]["field"] == f"ids[{MOST_DOCUMENTS - 1}]"


def test_a_bulk_removal_takes_no_if_match(answering: Deployment, program: TokenClient) -> None:
    [error] = problem(removed(program, "Nile", **{"If-Match": "*"}), 400)["errors"]
    assert error["field"] == "If-Match" and "DELETE each that must have one" in error["detail"]
    assert titles() == ALL


def test_no_new_document_has_its_address(answering: Deployment, program: TokenClient) -> None:
    problem(post(program, "documents", {"id": "bulk/remove", "title": "A", "text": "B."}), 422)
