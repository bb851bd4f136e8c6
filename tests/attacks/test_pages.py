"""Hostile texts on the pages where they come back: text like any other, and turned round by nobody.

A page is compared with the same page made of harmless texts: the same elements with the same attributes, so that no
text can have become markup. What is read there is what was written, to the letter, so that no text can have been
computed. Whatever a person or a corpus wrote stands in an element that isolates its direction.
"""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from realm_core.corpus.records import Article, RawArticle
from tests.attacks.texts import TYPED, in_turn
from tests.web.conftest import FakeEngine, Person
from tests.web.console import question_set
from tests.web.pages import stored
from tests.web.pages.ingested import ingested
from tests.web.pages.stored import Read
from webapp.models import ApiToken, AskedAnswer, AuditEntry, CorpusSnapshot, Feedback, QuestionSet

pytestmark = pytest.mark.postgresql_only

# Long texts say nothing more here; PostgreSQL holds no zero character.
SHOWN = {name: text for name, text in TYPED.items() if len(text) < 2000 and "\x00" not in text}
HARMLESS = "xyzzy"
MARK = "xyzzy"  # stands before each text, to find it again
# No element can be inside these, and browsers show each on its own.
ON_ITS_OWN = {"bdi", "title", "option", "textarea"}
ARTICLES = "https://en.wikipedia.org/wiki/"
# What no article has: controls, marks that turn what follows, signs without width.
INVISIBLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


class Structure(HTMLParser):
    """The elements of a page with their attributes' names; where texts with MARK stand that nothing isolates."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, tuple[str, ...]]] = []
        self.loose: list[str] = []
        self.addresses: list[str] = []
        self.text = ""
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
        self.text += data
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


def misread(shown: str, text: str) -> list[str]:
    """Where a page shows something else than what was written, whole, as JSON, or cut at its end."""
    written = (text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1])
    found = []
    for rest in shown.split(MARK)[1:]:
        cut = rest.partition("…")[0]
        if not rest.startswith(written) and not (cut and text.startswith(cut)):
            found.append(rest[:80])
    return found


def looked_at(text: str, person: Person) -> dict[str, Structure]:
    pages = {}
    for name, address in everything(text, person.user).items():
        response = person.client.get(address)
        assert response.status_code == 200, name
        pages[name] = Structure(response.content.decode())
    return pages


_harmless: dict[str, list[tuple[str, tuple[str, ...]]]] = {}


@pytest.fixture
def harmless(engine: FakeEngine, staff: Person) -> dict[str, list[tuple[str, tuple[str, ...]]]]:
    """The elements of each page, found once, and the same in all tests.

    What was made for them is taken away, so that the next pages show nothing else.
    """
    if not _harmless:
        _harmless.update({name: page.elements for name, page in looked_at(HARMLESS, staff).items()})
        for record in (Feedback, AskedAnswer, ApiToken, AuditEntry, QuestionSet):
            record.objects.all().delete()
    return _harmless


@pytest.mark.parametrize("text", in_turn(SHOWN, 4))
def test_a_text_stays_a_text(text: str, harmless: dict[str, Any], staff: Person) -> None:
    pages = looked_at(text, staff)
    for name, page in pages.items():
        assert page.elements == harmless[name], name
        assert not [address for address in page.addresses if "javascript:" in address], name
        assert MARK + text in page.text and misread(page.text, text) == [], name
    assert {name: page.loose for name, page in pages.items() if page.loose} == {}


@pytest.mark.parametrize("text", in_turn(SHOWN, 0))
def test_what_was_typed_comes_back_as_it_was(text: str, engine: FakeEngine, client: Client) -> None:
    """In the box of a question that is refused; an attribute and a text area are left by no text."""
    for address, field in (("/", "q"), ("/fill/", "sentence")):
        plain = Structure(client.get(address, {field: HARMLESS}).content.decode())
        page = Structure(client.get(address, {field: text}).content.decode())
        assert page.elements == plain.elements
        assert text in page.text


def without_paragraphs(page: Structure) -> list[tuple[str, tuple[str, ...]]]:
    """Its elements but for those of which each line of the text makes one."""
    return [
        (tag, names)
        for tag, names in page.elements
        if tag not in ("p", "span", "mark") or set(names) - {"class", "dir", "id"}
    ]


def article(folder: Path, client: Client, **written: str) -> tuple[Article, list[Structure]]:
    """An article that was ingested, and its page by a block of it, as it is and as the answer's."""
    CorpusSnapshot.objects.filter(name="small").delete()  # an earlier one, which could have the same block
    snapshot = ingested(folder, RawArticle(**{"id": "1", "title": HARMLESS, "url": ARTICLES, "text": MARK} | written))
    block = snapshot.block(0)
    read = Read(block.title, block.text, 0.5, {block.text[-9:]: 0.6}, 0.1)
    asked = stored.store(stored.payload((read,), HARMLESS))
    pages = [client.get(reverse("block", args=[block.block_id]), {"answer": answer}) for answer in ("", asked.pk)]
    assert [page.status_code for page in pages] == [200, 200]
    told = client.get(reverse("api-article", args=[block.block_id])).json()
    assert (told["title"], told["text"]) == (snapshot.article(0).title, snapshot.article(0).text)
    return snapshot.article(0), [Structure(page.content.decode()) for page in pages]


