"""Feedback: on the answer's page, over REST, reviewed by curators, and what is learnt from it."""

from __future__ import annotations

import json
from datetime import timedelta
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.test import Client
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from realm_core.questions.question_file import read_questions
from tests.web.conftest import Person
from tests.web.operating import TokenClient, post, problem, question_set
from tests.web.pages import stored
from tests.web.pages.pages import Page, text_of
from webapp.feedback import service as services
from webapp.models import AskedAnswer, AuditEntry, Deployment, Feedback, Review

pytestmark = [pytest.mark.django_db, pytest.mark.postgresql_first]
BLOCK = stored.ODYSSEY[0].block_id


def say(client: Client, asked: AskedAnswer, htmx: bool = False, **word: str) -> Any:
    headers = {"HX-Request": "true"} if htmx else {}
    return client.post(f"/answers/{asked.pk}/feedback/", word, headers=headers)


def only() -> Feedback:
    return Feedback.objects.get()


# ── On the answer's page ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("who", ["outsider", "member"])
def test_saying_changing_and_taking_back(who: str, request: pytest.FixtureRequest) -> None:
    person: Person = request.getfixturevalue(who)
    asked = stored.store()
    response = say(person.client, asked, right="yes")
    assert response["Location"] == f"/answers/{asked.pk}/#feedback"
    assert (only().right, only().by, bool(only().session_key)) == (True, person.user, person.user is None)
    say(person.client, asked, right="no", better_answer=" Arthur\u202e  Clarke ", block_id=BLOCK)
    assert (only().right, only().better_answer, only().block_id) == (False, "Arthur Clarke", BLOCK)
    page = Page(person.client.get(f"/answers/{asked.pk}/").content.decode())
    pressed = [text for attributes, text in page.all("button", "verdict") if attributes["aria-pressed"] == "true"]
    assert pressed == ["Wrong"]
    assert "Arthur Clarke" in [attributes.get("value") for attributes, _ in page.all("input")]
    assert [attributes["value"] for attributes, _ in page.all("option") if "selected" in attributes] == [BLOCK]
    person.client.post(f"/answers/{asked.pk}/feedback/take-back/")
    assert not Feedback.objects.exists()


def test_everybody_has_a_word_of_their_own(outsider: Person, member: Person, staff: Person) -> None:
    asked = stored.store()
    for client in (outsider.client, member.client, staff.client, Client()):
        for right in ("yes", "no"):
            say(client, asked, right=right)
    assert Feedback.objects.filter(right=False).count() == Feedback.objects.count() == 4
    outsider.client.post(f"/answers/{asked.pk}/feedback/take-back/")
    assert Feedback.objects.count() == 3


def test_htmx_gets_the_part_that_changes(outsider: Person) -> None:
    asked = stored.store()
    source = say(outsider.client, asked, htmx=True, right="no").content.decode()
    assert source.count('id="feedback"') == 1 and "<main" not in source and "Kept, thank you." in source
    assert " open>" in source.split("<details")[1].split("<summary")[0] + ">"  # who says wrong is asked what is right
    response = outsider.client.post(f"/answers/{asked.pk}/feedback/take-back/", headers={"HX-Request": "true"})
    assert "Taken back." in response.content.decode()


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ({}, "Say at least one thing"),
        ({"right": "perhaps"}, "Say at least one thing"),
        ({"right": "no", "block_id": "f" * 32}, "not one of the passages"),
        ({"right": "no", "block_id": "\x00"}, "not one of the passages"),
        ({"right": "no", "other_block": "https://elsewhere.example/"}, "not one of the passages"),
        ({"better_answer": "x" * 301}, "at most 300 characters"),
        ({"right": "no", "better_answer": "stanley kubrick."}, "the answer that was given; is it right after all?"),
    ],
)
def test_invalid_feedback_is_refused_and_kept_in_the_form(outsider: Person, word: dict[str, str], says: str) -> None:
    asked = stored.store()
    response = say(outsider.client, asked, **word)
    page = Page(response.content.decode())
    errors = [text for attributes, text in page.all("p") if attributes.get("id") == "feedback-error"]
    assert response.status_code == 422 and says in errors[0]
    assert word.get("better_answer", "") in page.source
    assert not Feedback.objects.exists()


