"""The page that fills gaps: with and without htmx, in three ways, and when it cannot."""

from __future__ import annotations

import html
import math
import re
from dataclasses import replace

import pytest
from django.test import override_settings

from realm_core.errors import RealmError
from realm_core.text.masked import between_masks
from realm_core.text.wordpieces import Wordpieces
from tests.web.conftest import FakeEngine, Loader, Person
from tests.web.pages import fillings, stored
from tests.web.pages.fillings import BLOCKS, NULL, POLYGON, SENTENCE, marginals
from tests.web.pages.pages import Page, block_part, figures, sum_rows, tenths
from webapp.filling.views import EXAMPLES
from webapp.models import AskedAnswer
from webapp.templatetags.numbers import fine_percent, scientific, signed, times
from webapp.templatetags.pages import with_gaps, wordpiece

HTMX = {"HX-Request": "true"}


@pytest.mark.django_db
def test_the_box_is_there_before_any_model_is(outsider: Person, loader: Loader) -> None:
    page = Page(outsider.client.get("/fill/").content.decode())
    assert page.one("h1") == "Fill the gaps"
    labels = {attributes["for"] for attributes, _ in page.all("label")}
    assert labels == {page.all("textarea")[0][0]["id"], page.all("input")[0][0]["id"]}
    links = page.all("a", "example")
    assert len(links) == len(EXAMPLES) and all(link["href"] == link["hx-get"] for link, _ in links)
    current = [text for attributes, text in page.all("a") if "aria-current" in attributes]
    assert current == ["Fill"]


def test_every_example_can_be_filled(engine: FakeEngine, outsider: Person) -> None:
    page = Page(outsider.client.get("/fill/").content.decode())
    for link, _ in page.all("a", "example"):
        assert outsider.client.get(link["href"]).status_code == 200
    assert [(sentence, truth) for sentence, _, _, truth in engine.filled] == [example[1:] for example in EXAMPLES]
    wordpieces = Wordpieces.default()
    for _, sentence, truth in EXAMPLES:  # as the engine checks: one gap of any width, or one wordpiece for each
        gaps, pieces = len(between_masks(sentence)) - 1, wordpieces.ids([truth])[0]
        assert gaps in (1, len(pieces)) and wordpieces.unknown_id not in pieces


def test_a_sentence_is_filled_in_three_ways(engine: FakeEngine, outsider: Person) -> None:
    response = outsider.client.get("/fill/", {"sentence": f" {SENTENCE} ", "truth": ""})
    assert response.status_code == 200 and engine.filled == [(SENTENCE, 8, (), None)]
    source = response.content.decode()
    page = Page(source)
    assert page.one("p", "filled") == SENTENCE.replace("[MASK]", "fermat")
    assert page.one("textarea") == f" {SENTENCE} ".strip()
    shown = [figures(part)[0] for part in re.findall(r'<p class="way__probability">.*?</p>', source, re.S)]
    assert [value for value, _ in shown] == pytest.approx([0.0001, 0.9, marginals()["fermat"]])
    assert [text for _, text in shown] == ["0.01 %", "90.0 %", "48.0 %"]
    words = [text for _, text in page.all("span", "word__text")]
    assert words[:5] == ["twin", "mersenne", "strong", "safe", "good"]
    assert words[5] == words[10] == "fermat"
    assert len(page.all("li", "word--looked-for")) == 2  # the null block does not think of it
    rows, total = sum_rows(source)
    assert [row[0][0] for row in rows] == [0.5, 0.3, 0.2]
    assert sum(tenths(row[0][1]) for row in rows) == 1000
    assert sum(row[2][0] for row in rows) == pytest.approx(total[0]) == pytest.approx(marginals()["fermat"])
    assert AskedAnswer.objects.count() == 0


def test_a_block_says_what_it_counted_for(engine: FakeEngine, outsider: Person) -> None:
    source = outsider.client.get("/fill/", {"sentence": SENTENCE}).content.decode()
    total = marginals()["fermat"]
    for block in BLOCKS:
        part = block_part(source, block.block_id or "null")
        likelihood = block.words["fermat"]
        expected = [block.prior, likelihood, block.prior * likelihood / total, math.log(likelihood / 0.0001)]
        assert [value for value, _ in figures(part)][:4] == pytest.approx(expected)
    best, null = block_part(source, str(POLYGON.block_id)), block_part(source, "null")
    assert "<mark>Fermat</mark>" in best and "best passage" in best
    assert "9,000 times as likely as with none" in " ".join(Page(best).one("ul", "explain").split())
    assert "The null block" in null and "<mark>" not in null and "In its article" not in null


def test_the_truth_is_what_the_figures_are_about(engine: FakeEngine, outsider: Person) -> None:
    source = outsider.client.get("/fill/", {"sentence": SENTENCE, "truth": "Mersenne"}).content.decode()
    page = Page(source)
    assert engine.filled == [(SENTENCE, 8, (), "Mersenne")]
    assert page.one("p", "filled") == SENTENCE.replace("[MASK]", "fermat")  # still the likeliest
    assert page.one("h3", "ways__title").startswith("How likely is “mersenne”? What you say is missing.")
    assert figures(block_part(source, "null"))[1][0] == NULL.words["mersenne"]
    (row,) = page.all("tr", "guess--truth")
    assert row[1].startswith("mersenne yours 20.0")
    assert [attributes["value"] for attributes, _ in page.all("input") if attributes["name"] == "truth"] == ["Mersenne"]


