"""The pages of Manage › Documents, over documents in memory; with real ones, see test_documents_way.py."""

from __future__ import annotations

import datetime
import re
from urllib.parse import quote

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from realm_core.errors import RealmError
from tests.web.conftest import FakeEngine, Person
from tests.web.documents import FakeCorpus, corpus  # noqa: F401  (a fixture)
from tests.web.pages import stored
from tests.web.pages.stored import ODYSSEY
from webapp.documents.service import Address, EditConflict, File, Text
from webapp.models import AskedAnswer, CorpusChange, Document, GoneBlock
from webapp.serving.engine import EngineUnavailable

pytestmark = pytest.mark.django_db

FILM = {"title": ODYSSEY[0].title, "text": ODYSSEY[0].text, "licence": "CC BY-SA 4.0", "attribution": "Ada"}


def _page(person: Person, address: str, status: int = 200) -> str:
    response = person.client.get(address)
    assert response.status_code == status
    return _plain(response.content.decode())


def _plain(html: str) -> str:
    """What is to be read, with white space folded."""
    return " ".join(re.sub(r"<[^>]*>", " ", html).split())


def _added(staff: Person) -> str:
    """Add the film's document; its page's query."""
    response = staff.client.post("/manage/documents/add/", FILM)
    assert response.status_code == 302
    return f"?id={quote(Document.objects.get().document_id, safe='')}"


def test_a_text_is_added_and_shown(engine: FakeEngine, corpus: FakeCorpus, staff: Person) -> None:
    further = {"url": "https://example.org/film", "language": "en", "date": "2024-05-01", "tags": " film, kubrick ,"}
    response = staff.client.post("/manage/documents/add/", {**FILM, **further}, follow=True)
    (given,) = corpus.given
    assert given.source == Text(FILM["text"])
    assert (given.title, given.licence, given.attribution) == (FILM["title"], "CC BY-SA 4.0", "Ada")
    assert (given.url, given.language, given.date) == (further["url"], "en", datetime.date(2024, 5, 1))
    assert given.tags == ("film", "kubrick")
    page = _plain(response.content.decode())
    assert f"“{FILM['title']}” is in the corpus, 1 block." in page
    for shown in ("CC BY-SA 4.0", "Ada", "https://example.org/film", "1 May 2024", "kubrick", FILM["text"]):
        assert shown in page
    assert "No kept answer has read it." in page
    assert "added" in page and "none had read it" in page


def test_a_file_is_added(engine: FakeEngine, corpus: FakeCorpus, staff: Person) -> None:
    file = SimpleUploadedFile("film.txt", b"A film.", "text/plain")
    response = staff.client.post("/manage/documents/add/?from=file", {"file": file, "licence": "CC0 1.0"})
    assert response.status_code == 302
    assert corpus.given[0].source == File(b"A film.", "film.txt", "text/plain")
    assert corpus.given[0].title == ""


def test_an_address_is_added(engine: FakeEngine, corpus: FakeCorpus, staff: Person) -> None:
    address = {"address": "https://example.org/film", "licence": "CC0 1.0"}
    assert staff.client.post("/manage/documents/add/?from=address", address).status_code == 302
    assert corpus.given[0].source == Address("https://example.org/film")


@pytest.mark.parametrize("way", ["text", "file", "address"])
def test_nothing_is_added_without_source_and_licence(
    way: str, engine: FakeEngine, corpus: FakeCorpus, staff: Person
) -> None:
    response = staff.client.post(f"/manage/documents/add/?from={way}", {})
    assert response.status_code == 422
    assert response.content.decode().count("This field is required.") == (3 if way == "text" else 2)
    assert not corpus.given


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (RealmError("film.pdf: the file is cut short."), 422),
        (EditConflict("Others edit the corpus just now. Try again."), 409),
        (EngineUnavailable("No model is loaded.", retry_after_s=5), 503),
    ],
)
def test_what_cannot_be_taken_is_said_and_nothing_is_lost(
    error: Exception, status: int, engine: FakeEngine, corpus: FakeCorpus, staff: Person
) -> None:
    corpus.error = error
    response = staff.client.post("/manage/documents/add/", FILM)
    assert response.status_code == status
    page = response.content.decode()
    assert str(error) in page
    assert FILM["text"][:40] in page  # what was typed is still there
    assert not Document.objects.exists()