def test_a_word_of_the_session_becomes_the_account_s(outsider: Person, member: Person) -> None:
    asked = stored.store()
    say(outsider.client, asked, right="yes")
    assert outsider.client.post("/accounts/login/", {"username": "Memo", "password": "p"}).status_code == 302
    page = Page(outsider.client.get(f"/answers/{asked.pk}/").content.decode())
    assert "true" in [attributes["aria-pressed"] for attributes, _ in page.all("button", "verdict")]
    say(outsider.client, asked, right="no")
    assert (only().by, only().session_key, only().right) == (member.user, "", False)


def test_too_much_is_refused(outsider: Person, settings: Any) -> None:
    settings.ASK_RATE = "1/hour"
    asked = stored.store()
    say(outsider.client, asked, right="yes")
    response = say(outsider.client, asked, right="no")
    assert response.status_code == 429 and int(response["Retry-After"]) > 0 and only().right is True


def test_the_answer_without_blocks_is_not_judged(outsider: Person) -> None:
    asked = stored.store()
    source = outsider.client.get(f"/answers/{asked.pk}/?without={BLOCK}").content.decode()
    assert 'class="feedback feedback--aside"' in source  # it keeps its place and is not to be seen or reached


def test_an_emptied_history_leaves_no_name_on_feedback(outsider: Person, member: Person) -> None:
    asked = stored.store()
    for client in (outsider.client, member.client):
        say(client, asked, right="yes")
        client.post("/history/forget/")
    assert [(said.by, said.session_key, said.right) for said in Feedback.objects.all()] == [(None, "", True)] * 2


def test_a_name_that_was_forgotten_is_not_called_a_visitor_without_an_account(curator: Person, member: Person) -> None:
    say(member.client, stored.store(), right="yes")
    member.client.post("/history/forget/")
    page = text_of(curator.client.get("/manage/feedback/"))
    assert "by a visitor, or an account that is not named any more" in page and "without an account" not in page


def test_nobody_s_feedback_goes_with_their_account(member: Person) -> None:
    say(member.client, stored.store(), right="yes")
    User.objects.all().delete()
    assert (only().by, only().right) == (None, True)


def test_the_database_allows_one_feedback_of_a_session_on_an_answer() -> None:
    asked = stored.store()
    Feedback.objects.create(answer=asked, session_key="s", right=True)
    with pytest.raises(IntegrityError), transaction.atomic():
        Feedback.objects.create(answer=asked, session_key="s", right=False)


# ── Over REST ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_feedback_is_given_changed_and_removed_over_rest(member: Person, outsider: Person) -> None:
    asked = stored.store()
    address = f"answers/{asked.pk}/feedback"
    for client in (TokenClient(member.user, "feedback"), outsider.client):
        problem(client.get(f"/api/v1/{address}"), 404)
        first = post(client, address, {"right": True})
        assert first.status_code == 201 and first.json()["review"] == "waiting" and first.json()["right"] is True
        second = post(client, address, {"right": False, "better_answer": "Clarke", "block_id": BLOCK})
        assert second.status_code == 200
        assert client.get(f"/api/v1/{address}").json() == second.json()
        assert second.json() | {"changed_at": ""} == {
            "answer": str(asked.pk),
            "right": False,
            "block_id": BLOCK,
            "better_answer": "Clarke",
            "review": "waiting",
            "changed_at": "",
        }
        assert client.delete(f"/api/v1/{address}").status_code == 204
        problem(client.delete(f"/api/v1/{address}"), 404)
    assert not Feedback.objects.exists()


def test_page_and_rest_have_the_same_word(member: Person) -> None:
    asked = stored.store()
    say(member.client, asked, right="yes")
    response = post(TokenClient(member.user, "feedback"), f"answers/{asked.pk}/feedback", {"better_answer": "Kubrick"})
    assert response.status_code == 200 and only().better_answer == "Kubrick" and only().right is None


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, ""),
        ({"right": "yes"}, "right"),
        ({"right": 1}, "right"),
        ({"better_answer": 7}, "better_answer"),
        ({"right": True, "block_id": "\ud800"}, "block_id"),
        ({"right": True, "why": "x"}, "why"),
    ],
)
def test_what_rest_refuses(outsider: Person, body: dict[str, Any], field: str) -> None:
    told = problem(post(outsider.client, f"answers/{stored.store().pk}/feedback", body), 400)
    assert [error["field"] for error in told["errors"]] == [field]
    assert not Feedback.objects.exists()


