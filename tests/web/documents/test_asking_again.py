"""The answers that a change touched are asked again, together."""

from __future__ import annotations

from dataclasses import replace

import pytest
from django.conf import LazySettings

from tests.web.conftest import Person
from tests.web.documents.conftest import titles
from tests.web.pages import stored
from tests.web.pages.pages import text_of
from tests.web.pages.stored import ODYSSEY
from webapp.documents import service
from webapp.documents.inputs import DocumentInput, Text
from webapp.ledger import service as ledger
from webapp.ledger.service import AskedAgain
from webapp.models import AskedAnswer, Collection, CorpusChange, Deployment
from webapp.serving.living import current_corpus_id

FILM = DocumentInput(Text(ODYSSEY[0].text), "film", ODYSSEY[0].title)


@pytest.fixture
def touched(answering: Deployment, member: Person) -> list[AskedAnswer]:
    """Three answers that had read the film's document, of two askers."""
    service.add([FILM], by=None)
    return [stored.store(), stored.store(asker=member.user), stored.store(stored.payload(question="Who else?"))]


def _changed() -> CorpusChange:
    service.remove(["film"], by=None)
    change = CorpusChange.objects.first()
    assert change is not None and change.blocks_gone
    return change


def _page(staff: Person, change: CorpusChange, *, press: bool = False) -> str:
    address = f"/manage/documents/changes/{change.pk}/"
    response = staff.client.post(f"{address}again/", follow=True) if press else staff.client.get(address)
    assert response.status_code == 200
    return text_of(response)


def test_all_are_asked_again_and_it_is_said_how_many_differ(touched: list[AskedAnswer], staff: Person) -> None:
    change = _changed()
    assert ledger.asked_again(change) == AskedAgain(0, 0, 3)
    assert "Ask all of them again" in _page(staff, change)
    page = _page(staff, change, press=True)
    later = list(AskedAnswer.objects.filter(again_of__isnull=False))
    assert {one.again_of_id for one in later} == {one.pk for one in touched}
    assert all(one.asker == staff.user and one.question == one.again_of.question for one in later if one.again_of)
    differing = sum(one.answer_text != "Stanley Kubrick" for one in later)
    assert "3 questions were asked again." in page and "again since" in page and "Ask all of them" not in page
    assert ledger.asked_again(change) == AskedAgain(3, differing, 0)
    _page(staff, change, press=True)
    assert AskedAnswer.objects.count() == 6  # none waits


def test_what_was_asked_again_before_waits_no_more(touched: list[AskedAnswer], staff: Person) -> None:
    AskedAnswer.objects.filter(pk=stored.store().pk).update(again_of=touched[0])  # before the change
    change = _changed()
    assert ledger.asked_again(change) == AskedAgain(0, 0, 4)
    staff.client.post(f"/answers/{touched[0].pk}/again/")
    assert ledger.asked_again(change).asked == 1 and "Ask the other 3 again" in _page(staff, change)


def test_each_is_asked_where_its_asker_may_look(touched: list[AskedAnswer], staff: Person) -> None:
    secret = DocumentInput(Text("Only the board reads this."), "vault", "Vault", collection="board")
    Collection.objects.create(name="board", private=True)
    service.add([secret], by=None)
    AskedAnswer.objects.update(k=20, exclude=["a" * 32])
    AskedAnswer.objects.filter(pk=touched[2].pk).update(asker=staff.user)
    _page(staff, _changed(), press=True)
    for one in AskedAnswer.objects.filter(again_of__isnull=False):
        assert ("Vault" in titles(one)) == (one.again_of_id == touched[2].pk)
        assert (one.k, one.exclude) == (20, ["a" * 32])


def test_no_more_than_the_limits_allow(
    touched: list[AskedAnswer], staff: Person, settings: LazySettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    change = _changed()
    monkeypatch.setattr(ledger, "MOST_AGAIN", 2)
    assert "Ask the newest 2 again" in _page(staff, change)
    settings.ASK_RATE = "1/hour"
    assert "1 question was asked again." in _page(staff, change, press=True)
    assert AskedAnswer.objects.get(again_of__isnull=False).again_of_id == touched[2].pk  # the newest
    assert "That was a lot of questions." in _page(staff, change, press=True)


def test_what_cannot_be_asked_again_is_said(touched: list[AskedAnswer], staff: Person) -> None:
    AskedAnswer.objects.filter(pk=touched[0].pk).update(collections=["gone"])
    page = _page(staff, _changed(), press=True)
    assert "2 questions were asked again." in page
    assert "1 could not be asked again." in page and "There is no collection" in page


def test_an_answer_that_was_being_computed_at_the_change_is_one_of_them(answering: Deployment) -> None:
    def read(corpus: str) -> AskedAnswer:
        return stored.store(stored.payload() | {"corpus": corpus})

    unedited = current_corpus_id()
    service.add([replace(FILM, document_id="other", title="Other")], by=None)
    service.add([FILM], by=None)
    added = current_corpus_id()
    change = _changed()
    assert ledger.touched_by(change).rows.count() == 0
    late = [read(added), read(unedited)]
    read(current_corpus_id())
    assert {row["answer"] for row in ledger.touched_by(change).rows} == {one.pk for one in late}
    assert ledger.touched_by(change).rows.count() == ledger.asked_again(change).waiting == 2

    service.add([FILM], by=None)
    assert current_corpus_id() == added
    read(added)  # the later one
    assert ledger.touched_by(change).rows.count() == 2
