"""What the deployed corpus holds is counted in one place: every page says the same, with every edit."""

from __future__ import annotations

import re

import pytest

from tests.web.asked import ask
from tests.web.conftest import Loader, Person
from tests.web.pages import stored
from tests.web.pages.pages import text_of
from webapp.documents import listing, service
from webapp.documents.inputs import DocumentInput, Text
from webapp.models import Deployment

PAGES = ("/manage/", "/manage/status/", "/manage/deployments/", "/manage/deployments/now/")


def counts(staff: Person, address: str) -> tuple[int, int]:
    page = text_of(staff.client.get(address))
    (found,) = re.findall(r"(\d+) documents in (\d+) blocks", page)
    return int(found[0]), int(found[1])


def test_every_page_counts_the_documents_and_blocks_as_they_are_now(answering: Deployment, staff: Person) -> None:
    def listed() -> int:
        return listing.listed().total

    def searched() -> int:
        return len(ask("What is there?", k=50).payload["evidence"])

    before = listed(), searched()
    assert [counts(staff, page) for page in PAGES] == [before] * len(PAGES)
    long = " ".join(f"Sentence {number} of a long text about the town of Oulu in Finland." for number in range(60))
    service.add([DocumentInput(Text("A city."), "turku", "Turku"), DocumentInput(Text(long), "oulu", "Oulu")], by=None)
    service.remove(["Mars", "Nile", "Bhutan"], by=None)
    now = listed(), searched()
    assert now[0] == before[0] - 1 and now[1] != before[1] - 1
    assert [counts(staff, page) for page in PAGES] == [now] * len(PAGES)
    assert f"All {now[0]}" in text_of(staff.client.get("/manage/documents/"))


@pytest.mark.django_db
def test_a_corpus_whose_files_cannot_be_read_has_no_figures(staff: Person, loader: Loader) -> None:
    stored.deployment()
    for page in PAGES:
        assert "its files cannot be read" in text_of(staff.client.get(page))
