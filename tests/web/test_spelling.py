"""What a misspelt question was read as is said wherever it was asked, and it can be asked exactly as it was typed."""

from __future__ import annotations

import pytest
from django.test import Client

from realm_client._calls import question_body
from realm_client._records import Question
from tests.web.asked import ask
from tests.web.command_line import command
from tests.web.conftest import FakeEngine, Person
from tests.web.operating import call_tool, post, problem
from webapp.feedback import service as feedback
from webapp.models import AskedAnswer

TYPED, MEANT = "author of frankinstein", "author of frankenstein"


@pytest.fixture(autouse=True)
def reads(engine: FakeEngine) -> None:
    engine.read_as = MEANT


def test_the_page_says_so_and_asks_as_typed(client: Client) -> None:
    page = client.post("/", {"question": TYPED}, follow=True)
    text = page.content.decode()
    assert f"Question read as “<bdi>{MEANT}</bdi>”" in text and "ask exactly as typed" in text
    asked = AskedAnswer.objects.get()
    assert (asked.question, asked.as_typed, asked.payload["read_as"]) == (TYPED, False, MEANT)

    text = client.post(f"/answers/{asked.pk}/again/", {"as_typed": "1"}, follow=True).content.decode()
    again = AskedAnswer.objects.get(again_of=asked)
    assert (again.question, again.as_typed, again.payload["read_as"]) == (TYPED, True, "")
    assert "read as" not in text
    client.post(f"/answers/{again.pk}/again/")
    assert AskedAnswer.objects.get(again_of=again).as_typed  # it stays so


def test_over_rest_it_is_a_field(client: Client) -> None:
    for path in ("ask", "retrieve"):
        told, typed = (post(client, path, {"question": TYPED} | more).json() for more in ({}, {"as_typed": True}))
        assert (told["question"], told["read_as"], typed["read_as"]) == (TYPED, MEANT, "")
    refused = problem(post(client, "ask", {"question": TYPED, "as_typed": "yes"}), 400)
    assert refused["errors"][0]["field"] == "as_typed"


def test_in_a_batch_for_all_or_for_one(client: Client) -> None:
    questions = [TYPED, {"question": TYPED, "as_typed": False}]
    told = post(client, "ask/batch", {"questions": questions, "as_typed": True}).json()
    assert [one["answer"]["read_as"] for one in told["results"]] == ["", MEANT]


def test_an_answer_kept_before_says_nothing_of_it(client: Client, member: Person) -> None:
    asked = ask(TYPED, asker=member.user)
    del asked.payload["read_as"]
    asked.save()
    assert member.client.get(f"/api/v1/answers/{asked.pk}").json()["read_as"] == ""
    assert "read as" not in member.client.get(f"/answers/{asked.pk}/").content.decode()


def test_where_the_right_answer_is_is_looked_for_by_what_was_read(engine: FakeEngine, staff: Person) -> None:
    asked = ask(TYPED, asker=staff.user)
    for name in ("model_id", "index_id", "corpus_id"):
        setattr(engine, name, asked.payload[name.removesuffix("_id")])
    staff.client.post(f"/answers/{asked.pk}/why/", {"right_answer": "Mary Shelley"})
    assert [question for question, *_ in engine.looked_for] == [MEANT]


def test_mcp_says_how_a_misspelt_question_was_read(client: Client) -> None:
    for name in ("ask", "retrieve"):
        for as_typed, read_as in ((False, MEANT), (True, "")):
            told = call_tool(client, name, question=TYPED, as_typed=as_typed)
            assert told["structuredContent"]["read_as"] == read_as


@pytest.mark.django_db(transaction=True)  # the engine loads in a thread
def test_the_command_line_says_how_a_misspelt_question_was_read() -> None:
    for arguments, says in (((), True), (("--as-typed",), False)):
        assert (f"Read as: {MEANT}" in command("ask", TYPED, *arguments)) is says


def test_the_python_client_sends_it() -> None:
    assert question_body(Question(TYPED)) == {"question": TYPED}
    assert question_body(Question(TYPED, as_typed=True)) == {"question": TYPED, "as_typed": True}


def test_whether_a_correction_can_be_learnt_is_looked_for_by_what_was_read(engine: FakeEngine, staff: Person) -> None:
    asked = ask(TYPED, asker=staff.user)
    engine.corpus_id = asked.payload["corpus"]
    feedback._locate_nearest("Mary Shelley", asked, None)
    assert [question for question, *_ in engine.looked_for] == [f"{MEANT} Mary Shelley"]