# ── Reviewed by curators ────────────────────────────────────────────────────────────────────────────────────────────


def said(**word: Any) -> Feedback:
    asked = stored.store()
    return Feedback.objects.create(answer=asked, session_key="s", **word)


def decide(curator: Person, one: Feedback, verdict: str, seen: str | None = None) -> Page:
    back = "/manage/feedback/?show=all"
    form = {"verdict": verdict, "seen": seen or one.changed_at.isoformat(), "was": one.review, "back": back}
    response = curator.client.post(f"/manage/feedback/{one.pk}/review/", form)
    assert response["Location"] == back
    return Page(curator.client.get(response["Location"]).content.decode())


def test_accepting_refusing_and_letting_it_wait_again(curator: Person) -> None:
    one = said(right=False, better_answer="Arthur C. Clarke", block_id=BLOCK)
    assert services.waiting_count() == 1
    for verdict in ("accepted", "refused"):
        page = decide(curator, one, verdict)
        one.refresh_from_db()
        assert (one.review, one.reviewed_by) == (verdict, curator.user)
        assert one.reviewed_at is not None and timezone.now() - one.reviewed_at < timedelta(minutes=1)
        assert "by Cora" in page.one("main") and services.waiting_count() == 0
    decide(curator, one, "waiting")
    one.refresh_from_db()
    assert (one.review, one.reviewed_by, one.reviewed_at) == ("waiting", None, None)
    trail = list(AuditEntry.objects.order_by("pk").values_list("action", "name"))
    assert trail == [("feedback.accept", "Cora"), ("feedback.refuse", "Cora"), ("feedback.reopen", "Cora")]


@pytest.mark.parametrize(
    "seen", ["2026-01-01T00:00:00+00:00", "yesterday", "2026-99-01T00:00:00+00:00", "2026-01-01T00:00"]
)
def test_what_was_changed_meanwhile_is_not_accepted(curator: Person, seen: str) -> None:
    one = said(right=True)
    assert "in the meantime; look again" in decide(curator, one, "accepted", seen).one("main")
    one.refresh_from_db()
    assert one.review == Review.WAITING and not AuditEntry.objects.exists()


def test_what_another_curator_has_reviewed_meanwhile_stays(curator: Person) -> None:
    """The second looks at a page that says that it waits still."""
    one = said(right=True)
    decide(curator, one, "accepted")
    assert one.review == Review.WAITING
    assert "reviewed in the meantime; look again" in decide(curator, one, "refused").one("main")
    one.refresh_from_db()
    assert one.review == Review.ACCEPTED


def test_a_word_that_changes_waits_again(curator: Person, member: Person) -> None:
    asked = stored.store()
    say(member.client, asked, right="yes")
    decide(curator, only(), "accepted")
    say(member.client, asked, right="yes")  # the same again
    assert only().review == Review.ACCEPTED
    say(member.client, asked, right="no", better_answer="Somebody")
    assert (only().review, only().reviewed_by, only().reviewed_at) == (Review.WAITING, None, None)


def test_feedback_without_a_right_answer_cannot_be_accepted(curator: Person) -> None:
    one = said(right=False)
    assert "nothing to learn from" in decide(curator, one, "accepted").one("main")
    unanswered = stored.store(stored.payload(explains="no_answer"))
    none = Feedback.objects.create(answer=unanswered, session_key="s", right=True)
    assert "nothing to learn from" in decide(curator, none, "accepted").one("main")
    assert not Feedback.objects.filter(review=Review.ACCEPTED).exists()
    assert "Nothing waits for you" in curator.client.get("/manage/feedback/").content.decode()


@pytest.mark.parametrize("back", ["https://elsewhere.example/", "//elsewhere.example", ""])
def test_the_way_back_stays_here(curator: Person, back: str) -> None:
    response = curator.client.post(f"/manage/feedback/{said(right=True).pk}/review/", {"verdict": "", "back": back})
    assert response["Location"] == "/manage/feedback/"


