"""The article behind a block."""

from __future__ import annotations

from pathlib import Path

import pytest

from realm_core.corpus.metadata import known_of
from realm_core.corpus.records import Article, ArticleRights, Block, RawArticle, Section
from realm_core.corpus.store import Snapshot
from tests.web.conftest import Person
from tests.web.pages import stored
from tests.web.pages.ingested import AUSTRALIA, ingested
from tests.web.pages.pages import Page
from webapp.articles.views import article_parts
from webapp.models import Document

pytestmark = pytest.mark.django_db


@pytest.fixture
def snapshot(tmp_path: Path) -> Snapshot:
    """A corpus of one article with sections."""
    return ingested(tmp_path, AUSTRALIA)


def test_the_article_with_its_headings_and_the_block_marked(snapshot: Snapshot, outsider: Person) -> None:
    block = next(b for b in snapshot.blocks_of_article(0) if "Canberra" in b.text)
    response = outsider.client.get(f"/blocks/{block.block_id}/")
    assert response.status_code == 200
    page = Page(response.content.decode())
    assert page.one("h1") == "Australia"
    assert page.all("h2")[0][1] == "History"
    marked = " ".join(text for _, text in page.all("span", "in-block"))
    assert " ".join(block.text.split()) == marked
    assert page.all("span", "in-block")[0][0].get("id") == "block"
    links = {text: attributes["href"] for attributes, text in page.all("a")}
    assert links["Australia"] == "https://en.wikipedia.org/wiki/Australia"
    assert links["Wikipedia contributors"].startswith("https://en.wikipedia.org/wiki/Australia?")
    assert links["CC BY-SA 4.0"] == "https://creativecommons.org/licenses/by-sa/4.0/"


def test_an_article_of_another_source_names_its_own_rights(tmp_path: Path, outsider: Person) -> None:
    address = "https://example.org/almanac/"
    almanac = RawArticle("2", "Almanac: Australia", f"{address}australia/", "Australia is large.")
    rights = ArticleRights(address, "public domain", "Facts from an almanac")
    corpus = ingested(tmp_path, AUSTRALIA, almanac, rights=(rights,))
    told = []
    for article in (0, 1):
        block = corpus.blocks_of_article(article)[0]
        shown = outsider.client.get(f"/api/v1/blocks/{block.block_id}/article").json()
        told.append((shown["licence"], shown["attribution"]))
        assert known_of(corpus.manifest, block.url)["licence"] == shown["licence"]
    assert told == [("CC BY-SA 4.0", "Somebody's kindness"), ("public domain", "Facts from an almanac")]


def test_from_an_answer_its_words_are_marked_too(snapshot: Snapshot, outsider: Person) -> None:
    block = next(b for b in snapshot.blocks_of_article(0) if "Canberra" in b.text)
    read = stored.Read(block.title, block.text, 1.0, {"Canberra": 0.9}, 0.1)
    assert read.block_id == block.block_id
    asked = stored.store(stored.payload((read,), question="What is the capital of Australia?"))
    page = Page(outsider.client.get(f"/blocks/{block.block_id}/", {"answer": asked.pk}).content.decode())
    assert page.one("mark") == "Canberra"
    assert "What is the capital of Australia?" in page.one("p", "way-back")


def test_a_block_whose_corpus_is_gone_shows_the_kept_copy(outsider: Person) -> None:
    asked = stored.store()
    block = stored.ODYSSEY[0]
    for address in (f"/blocks/{block.block_id}/", f"/blocks/{block.block_id}/?answer={asked.pk}"):
        page = Page(outsider.client.get(address).content.decode())
        assert page.one("h1") == block.title
        assert page.one("span", "in-block") == block.text
        assert "no longer here" in page.one("p", "notice")
    assert page.one("mark") == "Stanley Kubrick"