@pytest.mark.parametrize("text", in_turn(SHOWN, 10))
def test_an_article_stays_a_text(text: str, engine: FakeEngine, client: Client, tmp_path: Path) -> None:
    """Through cleaning, packing and the store to its page; what nobody can see does not come that far."""
    written = f"{MARK}{text} was {MARK}{text}.\n{MARK}{text} is."
    _, plain = article(tmp_path / "plain", client, text=f"{MARK} was {MARK}.\n{MARK} is.")
    kept, pages = article(tmp_path / "hostile", client, title=MARK + text, text=written)
    for page, harmless_page in zip(pages, plain, strict=True):
        assert without_paragraphs(page) == without_paragraphs(harmless_page)
        assert page.loose == []
        assert kept.title in page.text and all(line in page.text for line in kept.text.splitlines())
        assert INVISIBLE.search(page.text) is None
    if not INVISIBLE.search(text):
        assert (kept.title, kept.text) == (MARK + text, written)


@pytest.mark.parametrize("text", in_turn(SHOWN, 2))
def test_wikitext_brings_no_markup(text: str, engine: FakeEngine, client: Client, tmp_path: Path) -> None:
    written = "{} was.\n\n== {} ==\n{} is.\n\n=== {} ===\n[[{}|{}]] {{{{{}}}}} <b>{}</b>\n"
    _, plain = article(tmp_path / "plain", client, markup="wikitext", text=written.replace("{}", MARK))
    _, pages = article(tmp_path / "hostile", client, markup="wikitext", text=written.replace("{}", MARK + text))
    for page, harmless_page in zip(pages, plain, strict=True):
        assert set(page.elements) <= set(harmless_page.elements)
        assert page.loose == []
        assert "49" not in page.text


@pytest.mark.parametrize("text", in_turn({"data": "data:text/html,<script>"} | SHOWN, 0))
def test_an_article_s_address_is_one_of_the_web(text: str, engine: FakeEngine, client: Client, tmp_path: Path) -> None:
    _, plain = article(tmp_path / "plain", client)
    for number, address in enumerate((text, ARTICLES + text)):
        _, pages = article(tmp_path / str(number), client, url=address)
        for page, harmless_page in zip(pages, plain, strict=True):
            assert set(page.elements) <= set(harmless_page.elements)
            elsewhere = [one for one in page.addresses if not one.startswith(("/", "#", "http://", "https://"))]
            assert elsewhere == []
