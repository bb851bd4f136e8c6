"""What is recorded of a collection: over REST, on the command line and on its page, with one service behind them."""

from __future__ import annotations

import json
from html import unescape
from io import StringIO
from typing import Any
from urllib.parse import quote

import pytest
from django.contrib.auth.models import AnonymousUser, Group
from django.core.management import CommandError, call_command
from django.test import Client

from tests.web.conftest import Person
from tests.web.operating import TokenClient, problem
from webapp.access.collections import access_of
from webapp.models import AuditEntry, Collection, Deployment

pytestmark = pytest.mark.postgresql_first

PAGE = "/manage/documents/collections/collection/"


@pytest.fixture
def board(db: None) -> Collection:
    board = Collection.objects.create(name="board", title="The board", private=True, weight=2.0)
    board.groups.add(Group.objects.create(name="board members"))
    return board


def put(client: Client, name: str, settings: Any) -> Any:
    return client.put(f"/api/v1/collections/{quote(name, safe='')}", json.dumps(settings), "application/json")


def test_a_collection_is_set_up_and_what_is_not_given_stays(program: TokenClient) -> None:
    Group.objects.create(name="editors")
    made = put(program, "plans/2026", {"title": " City  plans", "private": True, "groups": ["editors"]})
    assert made.status_code == 201
    whole = {"name": "plans/2026", "title": "City plans", "description": "", "private": True, "groups": ["editors"]}
    assert made.json() == whole | {"weight": 1.0}
    changed = put(program, "plans/2026", {"weight": 2})
    assert changed.status_code == 200 and changed.json() == whole | {"weight": 2.0}
    assert program.get("/api/v1/collections/plans%2F2026").json() == changed.json()
    assert put(program, "plans/2026", {"groups": [], "title": ""}).json()["groups"] == []
    entries = list(AuditEntry.objects.filter(action="collection.edit").order_by("pk"))
    assert [(one.name, one.target, one.details["groups"]) for one in entries] == [
        ("Stella", "plans/2026", ["editors"]),
        ("Stella", "plans/2026", ["editors"]),
        ("Stella", "plans/2026", []),
    ]
    assert entries[1].details == {"title": "City plans", "private": True, "groups": ["editors"], "weight": 2.0}


