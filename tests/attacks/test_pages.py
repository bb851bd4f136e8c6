"""Hostile texts on the pages where they come back: text like any other, and turned round by nobody.

A page is compared with the same page made of harmless texts: the same elements with the same attributes, so that no
text can have become markup. Whatever a person or a corpus wrote stands in an element that isolates its direction.
"""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from tests.attacks.texts import TYPED
from tests.web.conftest import FakeEngine, Person
from tests.web.console import question_set
from tests.web.pages import stored
from tests.web.pages.stored import Read
from webapp.models import ApiToken, AskedAnswer, AuditEntry, Feedback, QuestionSet

# Long texts say nothing more here; PostgreSQL holds no zero character.
SHOWN = {name: text for name, text in TYPED.items() if len(text) < 2000 and "\x00" not in text}
HARMLESS = "xyzzy"
MARK = "xyzzy"  # stands before each text, to find it again
# No element can be inside these, and browsers show each on its own.
ON_ITS_OWN = {"bdi", "title", "option", "textarea"}


class Structure(HTMLParser):
    """The elements of a page with their attributes' names; where texts with MARK stand that nothing isolates."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, tuple[str, ...]]] = []
        self.loose: list[str] = []
        self.addresses: list[str] = []
        self._open: list[tuple[str, dict[str, str | None]]] = []
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, tuple(name for name, _ in attributes)))
        given = dict(attributes)
        self.addresses += [str(given[name]) for name in ("href", "src", "action") if name in given]
        self._open.append((tag, given))

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        isolated = any(
            tag in ON_ITS_OWN or attributes.get("dir") == "auto" or "visually-hidden" in (attributes.get("class") or "")
            for tag, attributes in self._open
        )
        if MARK in data and not isolated:
            self.loose.append(f"{self._open[-1][0]}: {data.strip()[:80]}")


def everything(text: str, who: User) -> dict[str, str]:
    """Addresses of pages that show `text` wherever a text can be."""
    text = MARK + text
    blocks = tuple(
        Read(f"{text} {number}", f"{text} says {text} {number}.", 0.5, {text: 0.6, "says": 0.1}, 0.1, text, text)
        for number in (1, 2)
    )
    asked = stored.store(stored.payload(blocks, text), asker=who)
    none = stored.store(stored.payload(blocks, text, explains="no_answer"), asker=who)
    best = asked.payload["evidence"][0]["block_id"]
    said = Feedback.objects.create(answer=asked, by=who, better_answer=text, block_id=best)
    ApiToken.issue(who, text[:90], ["ask"])
    AuditEntry.record("questions.add", text, by=who, origin=text)
    questions = question_set()
    questions.origin = text[:200]
    questions.save()
    deployment = asked.deployment
    deployment.note = text[:200]
    deployment.save()
    corpus = deployment.index.corpus
    corpus.licence = corpus.attribution = text[:200]
    corpus.save()
    return {
        "answer": reverse("answer", args=[asked.pk]),
        "without a block": f"{reverse('answer', args=[asked.pk])}?without={best}",
        "no answer": reverse("answer", args=[none.pk]),
        "copy": f"{reverse('block', args=[best])}?answer={asked.pk}",
        "history": reverse("history"),
        "account": reverse("account"),
        "feedback": reverse("manage-feedback") + "?show=all",
        "audit": reverse("manage-audit"),
        "questions": reverse("manage-questions"),
        "question set": reverse("manage-question-set", args=[questions.pk]),
        "deployments": reverse("manage-deployments"),
        "corpus": reverse("manage-corpus", args=[corpus.pk]),
        "said": f"{reverse('manage-feedback')}#said-{said.pk}",
    }


def looked_at(text: str, person: Person) -> dict[str, Structure]:
    assert person.user is not None
    pages = {}
    for name, address in everything(text, person.user).items():
        response = person.client.get(address)
        assert response.status_code == 200, name
        pages[name] = Structure(response.content.decode())
    return pages


@pytest.fixture
def harmless(engine: FakeEngine, staff: Person) -> dict[str, list[tuple[str, tuple[str, ...]]]]:
    """The elements of each page; what was made for them is taken away, so that the next pages show nothing else."""
    found = {name: page.elements for name, page in looked_at(HARMLESS, staff).items()}
    for record in (Feedback, AskedAnswer, ApiToken, AuditEntry, QuestionSet):
        record.objects.all().delete()
    return found


@pytest.mark.parametrize("text", SHOWN.values(), ids=SHOWN)
def test_a_text_stays_a_text(text: str, harmless: dict[str, Any], staff: Person) -> None:
    pages = looked_at(text, staff)
    for name, page in pages.items():
        assert page.elements == harmless[name], name
        assert not [address for address in page.addresses if "javascript:" in address], name
    assert {name: page.loose for name, page in pages.items() if page.loose} == {}


@pytest.mark.parametrize("text", SHOWN.values(), ids=SHOWN)
def test_what_was_typed_comes_back_as_it_was(text: str, engine: FakeEngine, client: Client) -> None:
    """In the box of a question that is refused; an attribute and a text area are left by no text."""
    for address, field in (("/", "q"), ("/fill/", "sentence")):
        plain = Structure(client.get(address, {field: HARMLESS}).content.decode())
        page = Structure(client.get(address, {field: text}).content.decode())
        assert page.elements == plain.elements
