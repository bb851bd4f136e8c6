"""What the question box offers to look in, and how collections are looked after: pages, REST and tools."""

from __future__ import annotations

import datetime
import json
import re
from html import unescape

import pytest
from django.contrib.auth.models import Group
from django.test import Client

from tests.web.conftest import FakeEngine, Person
from tests.web.operating import call_tool, problem
from webapp.documents import service as documents
from webapp.documents.inputs import DocumentInput, Text
from webapp.models import AskedAnswer, AuditEntry, Collection, Deployment

GUIDE = DocumentInput(
    Text("Turku is a city in Finland."), "turku", "Turku", licence="CC0", tags=("cities",), collection="travel"
)
PAPERS = DocumentInput(
    Text("The vault is opened by the word heron."),
    "vault",
    "Vault",
    licence="CC0",
    language="fi",
    date=datetime.date(2026, 1, 31),
    tags=("keys",),
    collection="board",
)


@pytest.fixture
def travel(answering: Deployment) -> None:
    documents.add([GUIDE], by=None)


@pytest.fixture
def board(travel: None) -> Collection:
    documents.add([PAPERS], by=None)
    return Collection.objects.create(name="board", title="The board", private=True, weight=2.0)


def box(person: Person) -> str:
    response = person.client.get("/")
    assert response.status_code == 200
    return unescape(response.content.decode())


# ── The question box ────────────────────────────────────────────────────────────────────────────────────────────────


def test_with_one_collection_there_is_no_choice_of_collections(answering: Deployment, outsider: Person) -> None:
    assert "Where to look" not in box(outsider)
    documents.add([DocumentInput(Text("A plain text."), "plain", "Plain")], by=None)
    outsider.client.post("/", {"question": "What?"})
    assert "Where to look" not in box(outsider)


def test_before_an_engine_is_loaded_there_is_no_choice_of_collections(deployed: Deployment, outsider: Person) -> None:
    assert "Where to look" not in box(outsider)


def test_only_what_one_may_read_is_offered(board: Collection, outsider: Person, staff: Person) -> None:
    page = box(outsider)
    assert "Where to look" in page and 'value="travel"' in page and 'value="cities"' in page
    assert not {one for one in ("board", "keys", 'value="fi"', 'name="since"') if one in page}
    page = box(staff)
    assert "The board" in page and 'value="keys"' in page and 'value="fi"' in page and 'name="since"' in page


def test_the_box_looks_where_it_is_told_and_goes_on_to(board: Collection, staff: Person) -> None:
    sent = {"question": "Where?", "collections": ["board", "travel"], "tags": "keys, cities,", "since": "2026-01-01"}
    response = staff.client.post("/", sent, follow=True)
    asked = AskedAnswer.objects.get()
    assert asked.collections == ["board", "travel"]
    assert asked.filters == {"tags": ["keys", "cities"], "since": "2026-01-01"}
    assert [block["title"] for block in asked.payload["evidence"]] == ["Vault"]
    page = unescape(response.content.decode())
    assert "Looked in" in page and "from 1 January 2026" in page
    assert (
        'value="keys, cities"' in page
        and 'value="2026-01-01"' in page
        and '<details class="where" id="where" open' in page
    )


def test_the_page_of_a_document_leads_to_a_box_that_looks_in_it(travel: None, staff: Person) -> None:
    documents.add([DocumentInput(Text("Rauma has lace."), "rauma", "“Rauma” & Co #1", licence="CC0")], by=None)
    page = staff.client.get("/manage/documents/document/?id=rauma").content.decode()
    (address,) = re.findall(r'href="([^"]+)">Ask about it<', page)
    page = unescape(staff.client.get(unescape(address)).content.decode())
    assert 'name="title" value="“Rauma” & Co #1"' in page and '<details class="where" id="where" open>' in page


def test_an_error_of_a_filter_keeps_the_choices(board: Collection, staff: Person) -> None:
    sent = {"question": "Where?", "collections": ["travel"], "since": "2026-02-01", "until": "2026-01-01"}
    response = staff.client.post("/", sent)
    page = unescape(response.content.decode())
    assert response.status_code == 422 and "The last day must not be before the first." in page
    assert 'value="travel" checked' in page and 'value="2026-02-01"' in page


def test_a_question_without_a_scope_goes_the_way_it_always_went(engine: FakeEngine, outsider: Person) -> None:
    outsider.client.post("/", {"question": "Who?"})
    outsider.client.post("/api/v1/ask", json.dumps({"question": "When?"}), content_type="application/json")
    assert engine.scopes == [None, None]


