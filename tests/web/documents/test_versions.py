"""Of two who change the same document, the second learns of it: `If-Match` over REST."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client

from tests.web.documents.conftest import meanwhile
from tests.web.operating import TokenClient, post, problem
from webapp.documents import api, service
from webapp.documents.inputs import DocumentInput, Text
from webapp.models import Collection, CorpusState, Deployment, IdempotencyKey

ADDRESS = "/api/v1/documents/turku"
TURKU = {"id": "turku", "title": "Turku", "text": "Turku is a city in Finland."}
BODIES = {"put": {"title": "Turku", "text": "New."}, "patch": {"licence": "CC BY 4.0"}, "delete": None}
Edit = Callable[..., HttpResponse]


@pytest.fixture
def edit(deployed: Deployment, program: TokenClient) -> Edit:
    """Edits the document by a method, with If-Match and perhaps further headers."""
    assert post(program, "documents", TURKU).status_code == 201

    def send(method: str, tags: str, **headers: str) -> HttpResponse:
        told = {} if BODIES[method] is None else {"data": BODIES[method], "content_type": "application/json"}
        response: HttpResponse = getattr(program, method)(ADDRESS, headers={"If-Match": tags, **headers}, **told)
        return response

    return send


def _another(text: str) -> None:
    """An edit of the document by another person."""
    service.change("turku", DocumentInput(Text(text), title="Turku", licence="CC0"), by=None)


def _shown() -> dict[str, Any]:
    response = Client().get(ADDRESS)
    told: dict[str, Any] = response.json()
    assert response.get("ETag") == (told["version"] and f'"{told["version"]}"')
    return told


def test_an_edit_of_another_version_does_not_happen(edit: Edit) -> None:
    first = _shown()
    _another(TURKU["text"])  # the licence alone
    second = _shown()
    tag, old = f'"{second["version"]}"', f'"{first["version"]}"'
    for method in BODIES:
        told = problem(edit(method, old), 412)
        assert "changed meanwhile" in told["detail"] and told["version"] == second["version"] != first["version"]
    assert _shown() == second
    for tags in (f"{old} ,{tag}", " * ", f'"{second["version"]}-gzip"'):
        assert edit("patch", tags).status_code == 200, tags
        _another(TURKU["text"])
    assert edit("delete", tag).status_code == 204
    assert _shown()["version"] is None
    for method in BODIES:
        problem(edit(method, tag), 404)


def test_a_current_copy_is_not_sent_again(edit: Edit) -> None:
    tag, reader = Client().get(ADDRESS)["ETag"], Client()
    for tags in (tag, f'"other", {tag}', f"W/{tag}", "*"):
        response = reader.get(ADDRESS, headers={"If-None-Match": tags})
        assert (response.status_code, response.content, response["ETag"]) == (304, b"", tag), tags
    assert reader.get(ADDRESS, headers={"If-None-Match": '"other"'}).json() == _shown()
    both = {"If-None-Match": '"other"', "If-Match": '"other"'}  # the latter is for edits
    assert reader.get(ADDRESS, headers=both).json() == _shown()
    service.add([DocumentInput(Text("Oulu."), "oulu", "Oulu")], by=None)
    assert reader.get(ADDRESS, headers={"If-None-Match": tag}).status_code == 304
    _another("Another text.")
    assert reader.get(ADDRESS, headers={"If-None-Match": tag}).json()["text"] == "Another text."
    edit("delete", "*")
    removed = reader.get(ADDRESS, headers={"If-None-Match": "*"})
    assert removed.status_code == 200 and "ETag" not in removed


def test_a_copy_of_what_one_may_not_read_any_more_is_not_current(edit: Edit) -> None:
    tag = Client().get(ADDRESS)["ETag"]
    Collection.objects.create(name=_collection(), private=True)
    assert Client().get(ADDRESS, headers={"If-None-Match": tag}).status_code == 404


def _collection() -> str:
    collection: str = _shown()["collection"]
    return collection


def test_an_edit_says_the_state_that_it_led_to(
    deployed: Deployment, program: TokenClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    oulu = [DocumentInput(Text("Oulu."), "oulu", "Oulu")]
    meanwhile(monkeypatch, api, "_edit_response", lambda: service.add(oulu, by=None))
    told = post(program, "documents", TURKU).json()
    earlier, later = (f"+{row.state_id}" for row in CorpusState.objects.order_by("pk")[1:])
    assert told["corpus"].endswith(earlier) and _shown()["corpus"].endswith(later)
    assert post(program, "documents", TURKU | {"id": "new", "title": "New"}).json()["corpus"] == _shown()["corpus"]


def test_malformed_entity_tags_are_refused(edit: Edit) -> None:
    for wrong in ("", "abc", 'W/"abc"', '"a" "b"', '"a', '*, "a"', '"a b"', ","):
        for method in BODIES:
            assert [one["field"] for one in problem(edit(method, wrong), 400)["errors"]] == ["If-Match"], wrong
    assert _shown()["text"] == TURKU["text"]


@pytest.mark.parametrize("method", BODIES)
def test_no_other_edit_comes_between_check_and_commit(method: str, edit: Edit, monkeypatch: pytest.MonkeyPatch) -> None:
    meanwhile(monkeypatch, service.Edit, "_commit", lambda: _another("Another text."))
    problem(edit(method, f'"{_shown()["version"]}"'), 412)
    assert _shown()["text"] == "Another text."


def test_an_edit_that_was_made_is_replayed_though_the_version_is_another_now(edit: Edit) -> None:
    tag, key = f'"{_shown()["version"]}"', {"Idempotency-Key": "k"}
    first, again = edit("put", tag, **key), edit("put", tag, **key)
    assert (first.status_code, again.status_code, again["Idempotency-Replayed"]) == (200, 200, "true")
    for _ in range(2):  # a refused edit takes no key
        problem(edit("delete", tag, **{"Idempotency-Key": "another"}), 412)
    assert edit("delete", f'"{_shown()["version"]}"', **{"Idempotency-Key": "another"}).status_code == 204


def test_an_edit_says_the_version_that_the_next_one_names(edit: Edit, program: TokenClient) -> None:
    [made] = edit("put", "*").json()["documents"]
    assert made["version"] == _shown()["version"]
    [described] = edit("patch", f'"{made["version"]}"', **{"Idempotency-Key": "k"}).json()["documents"]
    assert described["version"] == _shown()["version"] != made["version"]
    assert edit("delete", f'"{described["version"]}"').status_code == 204
    [gone] = edit("patch", f'"{made["version"]}"', **{"Idempotency-Key": "k"}).json()["documents"]
    assert (gone["version"], gone["status"]) == (described["version"], "removed")


def test_an_edit_says_no_version_of_somebody_else(edit: Edit, monkeypatch: pytest.MonkeyPatch) -> None:
    """With it, the next `If-Match` would overwrite what this client has never seen."""
    key = {"Idempotency-Key": "k"}
    meanwhile(monkeypatch, service.Edit, "made", lambda: _another("Another text."), behind=True)
    [made] = edit("put", "*", **key).json()["documents"]
    problem(edit("patch", f'"{made["version"]}"'), 412)
    [replayed] = edit("put", "*", **key).json()["documents"]
    assert replayed["version"] == made["version"] and _shown()["text"] == "Another text."
    IdempotencyKey.objects.update(documents=["turku"])  # as 0.2.0 has kept it
    [replayed] = edit("put", "*", **key).json()["documents"]
    assert replayed["version"] is None
