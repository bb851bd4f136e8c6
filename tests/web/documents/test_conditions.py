"""Where a question is looked in: how it is compared, what is offered, and what is said where nothing fits."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.core.management import call_command

from tests.web.conftest import Person
from tests.web.operating import post
from tests.web.pages import stored
from tests.web.pages.pages import Page
from webapp.documents import service as documents
from webapp.documents.inputs import DocumentInput, Text
from webapp.models import AskedAnswer, Collection, Deployment


def archivists() -> Group:
    return Group.objects.get_or_create(name="archivists")[0]


@pytest.mark.parametrize(
    "filters", [{"tags": ["TAX"]}, {"titles": ["turku castle"]}, {"tags": ["taX"], "titles": ["TURKU CASTLE"]}]
)
def test_tags_and_titles_are_compared_in_any_case(
    answering: Deployment, member: Person, filters: dict[str, Any]
) -> None:
    castle = DocumentInput(Text("The castle of Turku was founded in 1280."), "castle", "Turku Castle", tags=("Tax",))
    documents.add([castle], by=None)
    answer = post(member.client, "ask", {"question": "Who?", "filters": filters}).json()
    assert {one["title"] for one in answer["evidence"]} == {"Turku Castle"} and answer["filters"] == filters


def test_the_page_says_what_excluded_everything(answering: Deployment, member: Person) -> None:
    castle = DocumentInput(Text("The castle of Turku was founded in 1280."), "castle", "Turku Castle", tags=("tax",))
    documents.add([castle], by=None)
    filters = {"tags": ["tax"], "titles": ["No such title"], "languages": ["en"], "since": "2026-01-31"}
    answer = post(member.client, "ask", {"question": "Who?", "filters": filters}).json()
    page = member.client.get(f"/answers/{answer['id']}/").content.decode()
    said = [text for _, text in Page(page).all("li")]
    assert "Tag tax fits 1 document" in said and "Title No such title fits no document" in said
    assert "Dated from 31 January 2026 fits no document" in said
    assert any(one.startswith("Language English fits ") for one in said)
    for nonsense in (
        "Is it right that there is none?",
        "passages read",
        "what counted most",
        "How it was computed",
    ):
        assert nonsense not in page
    out = StringIO()
    call_command("ask", "Who?", "--tag", "TAX", "--title", "No such title", stdout=out)
    assert "Tag TAX: fits 1 document\nTitle No such title: fits no document\n" in out.getvalue()


def test_the_box_names_languages_and_what_is_dated(answering: Deployment, member: Person) -> None:
    castle = DocumentInput(Text("Le château."), "castle", "Château", language="fr", date=date(2026, 1, 31))
    documents.add([castle], by=None)
    assert member.client.get("/").status_code == 200
    labels = [text for _, text in Page(member.client.get("/").content.decode()).all("label")]
    assert {"English", "French", "Dated from", "Dated until"} <= set(labels)


def test_a_question_without_an_answer_is_offered_to_smaller_collections(
    answering: Deployment, member: Person, outsider: Person
) -> None:
    traps = DocumentInput(Text("Ivo Brandt checks the moth traps."), "traps", "Traps", collection="archive")
    hall = DocumentInput(Text("The hall is open."), "hall", "Hall", collection="hall")
    documents.add([traps, hall, replace(hall, document_id="hall-2", title="Hall 2")], by=None)
    Collection.objects.create(name="archive", title="The archive", private=True).groups.add(archivists())
    member.user.groups.add(archivists())
    unanswered = stored.payload(explains="no_answer")

    def offered(person: Person, asked: AskedAnswer) -> list[tuple[str, str]]:
        page = Page(person.client.get(f"/answers/{asked.pk}/").content.decode())
        return [(of["value"], text) for of, text in page.all("button", "link-button") if of.get("name") == "only"]

    asked = stored.store(unanswered, asker=member.user)
    assert offered(member, asked) == [("archive", "The archive"), ("hall", "hall")]
    assert offered(outsider, stored.store(unanswered)) == [("hall", "hall")]
    assert offered(member, stored.store(asker=member.user)) == []
    response = member.client.post(f"/answers/{asked.pk}/again/", {"only": "archive"})
    alone = AskedAnswer.objects.get(pk=response["Location"].split("/")[2])
    assert (alone.question, alone.collections, alone.again_of) == (asked.question, ["archive"], None)
    assert {one["title"] for one in alone.payload["evidence"]} == {"Traps"}
    AskedAnswer.objects.filter(pk=asked.pk).update(collections=["archive"])
    assert offered(member, asked) == []
    refused = outsider.client.post(f"/answers/{stored.store(unanswered).pk}/again/", {"only": "archive"})
    assert refused.status_code == 422 and "There is no collection" in refused.content.decode()
