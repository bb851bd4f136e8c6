"""A passage says under which licence its document stands and whom it is by, wherever it is shown."""

from __future__ import annotations

import json

import pytest
from django.test import Client

from tests.web.asked import ask
from tests.web.conftest import Person
from tests.web.operating import TokenClient, call_tool
from tests.web.pages.pages import block_part, plain
from webapp.documents import service as documents
from webapp.documents.inputs import DocumentInput, OwnText, Text
from webapp.models import AskedAnswer, Collection, Deployment

LETTER = DocumentInput(
    Text("The library in Harbour Street opens at nine."),
    "letter",
    "Harbour Library",
    licence="Internal use only",
    attribution="Ada & Example",
    collection="archive",
)
QUESTION = "When does the library in Harbour Street open?"


@pytest.fixture
def asked(answering: Deployment) -> AskedAnswer:
    documents.add([LETTER], by=None)
    return ask(QUESTION, k=20)


def card(person: Person, asked: AskedAnswer, title: str = "Harbour Library") -> str:
    """What the card of a document's block says."""
    block_id = next(one["block_id"] for one in asked.payload["evidence"] if one["title"] == title)
    part = block_part(person.client.get(f"/answers/{asked.pk}/").content.decode(), block_id)
    return plain(part)


def test_the_card_of_a_passage_says_it(asked: AskedAnswer, staff: Person) -> None:
    assert "Licence: Internal use only · Ada & Example" in card(staff, asked)
    assert "private collection" not in card(staff, asked)
    other = next(one["title"] for one in asked.payload["evidence"] if one["title"] != "Harbour Library")
    assert "icence" not in card(staff, asked, other), "the foot of the page has the corpus's"
    documents.change("letter", DocumentInput(OwnText(), licence="CC BY 4.0"), by=None)
    assert "CC BY 4.0 · Ada & Example" in card(staff, asked)
    documents.change("letter", DocumentInput(OwnText(), licence="", attribution=""), by=None)
    assert "Licence not stated" in card(staff, asked)
    documents.change("letter", DocumentInput(OwnText(), licence="CC0"), by=None)
    documents.remove(["letter"], by=None)
    assert "CC0" in card(staff, asked), "as it was last"


def test_a_card_does_not_repeat_whom_the_foot_names(asked: AskedAnswer, staff: Person) -> None:
    corpus = asked.deployment.index.corpus
    corpus.attribution = "Its writers. Ada & Example"
    corpus.save()
    assert "Internal use only" in card(staff, asked) and "Ada" not in card(staff, asked)


def test_the_card_of_a_private_passage_says_that(asked: AskedAnswer, staff: Person) -> None:
    Collection.objects.create(name="archive", title="The archive", private=True)
    assert "private collection The archive" in card(staff, asked)


def test_programs_and_agents_get_licence_and_author(asked: AskedAnswer, program: TokenClient) -> None:
    told = program.get(f"/api/v1/answers/{asked.pk}").json()
    body = json.dumps({"question": QUESTION, "k": 20})
    found = Client().post("/api/v1/retrieve", body, content_type="application/json").json()["blocks"]
    agent = call_tool(Client(), "ask", question=QUESTION, k=20)["structuredContent"]["evidence"]
    retrieved = call_tool(Client(), "retrieve", question=QUESTION, k=20)["structuredContent"]["blocks"]
    corpus = asked.deployment.index.corpus
    letter = next(one["block_id"] for one in found if one["title"] == LETTER.title)
    for block in (
        Client().get(f"/api/v1/blocks/{letter}").json(),
        call_tool(Client(), "read_block", block_id=letter)["structuredContent"],
    ):
        shown = (block["licence"], block["attribution"], block["collection"])
        assert shown == ("Internal use only", "Ada & Example", "archive")
    for blocks in (told["evidence"], found, agent, retrieved):
        assert {one["collection"] for one in blocks} == {"archive", corpus.name}
        said = {(one["title"] == LETTER.title, one["licence"], one["attribution"]) for one in blocks}
        own = (True, "Internal use only", "Ada & Example")
        assert said == {own, (False, corpus.licence, corpus.attribution)}


def test_passages_of_a_filling_say_it(asked: AskedAnswer, staff: Person) -> None:
    page = staff.client.get("/fill/", {"sentence": "The library in Harbour Street opens at [MASK]."}).content.decode()
    assert "Harbour Library" in page and "Internal use only" in page
