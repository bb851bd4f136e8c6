"""A change that is only looked at: questions are asked anew of the corpus as it would be, which nobody else sees."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from django.conf import LazySettings

from realm_core.errors import EngineUnavailable
from realm_core.living.documents import Changes
from realm_core.serving.corpus import Wanted
from realm_core.serving.waiting import QueuedRequest
from tests.web.asked import ask
from tests.web.conftest import Person
from tests.web.console import another_index
from tests.web.documents.conftest import titles
from tests.web.operating import TokenClient, post, problem
from tests.web.pages import stored
from tests.web.pages.pages import text_of
from tests.web.pages.stored import ODYSSEY
from webapp.asking import service as asking
from webapp.documents import previewing, service, viewing
from webapp.documents.inputs import DocumentInput, Text
from webapp.ledger import anew
from webapp.ledger.anew import AskedAnew
from webapp.ledger.touched import Outcome
from webapp.models import AskedAnswer, Collection, CorpusChange, CorpusState, Deployment, EvidenceBlock, Fetch
from webapp.serving.embedding import embedding_of
from webapp.serving.engine import holder
from webapp.serving.living import current_corpus_id

pytestmark = pytest.mark.django_db

FILM = DocumentInput(Text(ODYSSEY[0].text), "film", ODYSSEY[0].title)
# For the tiny model's words, which mean nothing to it, a short text beats a long one.
OTHER = DocumentInput(Text("2001: A Space Odyssey was directed by Ada Lovelace."), title=ODYSSEY[0].title)
QUESTION = "Who directed 2001: A Space Odyssey?"


@pytest.fixture
def asked(answering: Deployment) -> AskedAnswer:
    """An answer that had read the film's document."""
    service.add([FILM], by=None)
    asked = ask(QUESTION, k=20)
    assert FILM.title in titles(asked)
    return asked


def everything(folder: Path) -> list[Any]:
    """All files, what they hold, and the rows that an edit or a question would write."""
    files = [(path, path.read_bytes()) for path in sorted(folder.rglob("*")) if path.is_file()]
    rows = [
        list(kind.objects.order_by("pk").values())
        for kind in (AskedAnswer, EvidenceBlock, CorpusState, CorpusChange, Fetch)
    ]
    return [*files, *rows, sorted(folder.rglob("*"))]


def tried(given: DocumentInput = OTHER, granted: Callable[[int], int] = lambda number: number) -> AskedAnew:
    return previewing.of_change("film", given).asked_anew(granted)


def test_nothing_is_asked_of_an_engine_that_answers_from_another_index(asked: AskedAnswer) -> None:
    preview = previewing.of_change("film", OTHER)
    other = another_index(asked.deployment.model)
    found = replace(preview, index=other).asked_anew(lambda number: number)
    assert not found.asked and len(found.rows) == 1
    assert found.why_not == "The engine does not answer from this index yet."


def page_of(staff: Person, given: DocumentInput = OTHER) -> str:
    """What the page says before the change."""
    address = f"/manage/documents/document/change/?id={quote('film', safe='')}"
    assert isinstance(given.source, Text)
    response = staff.client.post(address, {"title": given.title, "text": given.source.text, "licence": "CC0"})
    assert response.status_code == 200
    return text_of(response)


def test_it_is_what_the_change_leads_to(asked: AskedAnswer, tmp_path: Path) -> None:
    before, corpus = everything(tmp_path), current_corpus_id()
    looked = tried()
    assert everything(tmp_path) == before, "nothing is written"
    (one,) = looked.asked
    assert (one.asked, looked.reading, looked.why_not) == (asked, 1, "") and one.anew is not None
    assert holder()._serving is not None and holder()._serving.engine.corpus_id == corpus == current_corpus_id()

    service.change("film", OTHER, by=None)
    then = ask(QUESTION, k=20)
    assert one.anew.corpus == then.payload["corpus"] != corpus
    evidence = [json.loads(json.dumps(told["evidence"])) for told in (one.anew.as_dict(), then.payload)]
    assert evidence[0] == evidence[1]
    assert one.anew.answer and one.anew.answer.text == then.answer_text
    assert "Ada Lovelace" in {block.text[-13:-1] for block in one.anew.evidence}
    assert one.outcome == (Outcome.OTHER_ANSWER if then.answer_text != asked.answer_text else Outcome.OTHER_BLOCK)