def test_gaps_are_filled_from_what_one_may_read(engine: FakeEngine, outsider: Person, staff: Person) -> None:
    Collection.objects.create(name="board", private=True)
    body = json.dumps({"sentence": "The word is [MASK]."})
    for person in (outsider, staff):
        person.client.get("/fill/", {"sentence": "The word is [MASK]."})
        person.client.post("/api/v1/fill", body, content_type="application/json")
    hidden = [scope.wanted.hidden_collections if scope else None for scope in engine.scopes]
    assert hidden == [{"board"}, {"board"}, None, None]


# ── Looking after them ──────────────────────────────────────────────────────────────────────────────────────────────


def test_collections_are_listed_and_edited(travel: None, staff: Person, outsider: Person) -> None:
    page = staff.client.get("/manage/documents/collections/").content.decode()
    assert "travel" in page and "tiny" in page and "everybody who may ask" in page
    group = Group.objects.create(name="travellers")
    address = "/manage/documents/collections/collection/?name=travel"
    assert staff.client.get(address).status_code == 200
    sent = {"title": "Guides", "description": "", "private": "on", "groups": [group.pk], "weight": "2.5"}
    assert staff.client.post(address, sent).status_code == 302
    record = Collection.objects.get()
    assert (record.name, record.title, record.private, record.weight) == ("travel", "Guides", True, 2.5)
    assert list(record.groups.all()) == [group]
    entry = AuditEntry.objects.get(action="collection.edit")
    assert entry.name == "Stella" and entry.details["groups"] == ["travellers"] and entry.details["private"]
    page = staff.client.get("/manage/documents/collections/").content.decode()
    assert "Guides" in page and "travellers" in page and "private" in page and ">2.5</td>" in page
    assert outsider.client.get("/api/v1/documents/turku").status_code == 404


@pytest.mark.parametrize("weight", ["0", "-1", "nan", "1e9", ""])
def test_a_weight_is_positive_and_bounded(travel: None, staff: Person, weight: str) -> None:
    response = staff.client.post("/manage/documents/collections/collection/?name=travel", {"weight": weight})
    assert response.status_code == 422 and not Collection.objects.exists()


def test_a_private_collection_can_be_made_before_its_documents(answering: Deployment, staff: Person) -> None:
    assert staff.client.get("/manage/documents/collections/collection/").status_code == 302
    address = "/manage/documents/collections/collection/?name=%20plans%2F2026"
    assert staff.client.post(address, {"private": "on", "weight": "1"}).status_code == 302
    assert Collection.objects.get().name == "plans/2026"
    assert ">1</td>" in staff.client.get("/manage/documents/collections/").content.decode()
    page = unescape(staff.client.get(address).content.decode())
    assert "/manage/documents/add/?collection=plans%2F2026" in page
    form = staff.client.get("/manage/documents/add/?collection=plans%2F2026").content.decode()
    assert '<option value="plans/2026" selected>plans/2026 – read by admins</option>' in form
    assert "<details open>" in form


def test_documents_are_listed_by_collection(board: Collection, staff: Person) -> None:
    page = staff.client.get("/manage/documents/?collection=board").content.decode()
    assert "Vault" in page and "Turku" not in page and "Of the collection" in page
    assert (
        "<dt>Collection</dt><dd><bdi>board</bdi></dd>"
        in staff.client.get("/manage/documents/document/?id=vault").content.decode()
    )


def test_rest_lists_what_one_may_look_in(board: Collection, outsider: Person, staff: Person) -> None:
    listed = outsider.client.get("/api/v1/collections").json()
    assert [(one["name"], one["documents"]) for one in listed] == [("tiny", 12), ("travel", 1)]
    assert listed[1]["tags"] == ["cities"] and listed[1]["since"] is None
    [own] = [one for one in staff.client.get("/api/v1/collections").json() if one["name"] == "board"]
    assert own == {
        "name": "board",
        "title": "The board",
        "description": "",
        "private": True,
        "weight": 2.0,
        "documents": 1,
        "languages": ["fi"],
        "tags": ["keys"],
        "since": "2026-01-31",
        "until": "2026-01-31",
    }
    problem(outsider.client.get("/api/v1/collections?name=board"), 400)


def test_language_models_are_told_the_collections(board: Collection) -> None:
    told = call_tool(Client(), "collections")
    assert [one["name"] for one in told["structuredContent"]["collections"]] == ["tiny", "travel"]