def test_what_was_accepted_is_downloaded_as_rows_to_learn_from(curator: Person) -> None:
    for right, better, review in ((True, "", "accepted"), (False, "Clarke", "accepted"), (False, "Scott", "refused")):
        said(right=right, better_answer=better, review=review)
    said(right=False, better_answer="Nobody")
    response = curator.client.get("/manage/feedback/export/")
    assert response["Content-Disposition"].startswith('attachment; filename="feedback-20')
    rows = [json.loads(line) for line in response.content.splitlines()]
    assert {answer for row in rows for answer in row["answers"]} == {"Stanley Kubrick", "Clarke"}
    page = curator.client.get("/manage/feedback/").content.decode()
    assert "/manage/feedback/export/" in page and "Make a question set" in page
    assert "confidence 70\N{NO-BREAK SPACE}%" in page  # as the asker saw it: the probability is another number
    assert "Times are UTC." in page


# ── For programs of those who run the site ──────────────────────────────────────────────────────────────────────────


def found(program: Client, query: str = "") -> list[int]:
    response = program.get(f"/api/v1/feedback?{query}")
    assert response.status_code == 200, response.content
    return [one["id"] for one in response.json()["results"]]


def test_all_feedback_over_rest(program: Client, member: Person, curator: Person) -> None:
    asked = stored.store(stored.payload(explains="no_answer"))
    say(member.client, asked, right="no", better_answer="Clarke", block_id=BLOCK)
    decide(curator, only(), "accepted")
    only().refresh_from_db()
    (listed,) = program.get("/api/v1/feedback").json()["results"]
    times = {name: listed.pop(name) for name in ("changed_at", "reviewed_at")}
    assert listed == {
        "id": only().pk,
        "answer": str(asked.pk),
        "question": asked.question,
        "answered": None,
        "deployment": asked.deployment_id,
        "right": False,
        "better_answer": "Clarke",
        "block_id": BLOCK,
        "teaches": True,
        "review": "accepted",
        "by": "Memo",
        "reviewed_by": "Cora",
    }
    assert all(parse_datetime(value) for value in times.values()) and "session_key" not in listed


def test_feedback_is_chosen_ordered_and_paged(program: Client) -> None:
    right, wrong, better = said(right=True), said(right=False), said(better_answer="Clarke", review="accepted")
    block = said(block_id=BLOCK)
    stored.deployment()
    later = said(right=True, review="refused")
    everything = [later.pk, block.pk, better.pk, wrong.pk, right.pk]
    assert found(program) == found(program, "order=-changed_at") == everything
    assert found(program, "order=changed_at") == everything[::-1]
    assert found(program, "review=waiting&teaches=true") == [right.pk]  # the curator's list
    assert found(program, "teaches=false") == [block.pk, wrong.pk]
    assert found(program, "review=accepted") == [better.pk] and found(program, "review=refused") == [later.pk]
    assert found(program, "right=true") == [later.pk, right.pk] and found(program, "right=false") == [wrong.pk]
    assert found(program, f"deployment={later.answer.deployment_id}") == [later.pk]
    assert found(program, urlencode({"since": better.changed_at, "before": later.changed_at})) == [block.pk, better.pk]
    page = program.get("/api/v1/feedback?page_size=3&order=changed_at").json()
    assert [one["id"] for one in program.get(page["next"]).json()["results"]] == everything[:2][::-1]


@pytest.mark.parametrize(
    ("address", "field"),
    [
        ("feedback?review=new", "review"),
        ("feedback?teaches=1", "teaches"),
        ("feedback?right=null", "right"),
        ("feedback?deployment=x", "deployment"),
        ("feedback?since=today", "since"),
        ("feedback?order=by", "order"),
        ("feedback?cursor=cD1ub3doZXJl", "cursor"),
        ("feedback?show=all", "show"),
        ("feedback/export?review=waiting", "review"),
    ],
)
def test_a_wrong_parameter_is_named(program: Client, address: str, field: str) -> None:
    told = problem(program.get(f"/api/v1/{address}"), 400)
    assert [error["field"] for error in told["errors"]] == [field]