def test_questions_during_a_preview_are_answered_from_the_current_state(
    asked: AskedAnswer, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus, seen = current_corpus_id(), []
    wait = anew.wait

    def waiting(*given: Any) -> Any:
        """While the state is tried, and while its questions are asked."""
        seen.append(ask(QUESTION, k=19 - len(seen)))
        return wait(*given)

    monkeypatch.setattr(anew, "wait", waiting)
    (one,) = tried().asked
    assert one.anew is not None and one.anew.corpus != corpus
    seen.append(ask(QUESTION, k=20))  # as it was asked anew, so it would be found by repeats
    assert len(seen) == 3 and {answer.payload["corpus"] for answer in seen} == {corpus}


def test_a_batch_of_both_is_answered_from_two_states(asked: AskedAnswer) -> None:
    in_service = holder()._serving
    assert in_service is not None
    engine, preview = in_service.engine, previewing.of_change("film", OTHER)
    corpus = engine.tried(Changes((preview.document,)), embedding_of(preview.index.model))
    request = engine._ask_request(QUESTION, Wanted(20), None, read=True)
    batch = [QueuedRequest(replace(request, corpus=one)) for one in (corpus, None, corpus)]
    engine._serve_batch(batch)
    names = [one.future.result().corpus for one in batch]
    assert names == [corpus.id, engine.corpus_id, corpus.id] and corpus.id != engine.corpus_id


def test_the_page_says_what_each_answer_becomes(asked: AskedAnswer, staff: Person, tmp_path: Path) -> None:
    for _ in range(2):
        stored.store()
    page = page_of(staff)
    assert "1 passage of it goes, 1 comes." in page and "3 kept answers have read what goes. Of them," in page
    assert "with the new text" in page and "With the new text" in page and "Without it" not in page
    assert "Asked anew of the corpus as it would be, each where its asker may look: 3 of 3." in page
    looked = tried()
    assert sum(looked.summary.outcomes.values()) == looked.summary.looked_at == looked.reading == 3
    named = [one.anew.answer.text for one in looked.asked if one.outcome == Outcome.OTHER_ANSWER]  # type: ignore[union-attr]
    assert named and all(text in page for text in named)
    assert CorpusChange.objects.count() == 1 and AskedAnswer.objects.count() == 3


def test_at_most_a_few_questions_are_asked_and_equal_ones_once(
    asked: AskedAnswer, staff: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(4):
        stored.store()
    calls = []
    ask_of = asking.ask_of
    monkeypatch.setattr(asking, "ask_of", lambda *given: calls.append(given) or ask_of(*given))
    looked = tried()
    assert len(looked.asked) == 5 and len(calls) == 2
    monkeypatch.setattr(anew, "MOST_ANEW", 2)
    monkeypatch.setattr("webapp.documents.edit_views.MOST_ANEW", 2)
    page = page_of(staff)
    assert "Of the 2 that owe it most," in page and "2 of 5, at most 2 at once." in page
    assert [one.posterior for one in tried().rows] == sorted((one.posterior for one in tried().rows), reverse=True)


def test_without_time_the_closed_form_is_shown(
    asked: AskedAnswer, staff: Person, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = everything(tmp_path)
    monkeypatch.setattr(anew, "LIMIT_S", 0.0)
    page = page_of(staff)
    assert "without it" in page and "Without it" in page and "With the new text it may be another one" in page
    assert "could not be asked anew. There was no time for more within 0 seconds." in page
    assert everything(tmp_path) == before


def test_questions_over_the_time_limit_are_left_out(asked: AskedAnswer, monkeypatch: pytest.MonkeyPatch) -> None:
    stored.store(stored.payload(question="Who else?"))
    ask_of, release, left = asking.ask_of, threading.Event(), threading.Event()

    def slow(service: Any, corpus: Any, request: asking.AskRequest, listens: Callable[[], bool]) -> Any:
        if request.question == "Who else?":
            assert release.wait(60)
            with pytest.raises(EngineUnavailable):  # nobody waits for it, so it is not computed
                ask_of(service, corpus, request, listens)
            left.set()
        return ask_of(service, corpus, request, listens)

    monkeypatch.setattr(asking, "ask_of", slow)
    monkeypatch.setattr(anew, "LIMIT_S", 2.0)
    began = time.monotonic()
    looked = tried()
    assert time.monotonic() - began < 30
    assert [one.asked.question for one in looked.asked] == [QUESTION]
    assert len(looked.rows) == 2 and "no time for more within 2 seconds" in looked.why_not
    assert looked.summary.reading == 2 and sum(looked.summary.outcomes.values()) == 1
    release.set()
    assert left.wait(60)


def test_where_it_is_abandoned_no_more_is_embedded(
    asked: AskedAnswer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = everything(tmp_path)
    monkeypatch.setattr(anew, "listens", lambda: lambda: False)  # the browser has closed its connection
    looked = tried()
    assert not looked.asked and looked.why_not and everything(tmp_path) == before
    assert titles() >= {FILM.title}


def test_an_engine_that_is_not_ready(deployed: Deployment, staff: Person) -> None:
    service.add([FILM], by=None)
    stored.store()
    holder().close()
    page = page_of(staff)
    assert "could not be asked anew. The model is being loaded" in page and "without it: 1 with" in page


def test_each_question_is_asked_with_the_rights_of_its_asker(asked: AskedAnswer, staff: Person) -> None:
    Collection.objects.create(name="board", private=True)
    stored.store(asker=staff.user)
    looked = tried(replace(OTHER, collection="board"))
    may = {one.asked.asker: {block.title for block in one.anew.evidence} for one in looked.asked if one.anew}
    assert FILM.title in may[staff.user] and FILM.title not in may[None]


def test_previews_count_against_the_limit_of_questions(
    asked: AskedAnswer, staff: Person, settings: LazySettings
) -> None:
    stored.store()
    assert tried(granted=lambda number: 1).why_not == "More questions are not allowed at this moment."
    assert len(tried(granted=lambda number: 1).asked) == 1
    settings.ASK_RATE = "1/hour"
    assert "1 of 2." in page_of(staff)
    assert "could not be asked anew. That was a lot of questions." in page_of(staff)


def test_a_change_is_previewed_over_rest(asked: AskedAnswer, program: TokenClient, tmp_path: Path) -> None:
    stored.store()
    before, address = everything(tmp_path), "documents/film/touched"
    body = {"title": OTHER.title, "text": OTHER.source.text}  # type: ignore[union-attr]
    response = post(program, address, body)
    assert response.status_code == 200 and everything(tmp_path) == before
    told = response.json()
    (old,) = viewing.show("film").passages
    assert told["passages_gone"] == [{"block_id": old.block_id, "section": "", "text": old.text}]
    assert [one["text"] for one in told["passages_new"]] == [body["text"]] and told["passages_kept"] == []
    assert (told["same"], told["summary"]["answers"], told["anew"]["asked"], told["anew"]["reason"]) == (
        False,
        2,
        2,
        "",
    )
    outcomes = [one["outcome"] for one in told["results"]]
    assert {name: outcomes.count(name) for name in told["anew"]["outcomes"]} == told["anew"]["outcomes"]
    one = next(one for one in told["results"] if one["answer"] == str(asked.pk))
    assert one["asked_anew"] and one["text"] == asked.answer_text

    version = viewing.show("film").version
    assert program.put("/api/v1/documents/film", json.dumps(body), content_type="application/json").status_code == 200
    (new,) = viewing.show("film").passages
    assert told["passages_new"][0]["block_id"] == new.block_id
    assert one["anew"]["text"] == ask(QUESTION, k=20).answer_text
    same = post(program, address, body).json()
    assert same["same"] and same["results"] == [] and same["anew"]["asked"] == 0

    retitled = post(program, address, {"title": "Another title"}).json()  # its text stays
    assert [one["text"] for one in retitled["passages_new"]] == [new.text]
    late = {"content_type": "application/json", "headers": {"If-Match": f'"{version}"'}}
    problem(program.post(f"/api/v1/{address}", json.dumps(body), **late), 412)  # type: ignore[arg-type]
    problem(post(program, address, {**body, "address": "https://example.org/"}), 400)
    problem(post(program, "documents/none/touched", body), 404)
    assert viewing.show("film").text == body["text"]
