"""Many documents are put by one edit: those that are there are changed, others added."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from django.http import HttpResponse

from tests.web.documents.conftest import meanwhile
from tests.web.operating import TokenClient, post, problem
from webapp.documents import fetching, service
from webapp.documents.inputs import DocumentInput, OwnText, Text
from webapp.documents.viewing import show
from webapp.models import Collection, CorpusState, Deployment
from webapp.serving.states import EditConflict

TURKU = {"id": "turku", "title": "Turku", "text": "Turku is a city in Finland."}


def test_many_are_added_or_changed_by_one_edit(deployed: Deployment, program: TokenClient) -> None:
    def put(*sent: dict[str, object], **headers: str) -> HttpResponse:
        response: HttpResponse = program.put(
            "/api/v1/documents/bulk", {"documents": sent}, content_type="application/json", headers=headers
        )
        return response

    assert post(program, "documents", TURKU | {"licence": "CC0", "tags": ["cities"]}).status_code == 201
    oulu = {"id": "oulu", "title": "Oulu", "text": "Oulu is by the sea."}
    turku = {"id": TURKU["id"], "title": "Turku", "text": "Turku is by a river."}
    done = put(turku, oulu, **{"Idempotency-Key": "night"})
    assert done.status_code == 200 and done.json()["changes"] == 2, done.content
    assert [(one["id"], one["status"]) for one in done.json()["documents"]] == [
        (TURKU["id"], "changed"),
        ("oulu", "current"),
    ]
    assert CorpusState.objects.filter(has_edits=True).count() == 2  # one an edit
    shown = program.get(f"/api/v1/documents/{TURKU['id']}").json()
    assert (shown["text"], shown["licence"], shown["tags"]) == ("Turku is by a river.", "CC0", ["cities"])

    again = put(turku, oulu, **{"Idempotency-Key": "night"})
    assert again["Idempotency-Replayed"] == "true" and again.json()["documents"] == done.json()["documents"]
    assert put(turku, oulu | {"licence": "CC0"}).json()["changes"] == 1
    assert put(turku | {"text": "Gone."}, {"id": "kemi", "title": "Kemi"}).status_code == 400
    problem(put(oulu, oulu), 422)
    assert program.get(f"/api/v1/documents/{TURKU['id']}").json()["text"] == "Turku is by a river."


@pytest.mark.parametrize("moment", [(fetching, "fetched"), (service.Edit, "made"), (service.Edit, "_commit")])
@pytest.mark.parametrize("address", ["bulk", "turku"])
def test_fields_that_are_not_given_keep_a_concurrent_change(
    address: str, moment: tuple[Any, str], deployed: Deployment, program: TokenClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def another() -> None:
        service.change("turku", DocumentInput(OwnText(), licence="Secret", tags=("new",)), by=None)

    assert post(program, "documents", TURKU | {"licence": "CC0"}).status_code == 201
    meanwhile(monkeypatch, *moment, another)
    told = TURKU | {"text": "Turku is by a river."}
    sent = {"documents": [told]} if address == "bulk" else {"title": told["title"], "text": told["text"]}
    done = program.put(f"/api/v1/documents/{address}", sent, content_type="application/json")
    assert (done.status_code, done.json()["changes"]) == (200, 1), done.content
    shown = program.get("/api/v1/documents/turku").json()
    assert (shown["text"], shown["licence"], shown["tags"]) == ("Turku is by a river.", "Secret", ["new"])


def test_the_text_that_is_put_takes_the_place_of_one_of_meanwhile(
    deployed: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    turku = DocumentInput(Text(TURKU["text"]), "turku", "Turku")
    service.add([turku], by=None)
    other = DocumentInput(Text("Another text."), title="Turku")
    meanwhile(monkeypatch, service.Edit, "made", lambda: service.change("turku", other, by=None))
    assert service.add_or_change([turku], by=None).changes, "it was as it was put, and is no more"
    assert show("turku").text == TURKU["text"]
    meanwhile(monkeypatch, service.Edit, "made", lambda: service.change("turku", other, by=None))
    service.change("turku", DocumentInput(OwnText(), licence="CC0"), by=None)
    assert (show("turku").text, show("turku").about.licence) == ("Another text.", "CC0")


def test_a_bulk_put_takes_no_if_match(deployed: Deployment, program: TokenClient) -> None:
    for tags in ("*", '"0f6c3d9c4be1f2a3"'):
        done = program.put(
            "/api/v1/documents/bulk",
            {"documents": [TURKU]},
            content_type="application/json",
            headers={"If-Match": tags},
        )
        [error] = problem(done, 400)["errors"]
        assert error["field"] == "If-Match" and "at its own address" in error["detail"]
    problem(program.get("/api/v1/documents/turku"), 404)


def test_what_is_put_does_not_take_the_place_of_what_was_added_meanwhile(
    deployed: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    oulu = DocumentInput(Text("Oulu is by the sea."), "oulu", "Oulu")
    meanwhile(monkeypatch, service.Edit, "made", lambda: service.add([oulu], by=None))
    with pytest.raises(service.DocumentExists):
        service.add_or_change([replace(oulu, source=Text("Another text."))], by=None)
    meanwhile(monkeypatch, service.Edit, "made", lambda: service.remove(["oulu"], by=None))
    with pytest.raises(EditConflict):
        service.add_or_change([replace(oulu, source=Text("Another text."))], by=None)
    assert service.add_or_change([oulu], by=None).changes


def test_what_is_put_leaves_a_private_collection_only_if_that_is_said(
    deployed: Deployment, program: TokenClient
) -> None:
    Collection.objects.create(name="board", private=True)
    Collection.objects.create(name="open")
    minutes = {"id": "minutes", "title": "Minutes", "text": "The board met.", "collection": "board"}
    assert post(program, "documents", minutes).status_code == 201
    address = "/api/v1/documents/bulk"
    for more, status in (({}, 409), ({"more_readers": True}, 200)):
        sent = {"documents": [minutes | {"collection": "open"} | more]}
        assert program.put(address, sent, content_type="application/json").status_code == status
    kept = {"documents": [{name: minutes[name] for name in ("id", "title", "text")}]}
    assert program.put(address, kept, content_type="application/json").json()["changes"] == 0
