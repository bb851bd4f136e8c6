"""Where a question is looked in: how it is compared, what is offered, and what is said where nothing fits."""

from __future__ import annotations

from datetime import date
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command

from tests.web.conftest import Person
from tests.web.operating import post
from tests.web.pages.pages import Page
from webapp.documents import service as documents
from webapp.documents.inputs import DocumentInput, Text
from webapp.models import Deployment


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
    for nonsense in ("Is it right that there is none?", "blocks read", "in order of posterior", "How it was computed"):
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