def test_a_kept_copy_is_not_under_the_licence_of_a_corpus_that_it_was_added_to(outsider: Person) -> None:
    asked, block = stored.store(), stored.ODYSSEY[0]
    own = {"title": block.title, "url": block.url, "licence": "All rights reserved"}
    Document.objects.create(index=asked.deployment.index, document_id="d-1", format="text", blocks=1, **own)
    page = outsider.client.get(f"/blocks/{block.block_id}/").content.decode()
    assert "under <bdi>All rights reserved</bdi>" in page


@pytest.mark.parametrize("block_id", ["0" * 32, "nonsense", "<script>", "％", "0" * 500])
def test_a_block_that_nobody_knows(block_id: str, snapshot: Snapshot, outsider: Person) -> None:
    response = outsider.client.get(f"/blocks/{block_id}/")
    assert response.status_code == 404
    assert "<script>" not in response.content.decode()


@pytest.mark.parametrize("answer", ["", "7", "<b>", "00000000-0000-0000-0000-000000000000"])
def test_an_answer_that_does_not_exist_marks_nothing(answer: str, outsider: Person) -> None:
    stored.store()
    response = outsider.client.get(f"/blocks/{stored.ODYSSEY[0].block_id}/", {"answer": answer})
    assert response.status_code == 200
    assert Page(response.content.decode()).all("mark") == []


@pytest.mark.parametrize("address", ["javascript:alert(1)", "data:text/html,x", "", "https://[", "/relative"])
def test_an_unsafe_address_of_an_article_is_not_linked(address: str, outsider: Person) -> None:
    stored.store(stored.payload((stored.Read("Title", "Text with words", 1.0, {"words": 0.9}, url=address),)))
    block_id = stored.Read("Title", "Text with words", 1.0, {}).block_id
    page = Page(outsider.client.get(f"/blocks/{block_id}/").content.decode())
    assert all(attributes.get("rel") != "external" for attributes, _ in page.all("a"))


def test_sections_paragraphs_and_the_cut_block() -> None:
    """Nothing of the article is lost or doubled, wherever the block begins and ends."""
    text = "Lead one.\nLead two.\nEarly days.\nLater days.\nOnly child.\n"
    sections = (
        Section("History", text.index("Early")),
        Section("History › Later", text.index("Later")),
        Section("Other › Child", text.index("Only")),
    )
    article = Article("1", "T", "", text, sections)
    for start in range(0, len(text), 3):
        for end in range(start + 1, len(text), 4):
            block = Block(0, "b", "T", text[start:end], 0, start, end, "", "")
            parts = list(article_parts(article, block, 0, end - start))
            assert [(p.heading, p.level) for p in parts] == [
                ("", 2),
                ("History", 2),
                ("Later", 3),
                ("Other › Child", 2),
            ]
            pieces = [paragraph for part in parts for paragraph in part.paragraphs]
            assert text == "".join(
                p.before + (p.inside.before + p.inside.marked + p.inside.after if p.inside else "") + p.after
                for p in pieces
            )
            inside = "".join(p.inside.marked for p in pieces if p.inside)
            assert inside == text[start:end]
            assert sum(p.first for p in pieces if p.inside) == 1


def test_a_heading_that_the_text_says_is_shown_once() -> None:
    text = "Lead.\nAnnual leave\nThirty days.\nSick leave\nBy nine."
    sections = (
        Section("Annual leave (page 1)", text.index("Annual")),
        Section("Sick leave (page 2)", text.index("Sick")),
    )
    block = Block(0, "b", "T", text[6:31], 0, 6, 31, "", "")
    lead, leave, sick = article_parts(Article("1", "T", "", text, sections), block, 13, 19)
    assert [part.heading for part in (lead, leave, sick)] == ["", "Annual leave (page 1)", "Sick leave (page 2)"]
    [thirty], [nine] = leave.paragraphs, sick.paragraphs
    assert thirty.inside is not None and thirty.inside.marked == "Thirty" and thirty.first
    assert (nine.inside, nine.before.strip()) == (None, "By nine.")
