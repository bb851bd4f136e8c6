"""The question box: asking with and without htmx, and everything that is not a good question."""

from __future__ import annotations

import html

import pytest
from django.test import override_settings

from realm_core.errors import RealmError
from tests.web.conftest import FakeEngine, Loader, Person
from tests.web.pages import stored
from tests.web.pages.pages import Page
from webapp.asking.views import EXAMPLES
from webapp.models import AskedAnswer

HTMX = {"HX-Request": "true"}


@pytest.mark.django_db
def test_the_box_is_there_before_any_model_is(outsider: Person) -> None:
    response = outsider.client.get("/")
    page = Page(response.content.decode())
    assert page.one("h1") == "Ask a question"
    assert page.all("textarea")[0][0]["id"] == page.all("label")[0][0]["for"]
    assert len(page.all("button", "example")) == len(EXAMPLES) == 6


@pytest.mark.django_db
@pytest.mark.parametrize(("address", "place"), [("/", "question-error"), ("/fill/", "sentence-error")])
def test_where_nothing_is_wrong_nothing_is_said(engine: FakeEngine, outsider: Person, address: str, place: str) -> None:
    assert f'id="{place}"></p>' in outsider.client.get(address).content.decode()


def test_a_link_may_fill_in_the_question(outsider: Person) -> None:
    page = Page(outsider.client.get("/", {"q": "Who <b>wrote</b> Hamlet?"}).content.decode())
    assert page.one("textarea") == "Who <b>wrote</b> Hamlet?"


def test_asking_leads_to_the_permanent_address(engine: FakeEngine, outsider: Person) -> None:
    response = outsider.client.post("/", {"question": "  Who directed it? "})
    asked = AskedAnswer.objects.get()
    assert (response.status_code, response["Location"]) == (302, f"/answers/{asked.pk}/")
    assert engine.asked == [("Who directed it?", 5, ())]
    page = Page(outsider.client.get(response["Location"]).content.decode())
    assert page.one("p", "answer__text") == "Stanley Kubrick"
    assert page.one("textarea") == "Who directed it?"


def test_htmx_gets_the_content_alone_and_the_address(engine: FakeEngine, outsider: Person) -> None:
    response = outsider.client.post("/", {"question": "Who directed it?"}, headers=HTMX)
    source = response.content.decode()
    assert response.status_code == 200
    assert response["HX-Push-Url"] == f"/answers/{AskedAnswer.objects.get().pk}/"
    assert "HX-Request" in response["Vary"]
    assert "<html" not in source and "<main" not in source
    page = Page(source)
    assert page.one("title") == "Who directed it? · REALM"
    assert page.one("p", "answer__text") == "Stanley Kubrick"


def test_an_example_is_asked_whatever_stands_in_the_box(engine: FakeEngine, outsider: Person) -> None:
    outsider.client.post("/", {"question": "half a quest", "example": EXAMPLES[1][1]})
    assert AskedAnswer.objects.get().question == EXAMPLES[1][1]


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("", "Write a question."),
        ("???", "Write a question in words: this has no letter and no digit."),
        ("👩‍🚀🪐", "Write a question in words: this has no letter and no digit."),
        ("\U0001f600" * 1000, "Write a question in words: this has no letter and no digit."),
        (" \n\t\u00a0 ", "Write a question."),
        ("\x00\x01", "Write a question."),
        ("x" * 1001, "A question may have at most 1000 characters; this one has 1001."),
        ("Who " + "<script>alert(1)</script>" * 60, "A question may have at most 1000 characters"),
    ],
)
def test_what_is_no_question_is_kept_and_explained(
    engine: FakeEngine, outsider: Person, typed: str, message: str
) -> None:
    response = outsider.client.post("/", {"question": typed})
    assert response.status_code == 422
    page = Page(response.content.decode())
    ((attributes, kept),) = page.all("textarea")
    assert attributes["aria-invalid"] == "true"
    assert kept == " ".join(typed.split())
    assert page.one("p", "ask__error").startswith(message)
    assert "<script>alert" not in response.content.decode()
    assert engine.asked == [] and not AskedAnswer.objects.exists()


def test_an_error_is_a_whole_page_for_htmx_too(engine: FakeEngine, outsider: Person) -> None:
    source = outsider.client.post("/", {"question": ""}, headers=HTMX).content.decode()
    assert 'id="main"' in source  # the part that htmx takes out of it


@pytest.mark.parametrize(
    "question",
    [
        "谁导演了2001太空漫游？",
        "من أخرج فيلم 2001؟",
        "מי ביים את 2001?",
        "asdf qwer zxcv",
        "<b>Who</b> & \"why\" 'so' {{ settings }} {% url 'ask' %}",
        "x" * 1000,
    ],
)
def test_strange_questions_get_an_answer_page(engine: FakeEngine, outsider: Person, question: str) -> None:
    response = outsider.client.post("/", {"question": question}, follow=True)
    assert response.status_code == 200
    page = Page(response.content.decode())
    assert page.one("h1") == question
    assert page.one("textarea") == question
    assert page.all("h1")[0][0]["dir"] == "auto"


def test_while_the_model_is_loading_the_question_waits(db: None, loader: Loader, outsider: Person) -> None:
    stored.deployment()
    loader.may_go_on.clear()
    response = outsider.client.post("/", {"question": "Who <i>was</i> it?"})
    assert response.status_code == 503
    assert int(response["Retry-After"]) > 0
    page = Page(response.content.decode())
    assert page.one("textarea") == "Who <i>was</i> it?"
    form = next(attributes for attributes, _ in page.all("form") if attributes.get("hx-trigger"))
    assert form["action"] == form["hx-post"] == "/" and form["hx-trigger"].startswith("load delay:")
    assert page.one("p", "lede") == "The model is being loaded."  # the page asks again: it asks nobody to do so


@pytest.mark.django_db
def test_nothing_deployed_is_said(loader: Loader, outsider: Person) -> None:
    response = outsider.client.post("/", {"question": "Who?"})
    assert response.status_code == 503
    assert "Nothing is deployed yet" in html.unescape(response.content.decode())


def test_a_question_that_the_engine_refuses(engine: FakeEngine, outsider: Person) -> None:
    engine.error = RealmError("The question leaves no word to look for.")
    response = outsider.client.post("/", {"question": "Who?"})
    assert response.status_code == 422
    page = Page(response.content.decode())
    assert page.one("p", "ask__error") == "The question leaves no word to look for."
    assert page.one("textarea") == "Who?"


@override_settings(ASK_RATE="2/hour")
def test_too_many_questions(engine: FakeEngine, outsider: Person) -> None:
    for _ in range(2):
        assert outsider.client.post("/", {"question": "Who?"}).status_code == 302
    assert outsider.client.post("/", {"question": ""}).status_code == 422  # a slip is not counted as a question
    response = outsider.client.post("/", {"question": "Who else?"})
    assert response.status_code == 429
    assert int(response["Retry-After"]) > 0
    assert Page(response.content.decode()).one("textarea") == "Who else?"
    assert AskedAnswer.objects.count() == 2


def test_other_methods_are_refused(engine: FakeEngine, outsider: Person) -> None:
    assert outsider.client.put("/").status_code == 405
    assert outsider.client.delete("/").status_code == 405
