"""The pages of Manage › Documents, over a tiny deployment."""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile

from realm_core.errors import RealmError
from tests.web.conftest import Person
from tests.web.pages import stored
from tests.web.pages.pages import Page, plain, text_of
from tests.web.pages.stored import ODYSSEY
from webapp.documents import fetching, service, viewing, views
from webapp.documents.forms import FilesForm
from webapp.documents.inputs import Address, DocumentInput, File, Text
from webapp.documents.service import Edited
from webapp.models import AskedAnswer, CorpusChange, Deployment, Document, Fetch, FetchState, GoneBlock
from webapp.serving.engine import EngineUnavailable
from webapp.serving.states import EditConflict
from webapp.storage.places import fetched_dir

pytestmark = pytest.mark.django_db


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[DocumentInput]:
    """What the pages have the service add; nothing is added."""
    seen: list[DocumentInput] = []

    def add(documents: Sequence[DocumentInput], *, by: User | None) -> Edited:
        seen.extend(documents)
        return Edited([])

    monkeypatch.setattr(service, "add", add)
    return seen


SURE = {"step": "change"}  # the second step of a change
FILM = {"title": ODYSSEY[0].title, "text": ODYSSEY[0].text, "licence": "CC BY-SA 4.0", "attribution": "Ada"}


def _page(person: Person, address: str, status: int = 200) -> str:
    response = person.client.get(address)
    assert response.status_code == status
    return text_of(response)


def _added(staff: Person) -> str:
    """Add the film's document; its page's query."""
    response = staff.client.post("/manage/documents/add/", FILM)
    assert response.status_code == 302
    return f"?id={quote(Document.objects.get().document_id, safe='')}"


def test_a_text_is_added_and_shown(answering: Deployment, staff: Person) -> None:
    further = {"url": "https://example.org/film", "language": "en", "date": "2024-05-01", "tags": " film, kubrick ,"}
    response = staff.client.post("/manage/documents/add/", {**FILM, **further}, follow=True)
    page = text_of(response)
    assert f"“{FILM['title']}” is in the collection {Document.objects.get().collection}, 1 passage." in page
    for shown in ("CC BY-SA 4.0", "Ada", "https://example.org/film", "1 May 2024", "kubrick", FILM["text"]):
        assert shown in page
    assert "No kept answer has read it." in page
    assert "added" in page and "none had read it" in page


def test_all_that_is_written_into_the_form_is_handed_over(given: list[DocumentInput], staff: Person) -> None:
    further = {"url": "https://example.org/film", "language": "en", "date": "2024-05-01", "tags": " film, kubrick ,"}
    assert staff.client.post("/manage/documents/add/", {**FILM, **further}).status_code == 302
    (one,) = given
    assert one.source == Text(FILM["text"])
    assert (one.title, one.licence, one.attribution) == (FILM["title"], "CC BY-SA 4.0", "Ada")
    assert (one.url, one.language, one.date) == (further["url"], "en", datetime.date(2024, 5, 1))
    assert one.tags == ("film", "kubrick")


def test_a_file_is_added(given: list[DocumentInput], staff: Person) -> None:
    file = SimpleUploadedFile("film.txt", b"A film.", "text/plain")
    response = staff.client.post("/manage/documents/add/?from=file", {"file": file, "licence": "CC0 1.0"})
    assert response.status_code == 302
    assert given[0].source == File(b"A film.", "film.txt", "text/plain")
    assert given[0].title == ""


def _upload(staff: Person, *files: tuple[str, bytes], status: int = 200, **more: str) -> str:
    """What the page says after an upload."""
    uploaded = [SimpleUploadedFile(name, content) for name, content in files]
    told = {"file": uploaded, "licence": "CC0 1.0", **more}
    response = staff.client.post("/manage/documents/add/?from=file", told, follow=True)
    assert response.status_code == status
    return text_of(response)


def test_several_files_are_added_by_one_edit(answering: Deployment, staff: Person) -> None:
    files = (("turku.md", b"# Turku\n\nA city."), ("oulu.md", b"# Oulu\n\nAnother city."))
    assert "These 2 documents are in the collection" in _upload(staff, *files, tags="cities")
    assert {(row.title, row.licence, *row.tags) for row in Document.objects.all()} == {
        ("Turku", "CC0 1.0", "cities"),
        ("Oulu", "CC0 1.0", "cities"),
    }
    assert CorpusChange.objects.values("after").distinct().count() == 1