def test_the_list_is_searched_and_paged(engine: FakeEngine, corpus: FakeCorpus, staff: Person) -> None:
    for number in range(51):
        staff.client.post("/manage/documents/add/", {**FILM, "title": f"Film number {number:02d}"})
    _page(staff, "/manage/documents/add/")  # says what was done so far
    first, second = _page(staff, "/manage/documents/"), _page(staff, "/manage/documents/?page=2")
    assert "All 51" in first and "Page 1 of 2" in first
    assert sum(f"Film number {number:02d}" in first for number in range(51)) == 50
    assert sum(f"Film number {number:02d}" in second for number in range(51)) == 1
    assert _page(staff, "/manage/documents/?page=99") == _page(staff, "/manage/documents/?page=2")
    assert "Page 1 of 2" in _page(staff, "/manage/documents/?page=x")
    found = _page(staff, "/manage/documents/?title=NUMBER+07")
    assert "Film number 07" in found and "All 1" in found
    assert "No document is like that." in _page(staff, "/manage/documents/?title=nothing")


def test_a_removal_says_first_what_it_touches_and_then_in_the_ledger(
    engine: FakeEngine, corpus: FakeCorpus, staff: Person
) -> None:
    query = _added(staff)
    asked = stored.store()
    page = _page(staff, f"/manage/documents/document/remove/{query}")
    assert "1 kept answer has read it. Of it, 1 turns out differently without it: 1 with another answer" in page
    assert asked.question in page
    best, probability = next(iter(stored.marginals(stored.without(ODYSSEY, FILM["title"])).items()))
    assert best == "Arthur C. Clarke"
    assert f"{best} {100 * probability:.1f}\N{NO-BREAK SPACE}%".replace("\N{NO-BREAK SPACE}", " ") in page
    posterior = asked.payload["evidence"][0]["posterior"]
    assert f"{100 * posterior:.1f} %" in page
    assert Document.objects.get().status == "current"  # nothing has happened yet

    response = staff.client.post(f"/manage/documents/document/remove/{query}", follow=True)
    ledger = _plain(response.content.decode())
    assert "is removed. No answer reads it from now on." in ledger
    assert "1 kept answer had read what it took away. Of it, 1 turns out differently" in ledger
    assert best in ledger and "Ask again" in ledger
    changes = _page(staff, "/manage/documents/changes/")
    assert "1 had read it, 1 turns out differently" in changes
    assert "Nothing was changed." in _page(staff, "/manage/documents/changes/?kind=changed")
    gone = _page(staff, f"/manage/documents/document/{query}")
    assert "It was removed" in gone and FILM["text"] not in gone
    assert staff.client.get(f"/manage/documents/document/remove/{query}").status_code == 302


def test_a_change_touches_only_the_passages_that_it_takes(
    engine: FakeEngine, corpus: FakeCorpus, staff: Person
) -> None:
    text = f"{ODYSSEY[0].text}\n\nAnother paragraph."
    staff.client.post("/manage/documents/add/", {**FILM, "text": text})
    query = f"?id={quote(Document.objects.get().document_id, safe='')}"
    stored.store()
    before = staff.client.get(f"/manage/documents/document/change/{query}").content.decode()
    assert "What a change touches" in before and "Another paragraph." in before
    address = f"/manage/documents/document/change/{query}"
    kept = staff.client.post(address, {**FILM, "text": f"{ODYSSEY[0].text}\n\nA new paragraph."}, follow=True)
    assert "No kept answer had read what it took away." in _plain(kept.content.decode())
    taken = staff.client.post(address, {**FILM, "text": "A new paragraph."}, follow=True)
    assert "1 kept answer had read what it took away." in _plain(taken.content.decode())
    nothing = staff.client.post(address, {**FILM, "text": "A new paragraph."}, follow=True)
    assert "nothing has changed" in nothing.content.decode()


