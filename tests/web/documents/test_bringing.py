"""Edits made while another index answered are told of, and brought over."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest
from django.core.management import call_command

from tests.web.asked import ask
from tests.web.conftest import Person
from tests.web.documents.conftest import deploy_confirmed
from tests.web.pages.pages import text_of
from webapp.deployments import service as deploying
from webapp.deployments.service import NotConfirmed
from webapp.documents import bringing
from webapp.documents import service as documents
from webapp.documents.inputs import DocumentInput, Text
from webapp.documents.viewing import DocumentMissing, show
from webapp.models import Deployment, IndexGeneration

TURKU = DocumentInput(Text("Turku is a city in Finland."), "turku", "Turku", licence="CC0", tags=("cities",))
MARS = DocumentInput(Text("Mars is red."), "Mars", "Mars")


@pytest.fixture
def another(another_index: IndexGeneration) -> IndexGeneration:
    """`another_index`; four documents were edited above the first."""
    documents.add([TURKU, replace(TURKU, document_id="oulu", title="Oulu", source=Text("Oulu is a city."))], by=None)
    documents.change("Mars", MARS, by=None)
    documents.remove(["Nile"], by=None)
    return another_index


def deploy(index: IndexGeneration) -> Deployment:
    with pytest.raises(NotConfirmed, match="Edits of 4 documents"):
        deploying.deploy(index)
    return deploy_confirmed(index)


def titles() -> dict[str, str]:
    return {block["title"]: block["text"] for block in ask("What is there?", k=20).payload["evidence"]}


def test_edits_are_brought_over_to_another_index(another: IndexGeneration) -> None:
    assert bringing.waiting() is None
    deploy(another)
    assert {"Nile", "Mars"} <= titles().keys() and "Turku" not in titles()
    waiting = bringing.waiting()
    assert waiting is not None and waiting.documents == ("turku", "oulu", "Mars") and waiting.removed == ("Nile",)

    brought = bringing.bring(by=None)
    assert sorted((one.kind, one.document.document_id) for one in brought.changes) == [
        ("added", "oulu"),
        ("added", "turku"),
        ("changed", "Mars"),
        ("removed", "Nile"),
    ]
    assert titles()["Turku"] == "Turku is a city in Finland." and titles()["Mars"] == "Mars is red."
    assert "Nile" not in titles() and show("turku").about.licence == "CC0" and show("turku").about.tags == ("cities",)
    assert bringing.waiting() is None and len(bringing.bring(by=None)) == 0
    assert str(brought) == "4 documents were brought over."
    assert str(bringing.bring(by=None)) == "Nothing was brought over: the edits of 4 documents are there already."


def test_what_was_edited_since_stays(another: IndexGeneration) -> None:
    deploy(another)
    documents.remove(["Mars"], by=None)
    documents.add([replace(TURKU, source=Text("Another text of Turku."))], by=None)
    said = "2 documents were brought over; the edits of 2 documents are there already."
    assert str(bringing.bring(by=None)) == said
    assert show("turku").text == "Another text of Turku." and show("oulu").text == "Oulu is a city."
    assert show("Mars").status == "removed"
    with pytest.raises(DocumentMissing):
        show("no such document")


def test_what_was_only_moved_to_another_collection_is_brought_over(another: IndexGeneration) -> None:
    bach = show("Johann Sebastian Bach")
    moved = DocumentInput(Text(bach.text), title=bach.title, collection="board")
    documents.change("Johann Sebastian Bach", moved, by=None)
    with pytest.raises(NotConfirmed, match="5 documents"):
        deploying.deploy(another)
    deploy_confirmed(another)
    assert show("Johann Sebastian Bach").about.collection == "tiny"
    bringing.bring(by=None)
    assert show("Johann Sebastian Bach").about.collection == "board"


def test_metadata_of_a_document_is_brought_over(another: IndexGeneration) -> None:
    first = Deployment.active()
    deploy(another)
    bringing.bring(by=None)
    assert first is not None
    deploying.roll_back(first, confirmed=True)
    own = Text(show("Bhutan").text)
    said = DocumentInput(own, title="Bhutan", licence="CC0", tags=("a",), date=date(2024, 5, 31))
    documents.change("Bhutan", said, by=None)  # of the base
    documents.change("turku", replace(TURKU, licence="CC BY 4.0"), by=None)  # that was brought over before
    deploy_confirmed(another)
    waiting = bringing.waiting()
    assert waiting is not None and waiting.documents == ("turku", "Bhutan")
    bringing.bring(by=None)
    bhutan = show("Bhutan").about
    assert (bhutan.licence, bhutan.tags, bhutan.date) == ("CC0", ("a",), date(2024, 5, 31))
    assert show("turku").about.licence == "CC BY 4.0" and bringing.waiting() is None


def test_what_is_there_under_another_name_is_left_out(another: IndexGeneration) -> None:
    deploy(another)
    documents.add([replace(TURKU, document_id="other")], by=None)
    brought = bringing.bring(by=None)
    assert brought.left_out == ("turku is left out: other has its title and text here.",)
    assert {one.document.document_id for one in brought.changes} == {"oulu", "Mars", "Nile"} and not brought.there
    again = bringing.bring(by=None)  # it is there under its other name alone
    assert (again.changes, again.left_out, again.there) == ((), brought.left_out, 3)
    assert bringing.waiting() is None and show("other").text


def test_on_the_page_and_the_command_line(
    another: IndexGeneration, staff: Person, capsys: pytest.CaptureFixture[str]
) -> None:
    assert b"Bring them over" not in staff.client.get("/manage/documents/").content
    first = Deployment.active()
    deploy(another)
    assert b"Bring them over" in staff.client.get("/manage/documents/").content
    said = staff.client.post("/manage/documents/bring/", follow=True).content.decode()
    assert "4 documents were brought over" in said and "Bring them over" not in said
    again = staff.client.post("/manage/documents/bring/", follow=True).content.decode()
    assert "Nothing was brought over: the edits of 4 documents are there already." in again
    call_command("documents", "bring")
    assert "the edits of 4 documents are there already" in capsys.readouterr().out
    assert first is not None
    deploying.roll_back(first, confirmed=True)
    call_command("documents", "bring")
    assert "the edits of 4 documents are there already" in capsys.readouterr().out


def test_a_document_of_an_earlier_corpus_is_named_where_it_can_be_brought_over(
    another: IndexGeneration, staff: Person
) -> None:
    """The ledger leads to it."""
    earlier = Deployment.objects.get(is_active=True).index.generation
    deploy(another)
    for page in ("", "change/", "remove/", "purge/"):
        response = staff.client.get(f"/manage/documents/document/{page}?id=turku", follow=True)
        said = f"“Turku” is not in the active deployment’s corpus: it was edited while {earlier} answered."
        assert said in text_of(response) and "Bring them over" in text_of(response)
    assert staff.client.get("/manage/documents/document/?id=nothing").status_code == 404
