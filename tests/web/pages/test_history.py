"""One's own questions, and nobody else's."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from tests.web.conftest import FakeEngine, Person
from tests.web.operating import corpus_change
from tests.web.pages import stored
from tests.web.pages.pages import Page
from webapp.models import AskedAnswer, CorpusState, GoneBlock, IdempotencyKey, IndexGeneration

pytestmark = [pytest.mark.django_db, pytest.mark.postgresql_first]


OTHER = tuple(stored.Read(b.title, f"{b.text} Another.", b.prior, b.offers) for b in stored.ODYSSEY)


def _listed(client: Client, page: int = 1) -> list[str]:
    seen = Page(client.get("/history/", {"page": page}).content.decode())
    return [text for attributes, text in seen.all("a") if attributes["href"].startswith("/answers/")]


def test_everybody_sees_their_own(engine: FakeEngine, member: Person, staff: Person, outsider: Person) -> None:
    stranger = Client()
    for client, question in (
        (member.client, "Asked by Memo?"),
        (staff.client, "Asked by Stella?"),
        (outsider.client, "Asked by nobody?"),
    ):
        client.post("/", {"question": question})
    assert _listed(member.client) == ["Asked by Memo?"]
    assert _listed(staff.client) == ["Asked by Stella?"]
    assert _listed(outsider.client) == ["Asked by nobody?"]
    assert _listed(stranger) == []
    said = "Whoever has the link of an answer and may read the collections that it was read from can see that answer."
    assert said in member.client.get("/history/").content.decode()
    (answer,) = Page(member.client.get("/history/").content.decode()).all("p", "asked__answer")
    assert answer[1] == "Stanley Kubrick confidence 70 %"


def test_questions_asked_before_logging_in_stay_with_the_browser(
    engine: FakeEngine, outsider: Person, member: Person
) -> None:
    outsider.client.post("/", {"question": "Before?"})
    outsider.client.force_login(member.user, backend="django.contrib.auth.backends.ModelBackend")
    outsider.client.post("/", {"question": "After?"})
    assert _listed(outsider.client) == ["After?", "Before?"]
    assert _listed(member.client) == ["After?"]  # another browser knows the person only
    outsider.client.logout()
    assert _listed(outsider.client) == []


def test_the_session_s_own_key_is_kept_nowhere(engine: FakeEngine, outsider: Person) -> None:
    outsider.client.post("/", {"question": "Who?"})
    kept = AskedAnswer.objects.get().session_key
    assert len(kept) == 40 and kept != outsider.client.session.session_key


def test_long_histories_come_in_pages(engine: FakeEngine, outsider: Person) -> None:
    outsider.client.post("/", {"question": "Number 0?"})
    key = AskedAnswer.objects.get().session_key
    for number in range(1, 30):
        stored.store(stored.payload(question=f"Number {number}?"), session_key=key)
    assert _listed(outsider.client) == [f"Number {n}?" for n in range(29, 4, -1)]
    assert _listed(outsider.client, 2) == [f"Number {n}?" for n in range(4, -1, -1)]
    assert outsider.client.get("/history/?page=nonsense").status_code == 200
    assert _listed(outsider.client, 99) == _listed(outsider.client, 2)


def _gone(asked: AskedAnswer) -> None:
    """A block of its evidence is removed."""
    block_id = asked.payload["evidence"][0]["block_id"]
    change = corpus_change(asked.deployment.index)
    GoneBlock.objects.update_or_create(block_id=block_id, defaults={"change": change})


def test_answers_whose_evidence_has_changed_are_marked(
    engine: FakeEngine, outsider: Person, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    outsider.client.post("/", {"question": "Before?"})
    asked = AskedAnswer.objects.get()
    assert "changed since" not in outsider.client.get("/history/").content.decode()
    _gone(asked)
    with CaptureQueriesContext(connection) as one:
        page = outsider.client.get("/history/").content.decode()
    assert "Its evidence has changed since" in page and f"/answers/{asked.pk}/again/" in page
    for number in range(5):
        stored.store(stored.payload(question=f"Number {number}?"), session_key=asked.session_key)
    _gone(asked)  # what was stored before a change counts, as on the answer's page
    untouched = stored.store(stored.payload(OTHER, question="Of others?"), session_key=asked.session_key)
    with django_assert_max_num_queries(len(one)):
        page = outsider.client.get("/history/").content.decode()
    assert page.count("Its evidence has changed since") == 6
    assert _listed(outsider.client)[0] == untouched.question
    only = Page(outsider.client.get("/history/?changed").content.decode())
    assert "Of others?" not in [text for _, text in only.all("a")]
    told = outsider.client.get("/api/v1/answers").json()["results"]
    assert [one["evidence_changed"] for one in told] == [False, *[True] * 6]
    told = outsider.client.get("/api/v1/answers?evidence_changed=false").json()["results"]
    assert [one["question"] for one in told] == ["Of others?"]
    for answer in AskedAnswer.objects.annotate(changed=GoneBlock.in_any_evidence()):
        assert answer.changed == bool(GoneBlock.in_evidence(answer))


def test_a_change_of_another_index_counts_from_when_it_was_made(engine: FakeEngine, outsider: Person) -> None:
    outsider.client.post("/", {"question": "Who?"})
    asked = AskedAnswer.objects.get()
    _gone(asked)
    AskedAnswer.objects.update(created_at=timezone.now() + timedelta(hours=1))
    assert "changed since" in outsider.client.get("/history/").content.decode()  # of its own index
    other = IndexGeneration.objects.get(pk=asked.deployment.index_id)
    other.pk, other.generation = None, "another"
    other.save()
    CorpusState.objects.update(index=other)
    assert "changed since" not in outsider.client.get("/history/").content.decode()
    assert not GoneBlock.in_evidence(AskedAnswer.objects.get())


def test_deleting_empties_one_s_own_list_and_keeps_links(engine: FakeEngine, outsider: Person, member: Person) -> None:
    for client in (outsider.client, member.client):
        client.post("/", {"question": "Who?"})
    (own,) = AskedAnswer.objects.filter(asker=None)
    response = outsider.client.post("/history/forget/", follow=True)
    assert "1 question is no longer connected with you." in response.content.decode()
    assert _listed(outsider.client) == [] and _listed(member.client) == ["Who?"]
    own.refresh_from_db()
    assert (own.asker, own.session_key) == (None, "")
    assert outsider.client.get(f"/answers/{own.pk}/").status_code == 200


def test_deleting_leaves_no_key_that_tells_whose_questions_they_were(engine: FakeEngine, member: Person) -> None:
    for client, key in ((member.client, "mine"), (Client(), "another's")):
        sent = {"Idempotency-Key": key}
        client.post("/api/v1/ask", {"question": "Who?"}, content_type="application/json", headers=sent)
    member.client.post("/history/forget/")
    assert [key.key for key in IdempotencyKey.objects.all()] == ["another's"]


def test_a_history_is_deleted_only_by_post_with_a_csrf_token(member: Person) -> None:
    assert member.client.get("/history/forget/").status_code == 405
    strict = Client(enforce_csrf_checks=True)
    assert strict.post("/history/forget/").status_code == 403


def test_an_empty_history_says_so(outsider: Person) -> None:
    response = outsider.client.get("/history/")
    assert "Nothing yet" in response.content.decode()
    assert "private" in response["Cache-Control"]


def test_a_question_without_an_answer_is_listed_as_such(engine: FakeEngine, outsider: Person) -> None:
    engine.value = stored.payload(
        tuple(stored.Read(b.title, b.text, b.prior, b.offers, 0.9) for b in stored.ODYSSEY), explains="no_answer"
    )
    outsider.client.post("/", {"question": "<i>Who?</i>"})
    source = outsider.client.get("/history/").content.decode()
    assert "No answer found" in source and "<i>" not in source