def test_a_kept_answer_says_that_its_evidence_has_changed(
    engine: FakeEngine, corpus: FakeCorpus, staff: Person
) -> None:
    query = _added(staff)
    asked = stored.store()
    address, api = f"/answers/{asked.pk}/", f"/api/v1/answers/{asked.pk}"
    assert "searched no more" not in _page(staff, address)
    untouched = staff.client.get(api)
    assert untouched.json()["evidence_gone"] == []

    staff.client.post(f"/manage/documents/document/change/{query}", {**FILM, "text": "Something else."})
    change = CorpusChange.objects.first()
    assert change is not None
    page = _page(staff, address)
    when = f"{change.at.day} {change.at:%B %Y}"
    assert f"This passage was changed on {when} and is searched no more. Ask again" in page
    assert page.count("searched no more") == 1
    assert "One of the passages that this answer was read from has been changed or removed since." in page
    now = staff.client.get(api, headers={"If-None-Match": untouched["ETag"]})
    assert now.status_code == 200
    assert now.json()["evidence_gone"] == [
        {"block_id": ODYSSEY[0].block_id, "kind": "changed", "at": change.at.isoformat()}
    ]

    staff.client.post(f"/manage/documents/document/change/{query}", FILM)  # the passage is back
    assert "searched no more" not in _page(staff, address)
    staff.client.post(f"/manage/documents/document/remove/{query}")
    assert f"This passage was removed on {when}" in _page(staff, address)


def test_answers_of_another_index_count_only_changes_since(
    engine: FakeEngine, corpus: FakeCorpus, staff: Person
) -> None:
    query = _added(staff)
    before = stored.store()
    staff.client.post(f"/manage/documents/document/remove/{query}")
    stored.deployment(note="another index, which still has the block")
    after = stored.store()
    assert GoneBlock.in_evidence(after) == {}
    assert GoneBlock.in_evidence(before).keys() == {ODYSSEY[0].block_id}


def test_a_question_is_asked_again_and_the_answers_name_each_other(
    engine: FakeEngine, corpus: FakeCorpus, staff: Person
) -> None:
    query = _added(staff)
    earlier = stored.store()
    AskedAnswer.objects.filter(pk=earlier.pk).update(k=7, exclude=["a" * 32])
    staff.client.post(f"/manage/documents/document/remove/{query}")
    response = staff.client.post(f"/answers/{earlier.pk}/again/")
    later = AskedAnswer.objects.get(again_of=earlier)
    assert response["Location"] == f"/answers/{later.pk}/"
    assert engine.asked == [(earlier.question, 7, ("a" * 32,))]
    assert "This question had been asked before: the earlier answer" in _page(staff, f"/answers/{later.pk}/")
    assert "Asked again on" in _page(staff, f"/answers/{earlier.pk}/")
    change = CorpusChange.objects.get(kind="removed")
    ledger = staff.client.get(f"/manage/documents/changes/{change.pk}/").content.decode()
    assert f"/answers/{later.pk}/" in ledger and "Ask again" not in ledger


def test_markup_stays_text(engine: FakeEngine, corpus: FakeCorpus, staff: Person) -> None:
    evil = "<img src=x onerror=alert(1)>"
    staff.client.post("/manage/documents/add/", {"title": evil, "text": evil, "licence": evil, "tags": evil})
    query = f"?id={quote(Document.objects.get().document_id, safe='')}"
    for address in ("", f"document/{query}", f"document/change/{query}", f"document/remove/{query}", "changes/"):
        assert evil not in staff.client.get(f"/manage/documents/{address}").content.decode()


def test_a_document_that_is_not_there(engine: FakeEngine, corpus: FakeCorpus, staff: Person) -> None:
    for page in ("", "change/", "remove/"):
        assert staff.client.get(f"/manage/documents/document/{page}?id=nothing").status_code == 404