def test_each_file_that_is_refused_is_named_and_none_is_added(answering: Deployment, staff: Person) -> None:
    good = ("turku.md", b"# Turku\n\nA city.")
    page = _upload(staff, good, ("cut.pdf", b"%PDF-1.7 cut"), ("picture.md", b"\x89PNG\r\n\x1a\n"), status=422)
    assert "cut.pdf" in page and "picture.md is a PNG image" in page and "turku.md:" not in page
    assert "Kept for an hour, so that they need not be chosen again: turku.md , cut.pdf , picture.md ." in page
    _upload(staff, good)
    twice = _upload(staff, ("again.md", good[1]), ("more.md", good[1]), ("new.md", b"# N\n\nNew."), status=422)
    assert "again.md: “Turku” is in the collection" in twice and "more.md: “Turku” is in" in twice
    assert "new.md:" not in twice and "In the corpus already: Turku" in twice
    about = {"title": "One for both", "url": "https://example.org/"}
    titled = _upload(staff, good, ("oulu.md", b"# Oulu"), status=422, **about)
    assert titled.count("leave it empty for several") == 2
    assert Document.objects.count() == 1


def test_files_that_are_too_large_together_are_refused(
    given: list[DocumentInput], staff: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FilesForm.base_fields["file"], "largest_bytes", 2**20)
    half = b"x" * (2**20 - 100)
    told = _upload(staff, ("a.txt", half), ("b.txt", half), status=422)
    assert "The files may have at most 1 MB together" in told and not given


def test_too_many_files_are_refused(given: list[DocumentInput], staff: Person) -> None:
    many = [(f"{number}.txt", b"A text.") for number in range(101)]
    assert "At most 100 files at once, not 101." in _upload(staff, *many, status=422) and not given
    _upload(staff, *many[1:], status=503)  # the list that follows has no corpus here
    assert len(given) == 100


def test_an_address_is_added(given: list[DocumentInput], staff: Person) -> None:
    address = {"address": "https://example.org/film", "licence": "CC0 1.0"}
    assert staff.client.post("/manage/documents/add/?from=address", address).status_code == 302
    assert given[0].source == Address("https://example.org/film")


@pytest.mark.parametrize("way", ["text", "file", "address"])
def test_nothing_is_added_without_source_and_licence(way: str, given: list[DocumentInput], staff: Person) -> None:
    response = staff.client.post(f"/manage/documents/add/?from={way}", {})
    assert response.status_code == 422
    assert response.content.decode().count("This field is required.") == {"text": 3, "file": 1, "address": 2}[way]
    assert not given