def test_a_truth_that_is_no_guess_stands_below_them(engine: FakeEngine, outsider: Person) -> None:
    source = outsider.client.get("/fill/", {"sentence": SENTENCE, "truth": "sexy"}).content.decode()
    foot = re.search(r"guess--truth.*?</tfoot>", source, re.S)
    assert foot is not None and [text for _, text in figures(foot[0])] == ["1.0 × 10⁻¹² %"] * 3


def test_several_gaps(engine: FakeEngine, outsider: Person) -> None:
    two = Page(outsider.client.get("/fill/", {"sentence": "[MASK] and [MASK]"}).content.decode())
    assert two.one("p", "filled") == "fermat and fermat"
    assert [text for _, text in two.all("h5", "words__title")] == ["Gap 1", "Gap 2"] * 3
    assert not two.all("details", "way__words")
    many = Page(outsider.client.get("/fill/", {"sentence": "[MASK] or [MASK] or [MASK]"}).content.decode())
    assert len(many.all("details", "way__words")) == 3


def test_htmx_gets_the_content_alone(engine: FakeEngine, outsider: Person) -> None:
    response = outsider.client.get("/fill/", {"sentence": SENTENCE}, headers=HTMX)
    source = response.content.decode()
    assert "HX-Request" in response["Vary"] and "<html" not in source and "<main" not in source
    page = Page(source)
    assert page.one("title") == f"{SENTENCE} · REALM"
    announced = next(text for attributes, text in page.all("p") if attributes.get("id") == "announcer")
    assert announced == "fermat, as likely as not, 48.0 %."
    back = outsider.client.get("/fill/", {"sentence": SENTENCE}, headers={**HTMX, "HX-History-Restore-Request": "true"})
    assert b"<html" in back.content


@pytest.mark.parametrize(
    ("typed", "truth", "message"),
    [
        ("", "", "Write a sentence with [MASK] where a word is missing."),
        (" \n ", "x", "Write a sentence with [MASK] where a word is missing."),
        ("Nothing <b>is</b> missing.", "", "Nothing is missing in this sentence: write [MASK] in place of a word."),
        ("[mask]" * 11, "", "A sentence may have at most 10 [MASK]; this one has 11."),
        ("[MASK]" + "x" * 1000, "", "A sentence may have at most 1000 characters; this one has 1006."),
        (SENTENCE, "x" * 201, "What is missing may have at most 200 characters."),
    ],
)
def test_what_cannot_be_filled_is_kept_and_explained(
    engine: FakeEngine, outsider: Person, typed: str, truth: str, message: str
) -> None:
    response = outsider.client.get("/fill/", {"sentence": typed, "truth": truth}, headers=HTMX)
    assert response.status_code == 422 and engine.filled == []
    source = response.content.decode()
    assert 'id="main"' in source  # whole: htmx takes the content out of it
    page = Page(source)
    ((attributes, kept),) = page.all("textarea")
    assert attributes["aria-invalid"] == "true" and kept == " ".join(typed.split())
    assert page.one("p", "ask__error") == message


def test_a_refusal_of_the_engine_is_shown(engine: FakeEngine, outsider: Person) -> None:
    engine.error = RealmError("“Paro” and the 2 [MASK] do not match.")
    response = outsider.client.get("/fill/", {"sentence": "[MASK] [MASK]", "truth": "Paro"})
    assert response.status_code == 422
    assert Page(response.content.decode()).one("p", "ask__error") == str(engine.error)


def test_a_model_without_an_encoder_reads_the_gap(engine: FakeEngine, outsider: Person) -> None:
    engine.has_encoder = False
    box = outsider.client.get("/fill/").content.decode()
    assert "Without retrieval" not in box and "no encoder of masked sentences" in box
    source = outsider.client.get("/fill/", {"sentence": SENTENCE}).content.decode()
    page = Page(source)
    assert page.one("p", "filled") == SENTENCE.replace("[MASK]", "Fermat")
    assert "null block" not in source and "Utility" not in source
    shown = [figures(part)[0] for part in re.findall(r'<p class="way__probability">.*?</p>', source, re.S)]
    rows, total = sum_rows(source)
    assert [value for value, _ in shown] == pytest.approx([0.9, total[0]])
    assert sum(tenths(row[0][1]) for row in rows) == 1000
    assert sum(row[2][0] for row in rows) == pytest.approx(total[0])
    assert "That none of these passages says it" in source


def test_a_truth_that_no_passage_says(engine: FakeEngine, outsider: Person) -> None:
    engine.has_encoder = False
    source = outsider.client.get("/fill/", {"sentence": SENTENCE, "truth": "Mersenne"}).content.decode()
    assert "found “<bdi>Mersenne</bdi>” in none of the texts" in source