def test_a_name_is_written_as_documents_write_it(program: TokenClient) -> None:
    assert put(program, " press  room ", {}).json()["name"] == "press room"
    assert put(program, "press\n room\x03", {}).json()["name"] == "press room"
    assert put(program, "press room", {}).status_code == 200
    assert program.get("/api/v1/collections/press%20%20room").status_code == 200


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *[("weight", value) for value in (0, -1, 1e9, "2", True, None)],
        *[("title", value) for value in ("x" * 201, 7, "\ud800", None)],
        ("description", "x" * 1001),
        ("description", "a\0b"),
        ("private", "yes"),
        ("groups", ["nobody"]),
        ("groups", "board members"),
        ("groups", ["\0"]),
        ("colour", "red"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_kept(program: TokenClient, field: str, value: Any) -> None:
    errors = problem(put(program, "board", {field: value}), 400)["errors"]
    assert errors[0]["field"].startswith(field), errors
    assert not Collection.objects.exists() and not AuditEntry.objects.exists()


def test_a_name_has_a_length(program: TokenClient) -> None:
    for name in ("x" * 101, " "):
        assert problem(put(program, name, {}), 400)["errors"][0]["field"] == "name"
    problem(program.get(f"/api/v1/collections/{'x' * 101}"), 404)
    problem(program.delete(f"/api/v1/collections/{'x' * 101}"), 404)


def test_a_private_collection_is_not_made_public_unsaid(program: TokenClient, board: Collection) -> None:
    for address in ("/api/v1/collections/board", "/api/v1/collections/board?public=false"):
        assert "private" in problem(program.delete(address), 409)["detail"]
    problem(program.delete("/api/v1/collections/board?public=yes"), 400)
    problem(program.delete("/api/v1/collections/board", json.dumps({"public": True}), "application/json"), 400)
    assert access_of(None).hidden == frozenset() and "board" in _hidden()
    assert program.delete("/api/v1/collections/board?public=true").status_code == 204
    assert "board" not in _hidden()
    problem(program.get("/api/v1/collections/board"), 404)
    problem(program.delete("/api/v1/collections/board?public=true"), 404)
    entry = AuditEntry.objects.get(action="collection.remove")
    assert (entry.target, entry.details["private"], entry.details["groups"]) == ("board", True, ["board members"])


def _hidden() -> frozenset[str]:
    return access_of(AnonymousUser()).hidden


def test_a_public_collection_is_deleted_without_confirmation(program: TokenClient, board: Collection) -> None:
    assert put(program, "board", {"private": False, "more_readers": True}).status_code == 200
    assert program.delete("/api/v1/collections/board").status_code == 204


def test_more_people_read_one_only_if_that_is_confirmed(program: TokenClient, board: Collection) -> None:
    Group.objects.create(name="cooks")
    for wider in ({"private": False}, {"groups": ["board members", "cooks"]}, {"groups": ["cooks"]}):
        detail = problem(put(program, "board", {**wider, "weight": 3}), 409)["detail"]
        assert "is read by admins, board members" in detail and "(more_readers)" in detail
        problem(put(program, "board", {**wider, "more_readers": False}), 409)
    board.refresh_from_db()
    assert board.private and board.weight == 2.0 and not AuditEntry.objects.exists()
    for equal in ({"weight": 3}, {"groups": []}, {"private": True, "groups": []}):
        assert put(program, "board", equal).status_code == 200
    with pytest.raises(CommandError, match="would be by admins, cooks"):
        run("set", "board", "--group", "cooks")
    assert "admins, cooks" in run("set", "board", "--group", "cooks", "--more-readers")
    assert put(program, "board", {"private": False, "more_readers": True}).json()["private"] is False
    assert put(program, "board", {"groups": [], "weight": 1}).status_code == 200, "everybody reads it already"


def test_its_page_lets_more_people_read_it_only_if_that_is_confirmed(board: Collection, staff: Person) -> None:
    page, wider = f"{PAGE}?name=board", {"weight": "1"}
    assert "Let more people read it" in staff.client.get(page).content.decode()
    refused = staff.client.post(page, wider)
    told = refused.content.decode()
    assert refused.status_code == 422 and "would be by everybody who may ask: tick this to confirm it." in told
    board.refresh_from_db()
    assert board.private
    readers = [Group.objects.create(name=name).pk for name in ("captains", "cooks")]
    assert staff.client.post(page, {"private": "on", "groups": readers, **wider}).status_code == 422
    confirmed = {"private": "on", "groups": readers, "more_readers": "on", **wider}
    assert staff.client.post(page, confirmed).status_code == 302
    fewer = {"private": "on", "groups": readers[:1], **wider}  # needs none
    assert staff.client.post(page, fewer).status_code == 302
    assert staff.client.post(page, {"more_readers": "on", **wider}).status_code == 302
    board.refresh_from_db()
    assert not board.private and "Let more people read it" not in staff.client.get(page).content.decode()


def test_its_page_removes_it(board: Collection, staff: Person) -> None:
    page = staff.client.get(f"{PAGE}?name=board").content.decode()
    assert 'name="public"' in page and '<h1 dir="auto">The board</h1>' in page
    said = staff.client.post(f"{PAGE}remove/", {"name": "board"}, follow=True).content.decode()
    assert "is private" in said and Collection.objects.exists()
    assert staff.client.post(f"{PAGE}remove/", {"name": "board", "public": "on"}).status_code == 302
    assert not Collection.objects.exists() and AuditEntry.objects.get().action == "collection.remove"
    assert "Remove it" not in staff.client.get(f"{PAGE}?name=board").content.decode()


def test_groups_are_of_a_private_collection(program: TokenClient, staff: Person) -> None:
    group, curators = Group.objects.create(name="editors"), Group.objects.get(name="curators")
    [error] = problem(put(program, "press", {"groups": ["editors"]}), 400)["errors"]
    assert error["field"] == "groups" and "make it private" in error["detail"]
    with pytest.raises(CommandError, match="make it private"):
        run("set", "press", "--group", "editors")
    page = staff.client.post(f"{PAGE}?name=press", {"groups": [group.pk, curators.pk], "weight": "1"})
    said = unescape(page.content.decode())
    assert page.status_code == 422 and "Only a private collection has groups" in said
    assert "curators (a role: they also review feedback and see evaluations)" in said and "editors</label>" in said
    assert not Collection.objects.exists()
    assert put(program, "press", {"private": True, "groups": ["editors"]}).status_code == 201
    assert put(program, "press", {"private": False, "more_readers": True}).status_code == 200, (
        "its groups are kept for another time"
    )


def run(*arguments: str) -> str:
    out = StringIO()
    call_command("collections", *arguments, stdout=out)
    return out.getvalue()


def test_the_command_line_does_the_same(answering: Deployment) -> None:
    Group.objects.create(name="editors")
    assert run("list") == "tiny  everybody, weight 1, 12 documents\n"
    assert run("set", "press", "--title", "The press", "--private", "--group", "editors", "--weight", "2.5") == (
        "press  The press: admins, editors, weight 2.5\n"
    )
    assert run("set", "press", "--weight", "2") == "press  The press: admins, editors, weight 2\n"
    assert run("list").splitlines()[0] == "press  The press: admins, editors, weight 2, 0 documents"
    assert run("set", "press", "--group", "") == "press  The press: admins, weight 2\n"
    for arguments, said in (
        (("set", "press", "--weight", "nan"), "number from 0.001"),
        (("set", "press", "--group", "x"), "no group 'x'"),
        (("remove", "press"), "is private"),
        (("remove", "others"), "Nothing is recorded of 'others'"),
    ):
        with pytest.raises(CommandError, match=said):
            run(*arguments)
    assert run("remove", "press", "--public") == ""
    assert AuditEntry.objects.filter(name="command line", action__startswith="collection.").count() == 4