def test_rows_of_a_file_may_state_their_own_licence(answering: Deployment, staff: Person) -> None:
    """Where neither they nor the form do, nothing is added: the corpus's own is not theirs."""

    def sent(row: dict[str, Any], **form: str) -> Any:
        line = json.dumps({"id": "turku", "title": "Turku", "text": "Turku is a city in Finland.", **row})
        file = SimpleUploadedFile("cities.jsonl", line.encode(), "application/octet-stream")
        return staff.client.post("/manage/documents/add/?from=file", {"file": file, **form}, follow=True)

    refused = sent({})
    assert (
        refused.status_code == 422
        and "states no licence of" in refused.content.decode()
        and not Document.objects.exists()
    )
    refused = sent({"licence": "CC0", "date": "May"})
    assert "cities.jsonl, line 1: " in text_of(refused) and not Document.objects.exists()

    about = {"licence": "CC0", "attribution": "Ada", "language": "eng", "date": "2024-05-31", "tags": ["city", "old"]}
    assert sent(about).status_code == 200
    row = Document.objects.get()
    assert (row.licence, row.attribution, row.language, row.tags) == ("CC0", "Ada", "en", ["city", "old"])
    assert row.date == datetime.date(2024, 5, 31)
    sent({**about, "id": "oulu", "title": "Oulu"}, licence="CC BY 4.0", date="2020-01-01", tags="river", language="fi")
    row = Document.objects.get(document_id="oulu")
    assert (row.licence, row.attribution, row.language, row.tags) == ("CC BY 4.0", "Ada", "fi", ["river"])
    assert row.date == datetime.date(2020, 1, 1)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (RealmError("film.pdf: the file is cut short."), 422),
        (EditConflict(), 409),
        (EngineUnavailable("No model is loaded.", retry_after_s=5), 503),
    ],
)
def test_what_cannot_be_taken_is_said_and_nothing_is_lost(
    error: Exception, status: int, answering: Deployment, staff: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    def add(documents: Sequence[DocumentInput], *, by: User | None) -> Edited:
        raise error

    monkeypatch.setattr(service, "add", add)
    response = staff.client.post("/manage/documents/add/", FILM)
    assert response.status_code == status
    page = response.content.decode()
    assert str(error) in page
    assert FILM["text"][:40] in page  # what was typed is still there
    assert not Document.objects.exists()


def test_the_list_is_searched_and_paged(answering: Deployment, staff: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "_PAGE_SIZE", 5)
    there = answering.index.corpus.articles
    for number in range(2):
        staff.client.post("/manage/documents/add/", {**FILM, "title": f"Film number {number}"})
    _page(staff, "/manage/documents/add/")  # says what was done so far
    pages = 1 + (there + 1) // 5
    first, last = _page(staff, "/manage/documents/"), _page(staff, f"/manage/documents/?page={pages}")
    assert f"All {there + 2}" in first and f"Page 1 of {pages}" in first
    assert first.index("Film number 1") < first.index("Film number 0") and "with the corpus" in first
    assert "Film number" not in last and f"Page {pages} of {pages}" in last
    assert _page(staff, "/manage/documents/?page=99999") == last.replace("page=99999", f"page={pages}")
    assert f"Page 1 of {pages}" in _page(staff, "/manage/documents/?page=x")
    found = _page(staff, "/manage/documents/?title=NUMBER+1")
    assert "Film number 1" in found and "All 1" in found and "Film number 0" not in found
    assert "No document is like that." in _page(staff, "/manage/documents/?title=nothing+is+called+so")


def test_a_removal_says_first_what_it_touches_and_then_in_the_ledger(answering: Deployment, staff: Person) -> None:
    query = _added(staff)
    asked = stored.store()
    page = _page(staff, f"/manage/documents/document/remove/{query}")
    assert "1 kept answer has read it. It turns out differently without it: 1 with another answer" in page
    assert asked.question in page
    best = next(iter(stored.marginals(stored.without(ODYSSEY, FILM["title"]))))
    assert best == "Arthur C. Clarke" and f"{best} confidence 42 %" in page
    posterior = asked.payload["evidence"][0]["posterior"]
    assert f"{100 * posterior:.1f} %" in page
    assert Document.objects.get().status == "current"  # nothing has happened yet

    response = staff.client.post(f"/manage/documents/document/remove/{query}", follow=True)
    ledger = text_of(response)
    assert "is removed. No answer reads it from now on." in ledger
    assert "1 kept answer had read what it took away. It turns out differently" in ledger
    assert best in ledger and "Ask again" in ledger
    changes = _page(staff, "/manage/documents/changes/")
    assert "1 had read it, 1 turns out differently" in changes
    assert "Nothing was changed." in _page(staff, "/manage/documents/changes/?kind=changed")
    gone = _page(staff, f"/manage/documents/document/{query}")
    assert "It was removed" in gone and FILM["text"] not in gone
    assert staff.client.get(f"/manage/documents/document/remove/{query}").status_code == 302


def _hidden(html: str) -> dict[str, str]:
    """What a form of hidden fields sends."""
    return {one["name"]: one.get("value", "") for one, _ in Page(html).all("input") if one.get("type") == "hidden"}


def test_a_change_shows_first_what_it_touches(answering: Deployment, staff: Person) -> None:
    sentences = [f"Sentence {number} says that Ada wrote it in the year {1800 + number}." for number in range(40)]
    staff.client.post("/manage/documents/add/", {**FILM, "text": " ".join(sentences)})
    document_id = Document.objects.get().document_id
    first, *_ = blocks = viewing.show(document_id).passages
    assert len(blocks) > 1
    stored.store(stored.payload((stored.Read(FILM["title"], first.text, 1.0, {"Ada": 0.9}, 0.05),), "Who wrote it?"))
    address = f"/manage/documents/document/change/?id={quote(document_id, safe='')}"
    assert sentences[-1] in staff.client.get(address).content.decode()

    rest = {**FILM, "text": " ".join([*sentences[:-1], "The last one is another."])}
    looked = staff.client.post(address, rest)
    page = text_of(looked)
    assert f"1 passage of it goes, 1 comes, {len(blocks) - 1} stay" in page
    assert "No kept answer has read what goes." in page and blocks[-1].text in page and first.text not in page
    all_of_it = {**FILM, "text": "Nothing of it is left."}
    page = text_of(staff.client.post(address, all_of_it))
    assert f"{len(blocks)} passages of it go, 1 comes." in page
    assert "1 kept answer has read what goes. It turns out" in page and "with the new text" in page
    assert "Asked anew of the corpus as it would be, each where its asker may look: 1 of 1." in page
    assert "Who wrote it?" in page
    assert CorpusChange.objects.count() == 1 and viewing.show(document_id).text == " ".join(sentences)

    hidden = _hidden(looked.content.decode())  # as the browser sends them
    kept = staff.client.post(address, hidden | SURE, follow=True)
    assert "No kept answer had read what it took away." in text_of(kept)
    assert viewing.show(document_id).text == rest["text"] and viewing.show(document_id).about.licence == "CC BY-SA 4.0"
    back = staff.client.post(address, hidden | {"title": "Typed anew", "step": "edit"}).content.decode()
    assert "Typed anew" in back and "The last one is another." in back and "See what it changes" in back
    taken = staff.client.post(address, all_of_it | SURE, follow=True)
    assert (
        "1 kept answer had read what it took away. It turns out differently without it: 1 with no answer any more"
        in text_of(taken)
    )
    nothing = staff.client.post(address, all_of_it)
    assert "Nothing: this is the document as it is" in text_of(nothing)
    assert "nothing has changed" in staff.client.post(address, all_of_it | SURE, follow=True).content.decode()


def test_an_edit_that_came_between_is_said_and_not_overwritten(answering: Deployment, staff: Person) -> None:
    """Before the change is looked at, and after; what was typed stays, and takes the place of what was read since."""
    query = _added(staff)
    document_id = Document.objects.get().document_id
    address = f"/manage/documents/document/change/{query}"
    typed = {**FILM, "text": "What was typed.", **_hidden(staff.client.get(address).content.decode())}
    removal = _hidden(staff.client.get(f"/manage/documents/document/remove/{query}").content.decode())

    def another(text: str) -> None:
        service.change(document_id, DocumentInput(Text(text), title="Another"), by=None)

    def refused(sent: dict[str, str], text: str) -> dict[str, str]:
        response = staff.client.post(address, sent)
        page = response.content.decode()
        assert response.status_code == 409 and viewing.show(document_id).text == text
        assert "This document was changed after you opened this page, so nothing has been done." in plain(page)
        assert f'href="/manage/documents/document/{query}"' in page and "What was typed." in page
        return typed | _hidden(page)

    another("The first.")
    gone = staff.client.post(f"/manage/documents/document/remove/{query}", removal)
    assert gone.status_code == 409 and "so nothing has been done" in gone.content.decode()
    now = refused(typed, "The first.")
    looked = _hidden(staff.client.post(address, now).content.decode())
    another("The second.")
    now = refused(looked | SURE, "The second.")
    looked = _hidden(staff.client.post(address, now).content.decode())
    assert staff.client.post(address, looked | SURE).status_code == 302
    assert viewing.show(document_id).text == "What was typed."


def test_what_is_changed_is_the_file_that_was_looked_at(answering: Deployment, staff: Person) -> None:
    query = _added(staff)
    address = f"/manage/documents/document/change/{query}&from=file"
    file = SimpleUploadedFile("film.md", b"# The film\n\nSomething else.", "text/markdown")
    looked = staff.client.post(address, {"file": file, "licence": "CC0 1.0", "tags": "film"})
    held = _hidden(looked.content.decode())
    assert looked.status_code == 200 and Fetch.objects.count() == 1
    changed = staff.client.post(address, held | SURE, follow=True)
    assert "“The film” is changed, in the collection" in text_of(changed)
    row = Document.objects.get()
    assert (row.format, row.licence, row.tags, row.status) == ("markdown", "CC0 1.0", ["film"], "changed")
    assert not Fetch.objects.exists() and not list(fetched_dir().iterdir())

    again = staff.client.post(address, held | SURE)
    assert again.status_code == 422 and "not held any more" in again.content.decode()
    wrong = staff.client.post(address, {**held, "staged": "../../x", **SURE})
    assert wrong.status_code == 422
    unread = SimpleUploadedFile("cut.pdf", b"%PDF-1.7 cut", "application/pdf")
    refused = staff.client.post(address, {"file": unread, "licence": "CC0 1.0"})
    assert refused.status_code == 422 and "need not be chosen again: cut.pdf" in text_of(refused)
    assert [fetch.url for fetch in Fetch.objects.all()] == ["cut.pdf"]
    other = SimpleUploadedFile("other.md", b"# The film\n\nAnother thing.", "text/markdown")
    looked = staff.client.post(address, _hidden(refused.content.decode()) | {"file": other, "licence": "CC0 1.0"})
    held = _hidden(looked.content.decode())
    back = staff.client.post(address, held | {"step": "edit"})
    assert "need not be chosen again: other.md" in text_of(back)
    staff.client.post(address, held | SURE)
    assert "Another thing." in viewing.show(row.document_id).text


def test_what_an_address_led_to_is_fetched_once(
    answering: Deployment, staff: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    query, url = _added(staff), "https://example.org/film.txt"
    fetched = []

    def send(fetch_id: UUID) -> None:
        fetched.append(fetch_id)
        fetched_dir().mkdir(exist_ok=True)
        (fetched_dir() / str(fetch_id)).write_bytes(b"Something else.")
        about = {"final_url": f"{url}?2", "content_type": "text/plain", "state": FetchState.FETCHED}
        Fetch.objects.filter(pk=fetch_id).update(**about)

    monkeypatch.setattr(fetching, "_send", send)
    address = f"/manage/documents/document/change/{query}&from=address"
    looked = staff.client.post(address, {"address": url, "title": "The film", "licence": "CC0 1.0"})
    assert "1 passage of it goes, 1 comes." in text_of(looked)
    staff.client.post(address, _hidden(looked.content.decode()) | SURE)
    row = Document.objects.get()
    assert (row.title, row.url, row.status, len(fetched)) == ("The film", f"{url}?2", "changed", 1)
    assert not Fetch.objects.exists() and not list(fetched_dir().iterdir())


def test_a_kept_answer_says_that_its_evidence_has_changed(answering: Deployment, staff: Person) -> None:
    query = _added(staff)
    asked = stored.store()
    address, api = f"/answers/{asked.pk}/", f"/api/v1/answers/{asked.pk}"
    assert "searched no more" not in _page(staff, address)
    untouched = staff.client.get(api)
    assert untouched.json()["evidence_gone"] == []

    staff.client.post(f"/manage/documents/document/change/{query}", {**FILM, "text": "Something else.", **SURE})
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
        {"block_id": ODYSSEY[0].block_id, "kind": "changed", "at": f"{change.at:%Y-%m-%dT%H:%M:%S.%fZ}"}
    ]

    staff.client.post(f"/manage/documents/document/change/{query}", FILM | SURE)  # the passage is back
    assert "searched no more" not in _page(staff, address)
    staff.client.post(f"/manage/documents/document/remove/{query}")
    assert f"This passage was removed on {when}" in _page(staff, address)


def test_answers_of_another_index_count_only_changes_since(answering: Deployment, staff: Person) -> None:
    query = _added(staff)
    before = stored.store()
    staff.client.post(f"/manage/documents/document/remove/{query}")
    stored.deployment(note="another index, which still has the block")
    after = stored.store()
    assert GoneBlock.in_evidence(after) == {}
    assert GoneBlock.in_evidence(before).keys() == {ODYSSEY[0].block_id}


def test_a_question_is_asked_again_and_the_answers_name_each_other(answering: Deployment, staff: Person) -> None:
    query = _added(staff)
    earlier = stored.store()
    AskedAnswer.objects.filter(pk=earlier.pk).update(k=7, exclude=["a" * 32])
    staff.client.post(f"/manage/documents/document/remove/{query}")
    response = staff.client.post(f"/answers/{earlier.pk}/again/")
    later = AskedAnswer.objects.get(again_of=earlier)
    assert response["Location"] == f"/answers/{later.pk}/"
    assert (later.question, later.k, later.exclude) == (earlier.question, 7, ["a" * 32])
    assert "This question had been asked before: the earlier answer" in _page(staff, f"/answers/{later.pk}/")
    assert "Asked again on" in _page(staff, f"/answers/{earlier.pk}/")
    change = CorpusChange.objects.get(kind="removed")
    ledger = staff.client.get(f"/manage/documents/changes/{change.pk}/").content.decode()
    assert f"/answers/{later.pk}/" in ledger and "Ask again" not in ledger


def test_markup_stays_text(answering: Deployment, staff: Person) -> None:
    evil = "<img src=x onerror=alert(1)>"
    staff.client.post("/manage/documents/add/", {"title": evil, "text": evil, "licence": evil, "tags": evil})
    query = f"?id={quote(Document.objects.get().document_id, safe='')}"
    for address in ("", f"document/{query}", f"document/change/{query}", f"document/remove/{query}", "changes/"):
        assert evil not in staff.client.get(f"/manage/documents/{address}").content.decode()


def test_a_document_that_is_not_there(answering: Deployment, staff: Person) -> None:
    for page in ("", "change/", "remove/"):
        assert staff.client.get(f"/manage/documents/document/{page}?id=nothing").status_code == 404