def test_a_list_of_feedback_costs_the_same_however_long_it_is(
    program: Client, django_assert_max_num_queries: Any
) -> None:
    for _ in range(12):
        said(right=True)
    with django_assert_max_num_queries(5):  # the token, its use, the page
        assert len(found(program)) == 12


@pytest.mark.parametrize("accept", ["*/*", "application/jsonl", "application/json"])
def test_a_program_downloads_what_the_page_gives(program: Client, curator: Person, accept: str) -> None:
    empty = program.get("/api/v1/feedback/export")
    assert empty.status_code == 200 and empty.content == b""
    one = said(right=False, better_answer="Clarke", block_id=BLOCK, review="accepted")
    said(block_id=BLOCK)  # nothing can be learnt from it
    response = program.get("/api/v1/feedback/export", headers={"Accept": accept})
    assert response["Content-Type"] == "application/jsonl"
    page = curator.client.get("/manage/feedback/export/")
    assert response.content == page.content and response["Content-Disposition"] == page["Content-Disposition"]
    (row,) = map(json.loads, response.content.splitlines())
    assert (row["answer_ids"], row["block_ids"]) == ([str(one.answer_id)], [BLOCK])


def test_what_is_downloaded_can_be_learnt_from(program: Client, tmp_path: Path) -> None:
    said(right=False, better_answer="Arthur C. Clarke", block_id=BLOCK, review="accepted")
    path = tmp_path / "feedback.jsonl"
    path.write_bytes(program.get("/api/v1/feedback/export").content)
    (question,) = read_questions(path)
    assert question.answers == ("Arthur C. Clarke",) and question.context == stored.ODYSSEY[0].text


def test_without_the_questions_that_are_measured_by_nothing_is_downloaded(program: Client, curator: Person) -> None:
    question_set()  # a row whose file never was
    assert "dev.jsonl does not exist" in problem(program.get("/api/v1/feedback/export"), 422)["detail"]
    page = curator.client.get("/manage/feedback/export/", follow=True).content.decode()
    assert "dev.jsonl does not exist" in page


def test_feedback_is_not_for_everybody(member: Person, curator: Person, outsider: Person, staff: Person) -> None:
    wrong = [member.client, curator.client, TokenClient(staff.user, "ask", "feedback")]
    wrong.append(TokenClient(curator.user, "operate"))  # a token never curates for a curator
    for address in ("/api/v1/feedback", "/api/v1/feedback/export"):
        for client in wrong:
            problem(client.get(address), 403)
        problem(outsider.client.get(address), 401)
        assert staff.client.get(address).status_code == 200
        assert staff.client.post(address).status_code == 405


def test_shares_by_deployment(staff: Person) -> None:
    first = stored.store().deployment
    said(right=True)
    said(right=None, better_answer="x")
    stored.deployment()
    for right in (True, True, True, False):
        said(right=right)
    judged = services.by_deployment(Deployment.objects.all())
    assert [(one.answers, one.judged, one.right, one.right_share) for one in judged] == [
        (4, 4, 3, 0.75),
        (3, 1, 1, 1.0),
    ]
    text = Page(staff.client.get(f"/manage/models/{first.model_id}/").content.decode()).one("main")
    assert "75.0\xa0%" in text or "75.0 %" in text


def test_the_overview_counts_what_waits(staff: Person) -> None:
    said(right=True)
    said(right=False)
    assert "1 waits for a curator" in Page(staff.client.get("/manage/").content.decode()).one("main")


def test_blocks_of_one_title_are_told_apart(outsider: Person) -> None:
    texts = ("The museum was founded in 1923 by a printer whose name is on its door.", "Its archive holds letters.")
    first = stored.Read("Founder", texts[0], 0.6, {"1923": 0.5})
    second = stored.Read("Founder", texts[1], 0.4, {}, section="Archive")
    asked = stored.store(stored.payload((first, second), normalisation="joint"))
    page = unescape(outsider.client.get(f"/answers/{asked.pk}/").content.decode())
    assert "Founder: The museum was founded in 1923 by a printer whose name is on its door.</option>" in page
    assert "Founder › Archive: Its archive holds letters.</option>" in page