def test_a_probable_no_answer_is_the_headline(
    engine: FakeEngine, outsider: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.has_encoder = False
    said = replace(fillings.read(), no_answer_probability=0.51)
    monkeypatch.setattr(engine, "fill", lambda *_, **__: said)
    response = outsider.client.get("/fill/", {"sentence": SENTENCE}, headers=HTMX)
    page = Page(response.content.decode())
    assert page.one("h2", "answer__label") == "No filling found"
    assert page.one("p", "filled") == SENTENCE and "fermat" not in page.one("h1").lower()
    assert page.one("p", "answer__reason").startswith("It is as likely as not (51.0 %) that none of these")
    nearest = " ".join(page.one("p", "answer__nearest").split())
    assert nearest.startswith("What came nearest: “Fermat”,")
    announced = next(text for attributes, text in page.all("p") if attributes.get("id") == "announcer")
    assert announced == "None of these passages says it, 51.0 %."


def test_while_the_model_is_loading_the_sentence_waits(db: None, loader: Loader, outsider: Person) -> None:
    stored.deployment()
    loader.may_go_on.clear()
    response = outsider.client.get("/fill/", {"sentence": "A <i>good</i> [MASK]", "truth": "<b>"})
    assert response.status_code == 503 and int(response["Retry-After"]) > 0
    page = Page(response.content.decode())
    assert page.one("textarea") == "A <i>good</i> [MASK]"
    form = next(attributes for attributes, _ in page.all("form") if attributes.get("hx-trigger"))
    assert form["action"] == form["hx-get"] == "/fill/" and form["hx-trigger"].startswith("load delay:")
    assert page.one("p", "lede") == "The model is being loaded."  # the page asks again: it asks nobody to do so


@pytest.mark.django_db
def test_nothing_deployed_is_said(loader: Loader, outsider: Person) -> None:
    response = outsider.client.get("/fill/", {"sentence": SENTENCE})
    assert response.status_code == 503 and "Nothing is deployed yet" in html.unescape(response.content.decode())


@override_settings(ASK_RATE="1/hour")
def test_too_many_sentences(engine: FakeEngine, outsider: Person) -> None:
    assert outsider.client.get("/fill/", {"sentence": SENTENCE}).status_code == 200
    assert outsider.client.get("/fill/", {"sentence": ""}).status_code == 422  # a slip is not counted
    response = outsider.client.get("/fill/", {"sentence": SENTENCE})
    assert response.status_code == 429 and int(response["Retry-After"]) > 0
    assert Page(response.content.decode()).one("textarea") == SENTENCE


def test_a_sentence_is_data_and_never_markup(engine: FakeEngine, outsider: Person) -> None:
    evil = '"><script>alert(1)</script>{{ 7|add:7 }}[MASK]'
    for query in ({"sentence": evil, "truth": evil.replace("[MASK]", "")}, {"sentence": evil * 30}):
        source = outsider.client.get("/fill/", query).content.decode()
        assert "<script>alert" not in source and "&lt;script&gt;alert" in source and "{{ 7|add:7 }}" in source
    assert with_gaps("<b>[MASK]</b>") == '&lt;b&gt;<span class="gap">[MASK]</span>&lt;/b&gt;'


def test_other_methods_are_refused(engine: FakeEngine, outsider: Person) -> None:
    assert outsider.client.post("/fill/", {"sentence": SENTENCE}).status_code == 405


@pytest.mark.parametrize(
    ("probability", "shown"),
    [
        (0, "0.0 %"),
        (1, "100.0 %"),
        (0.001, "0.1 %"),
        (0.0005, "0.05 %"),
        (0.00037, "0.037 %"),
        (0.000006, "0.0006 %"),
        (1.1e-14, "1.1 × 10⁻¹² %"),
    ],
)
def test_however_small_a_probability_its_size_is_shown(probability: float, shown: str) -> None:
    assert fine_percent(probability).replace("\xa0", " ") == shown


def test_numbers_in_words() -> None:
    assert scientific(123456.0).replace("\xa0", " ") == "1.2 × 10⁵"
    assert [signed(value) for value in (3.555, -0.4, 0.004, -0.004)] == ["+3.56", "−0.40", "±0.00", "±0.00"]
    assert times(math.log(35)) == "35 times as likely as"
    assert times(-math.log(4)) == "4.0 times less likely than"
    assert times(0.01) == times(-0.01) == "about as likely as"
    assert times(math.log(2e6)).replace("\xa0", " ") == "2.0 × 10⁶ times as likely as"
    assert times(1e4).endswith("times as likely as")  # a float has no such power of e
    assert (wordpiece("##mat"), wordpiece("fermat"), wordpiece("#")) == ("…mat", "fermat", "#")


def test_the_filling_of_these_tests_adds_up() -> None:
    filling = fillings.filling()
    assert sum(e.posterior for e in filling.evidence) == pytest.approx(1)
    assert filling.explained.marginal == pytest.approx(sum(e.prior * e.likelihood for e in filling.evidence))
