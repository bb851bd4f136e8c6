"""The answer page: its numbers, what it marks, and the answer without some of its blocks."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from realm_core.corpus.factbook.source import ADDRESS as FACTBOOK_ADDRESS
from tests.web.conftest import Person
from tests.web.pages import stored
from tests.web.pages.pages import Page, block_part, figures, sum_rows, tenths
from tests.web.pages.stored import ODYSSEY, Read
from webapp.templatetags.numbers import whole_percent
from webapp.templatetags.pages import site

pytestmark = pytest.mark.django_db


def _source(person: Person, asked: Any, *without: str, **headers: str) -> str:
    response = person.client.get(f"/answers/{asked.pk}/", {"without": list(without)}, headers=headers)
    assert response.status_code == 200
    return str(response.content.decode())


def test_the_answer_and_its_probability(outsider: Person) -> None:
    page = Page(_source(outsider, stored.store()))
    assert page.one("p", "answer__text") == "Stanley Kubrick"
    # 52.0 against the 21.8 of “no answer”: of what was decided between the two, this share.
    assert page.one("p", "answer__confidence") == "likely confidence 70 %"


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("offset", "said"), [(1.5, "how often answers like this one are right"), (0.0, "this model was not calibrated")]
)
def test_a_confidence_says_whether_it_was_measured(outsider: Person, offset: float, said: str) -> None:
    asked = stored.store({**stored.payload(), "confidence_slope": 1.0, "confidence_offset": offset})
    assert said in _source(outsider, asked)


def test_the_headline_shows_the_confidence_and_no_probability(outsider: Person) -> None:
    """Its probability may be small beside that of “no answer”, where only one of the blocks holds it."""
    calibrated = {"confidence_slope": 1.0, "confidence_offset": 3.0}
    source = _source(outsider, stored.store({**stored.payload(), **calibrated, "no_answer_probability": 0.479}))
    headline = source[source.index('class="answer"') : source.index('class="evidence"')]
    assert [shown for _, shown in figures(headline)] == ["96 %"]
    assert not re.search(r"\d,?%|[pP]robability", headline.replace("\xa0", "").replace("96%", ""))
    computed = source[source.index('id="sum-title"') :]
    assert "makes it no less right. How likely it is right, the confidence says." in " ".join(computed.split())
    uncalibrated = _source(outsider, stored.store())
    assert "makes it no less right" in uncalibrated and "the confidence says" not in uncalibrated


@pytest.mark.parametrize(
    ("probability", "shown"), [(1.0, "100 %"), (0.9972, "> 99 %"), (0.994, "99 %"), (0.003, "< 1 %"), (0.0, "0 %")]
)
def test_a_confidence_does_not_claim_certainty(probability: float, shown: str) -> None:
    assert whole_percent(probability).replace("\N{NO-BREAK SPACE}", " ") == shown


def test_the_numbers_add_up_as_shown_and_exactly(outsider: Person) -> None:
    """Priors that no decimal hits: each column still sums to what stands below it."""
    blocks = tuple(replace(block, prior=prior / 7) for block, prior in zip(ODYSSEY, (3, 1, 1, 1, 1), strict=True))
    asked = stored.store(stored.payload(blocks))
    source = _source(outsider, asked)
    rows, total = sum_rows(source)
    assert sum(tenths(prior[1]) for prior, _, _ in rows) == 1000
    assert sum(tenths(product[1]) for _, _, product in rows) == tenths(total[1])
    for prior, likelihood, product in rows:
        assert product[0] == pytest.approx(prior[0] * likelihood[0], abs=1e-12)
    assert total[0] == pytest.approx(sum(product[0] for _, _, product in rows), abs=1e-9)
    assert total[0] == pytest.approx(stored.marginals(blocks)["Stanley Kubrick"], abs=1e-9)

    posterior_tenths = 0
    for evidence in asked.payload["evidence"]:
        prior, _likelihood, posterior, support = figures(block_part(source, evidence["block_id"]))[:4]
        assert tenths(support[1]) == tenths(posterior[1]) - tenths(prior[1])
        assert support[0] == pytest.approx(evidence["posterior"] - evidence["prior"], abs=1e-12)
        posterior_tenths += tenths(posterior[1])
    assert posterior_tenths == 1000


def test_what_is_shown_multiplies(outsider: Person) -> None:
    """A product of the sum is that of the figures beside it: 5.6 % × 100.0 % is no 5.7 %."""
    offers = (("A", 0.0564), ("B", 0.0563), ("C", 0.0563), ("D", 0.831))
    blocks = tuple(Read(title, f"Yes, {title}.", prior, {"Yes": 0.99996}, 0.00004) for title, prior in offers)
    rows, total = sum_rows(_source(outsider, stored.store(stored.payload(blocks))))
    shown = [[float(figure.rstrip(" %")) for _, figure in row] for row in rows]
    assert all(product == pytest.approx(prior * likely / 100, abs=0.051) for prior, likely, product in shown)
    assert all(product <= prior for prior, _, product in shown)
    assert sum(product for *_, product in shown) == pytest.approx(float(total[1].rstrip(" %")))


def test_what_the_priors_add_up_to_has_as_many_decimals_as_they(outsider: Person) -> None:
    reads = ((0.4921, 0.9968), (0.1799, 0.9998), (0.1122, 0.9997), (0.1083, 0.99996), (0.1075, 0.9995))
    blocks = tuple(Read(str(i), f"Yes, {i}.", prior, {"Yes": likely}) for i, (prior, likely) in enumerate(reads))
    source = _source(outsider, stored.store(stored.payload(blocks)))
    foot = figures(source[source.index("<tfoot>") :])[:2]
    assert [shown for _, shown in foot] == ["100.00 %", "99.83 %"]


def test_a_figure_that_is_rounded_to_nothing_says_so(outsider: Person) -> None:
    blocks = (Read("A", "Yes, A.", 0.99999, {"Yes": 0.9}, 0.05), Read("B", "No, B.", 0.00001, {"No": 0.9}, 0.05))
    source = _source(outsider, stored.store(stored.payload(blocks)))
    assert [shown for _, shown in figures(block_part(source, blocks[1].block_id))][:3] == ["< 0.1 %", "0.0 %", "0.0 %"]
    assert [shown for _, shown in sum_rows(source)[0][1]] == ["< 0.1 %", "0.0 %", "0.0 %"]
    assert "<b>Prior <data" in source


def test_blocks_stand_in_order_of_posterior_with_the_answer_marked(outsider: Person) -> None:
    source = _source(outsider, stored.store())
    page = Page(source)
    titles = [text for attributes, text in page.all("h3") if attributes.get("id", "").startswith("title-")]
    assert titles == ["2001: A Space Odyssey", "Stanley Kubrick", "Arthur C. Clarke", "HAL 9000", "Ridley Scott"]
    assert [text for _, text in page.all("mark")] == ["Stanley Kubrick", "Stanley Kubrick"]
    assert page.one("p", "evidence__state").startswith("The answer is marked in 2 of 5;")
    assert page.one("p", "answer__compare").startswith("Found in 2001: A Space Odyssey and 1 more passage · 5 passages")
    assert ODYSSEY[0].text in [text for _, text in page.all("p", "block__text")]
    assert page.one("p", "block__section") == "Career › Breakthrough"
    assert {text for _, text in page.all("span", "block__source")} == {"From en.wikipedia.org"}


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://en.wikipedia.org/wiki/Turku", "en.wikipedia.org"),
        ("http://user@www.Example.org:8080/turku?v=2", "example.org"),
        ("javascript:alert('source')", ""),
        ("https://[example.org/", ""),
        ("", ""),
        (f"{FACTBOOK_ADDRESS}finland/", "The World Factbook (archived)"),
        ("https://www.cia.gov/the-world-factbook/countries/finland/", "The World Factbook"),
        ("https://www.cia.gov/about/", "cia.gov"),
        ("http://web.archive.org/web/2020id_/http://www.example.org/turku", "example.org (archived)"),
        ("https://web.archive.org/web/2020/javascript:alert('source')", "web.archive.org"),
        ("https://web.archive.org/web/2020/https://[example.org/", "web.archive.org"),
    ],
)
def test_a_source_is_known_by_its_host_or_its_name(url: str, name: str) -> None:
    assert site(url) == name


@pytest.mark.parametrize(
    ("url", "section", "opens"),
    [
        ("https://example.org/turku.pdf", "Page 3", "https://example.org/turku.pdf#page=3"),
        (
            "https://example.org/pdf/1706.03762?v=2#top",
            "Harbour (page 12)",
            "https://example.org/pdf/1706.03762?v=2#page=12",
        ),
        ("https://example.org/turku.pdf", "Harbour", None),
        ("https://example.org/turku.html", "Page 3", None),
        ("javascript:alert('pdf')", "Page 3", None),
        ("", "Page 3", None),
    ],
)
def test_a_passage_of_a_pdf_opens_it_at_its_page(outsider: Person, url: str, section: str, opens: str | None) -> None:
    read = replace(ODYSSEY[0], url=url, section=section)
    part = block_part(_source(outsider, stored.store(stored.payload((read, *ODYSSEY[1:])))), read.block_id)
    links = [attributes["href"] for attributes, text in Page(part).all("a") if text == section]
    assert links == ([] if opens is None else [opens]) and section in part


def test_a_block_that_adds_nothing_is_not_where_the_answer_was_found(outsider: Person) -> None:
    faint = replace(ODYSSEY[1], offers={"Stanley Kubrick": 0.0001})
    page = Page(_source(outsider, stored.store(stored.payload((ODYSSEY[0], faint, *ODYSSEY[2:])))))
    assert page.one("p", "answer__compare").startswith("Found in 2001: A Space Odyssey · 5 passages")
    assert page.one("p", "evidence__state").startswith("The answer is marked in 2 of 5;")


def test_bars_are_as_long_as_the_numbers(outsider: Person) -> None:
    source = _source(outsider, stored.store())
    for block in ODYSSEY:
        part = block_part(source, block.block_id)
        bar = re.search(rf'id="prior-{block.block_id}" width="([\d.]+)"', part)
        assert bar is not None and float(bar[1]) == pytest.approx(100 * block.prior, abs=0.01)
    against = re.search(rf'id="support-{ODYSSEY[2].block_id}" x="([-\d.]+)" width="([\d.]+)"', source)
    assert against is not None and (float(against[1]), float(against[2])) == (-20.0, 20.0)


def test_all_outcomes_make_up_a_hundred_per_cent(outsider: Person) -> None:
    source = _source(outsider, stored.store())
    others = source[source.index('id="others-title"') : source.index('id="origin-title"')]
    rows = figures(others)
    assert sum(value for value, _ in rows) == pytest.approx(1.0, abs=1e-9)
    assert sum(tenths(shown) for _, shown in rows) == 1000
    page = Page(source)
    assert [text for _, text in page.all("span", "other__text")] == [
        "Stanley Kubrick", "Arthur C. Clarke", "Ridley Scott",
        "No answer in these passages", "All other readings together",
    ]  # fmt: skip


def test_wordings_of_the_other_outcomes_are_named(outsider: Person) -> None:
    value = stored.payload()
    value["answers"][1]["also"] = ["Arthur Clarke", "Clarke"]
    page = Page(_source(outsider, stored.store(value)))
    assert [text for _, text in page.all("p", "other__also")] == ["also read as “Arthur Clarke”, “Clarke”"]


def test_no_value_of_a_block_is_empty_to_a_screen_reader(outsider: Person) -> None:
    """Bars say nothing to it, so each stands beside its figure."""
    page = Page(_source(outsider, stored.store()))
    assert len(page.all("svg", "bar")) > 20 and all(text for _, text in page.all("dd"))


def test_what_answered_and_how_long_it_took(outsider: Person) -> None:
    page = Page(_source(outsider, stored.store()))
    facts = [text for _, text in page.all("dd")]
    assert "5 passages, each by itself, and each could say “not here” block+null" in facts
    assert "realm-mini 1" in facts and "vital-en 0123456789abcdef" in facts and "gen-1" in facts
    stages = [text for attributes, text in page.all("th") if attributes.get("scope") == "row"]
    assert stages[-4:] == [
        "Turning the question into a vector", "Searching the index", "Reading the passages", "Adding up",
    ]  # fmt: skip
    assert [text for _, text in page.all("td", "num")] == ["11 ms", "4 ms", "0.21 s", "3 ms"]


@pytest.mark.parametrize(
    ("normalisation", "words"),
    [("block", "had to offer an answer"), ("joint", "weighed against each other all at once")],
)
def test_how_the_passages_were_read_is_said_in_words(outsider: Person, normalisation: str, words: str) -> None:
    page = _source(outsider, stored.store(stored.payload(normalisation=normalisation)))
    assert words in page and f"<code>{normalisation}</code>" in page


@pytest.mark.parametrize(
    "titles",
    [
        ("2001: A Space Odyssey",),
        ("Stanley Kubrick",),
        ("HAL 9000", "Ridley Scott"),
        ("2001: A Space Odyssey", "Stanley Kubrick", "Arthur C. Clarke"),
    ],
)
def test_without_some_blocks_everything_is_as_if_they_had_not_been_read(
    outsider: Person, titles: tuple[str, ...]
) -> None:
    asked = stored.store()
    removed = [block.block_id for block in ODYSSEY if block.title in titles]
    kept = stored.without(ODYSSEY, *titles)
    weight = sum(block.prior for block in kept)
    no_answer = sum(block.prior / weight * (block.null or 0.0) for block in kept)
    expected, probability = next(iter(stored.marginals(kept).items()))

    source = _source(outsider, asked, *removed)
    page = Page(source)
    assert page.one("p", "answer__text") == expected
    rows, total = sum_rows(source)
    assert total[0] == pytest.approx(probability, abs=1e-9)
    assert sorted(prior[0] for prior, _, _ in rows) == pytest.approx(sorted(b.prior / weight for b in kept), abs=1e-9)
    assert sum(tenths(prior[1]) for prior, _, _ in rows) == 1000
    outcomes = {value for value, _ in figures(source[source.index('id="others-title"') :])}
    assert any(value == pytest.approx(no_answer, abs=1e-9) for value in outcomes)

    switches = {a["value"]: "checked" in a for a, _ in page.all("input") if a.get("role") == "switch"}
    assert switches == {block.block_id: block.block_id in removed for block in ODYSSEY}
    for block_id in removed:
        assert figures(block_part(source, block_id)) == []
    assert page.one("p", "answer__compare").endswith("Stanley Kubrick, confidence 70 %")


def test_taking_away_and_bringing_back_shows_the_same_again(outsider: Person) -> None:
    asked = stored.store()
    before = _source(outsider, asked)
    _source(outsider, asked, ODYSSEY[0].block_id)
    assert _normal(_source(outsider, asked)) == _normal(before)


def test_without_any_block_there_is_nothing_to_answer_from(outsider: Person) -> None:
    source = _source(outsider, stored.store(), *(block.block_id for block in ODYSSEY))
    page = Page(source)
    assert page.one("p", "answer__text") == "Nothing left to read"
    assert len(page.all("article", "block--removed")) == 5
    assert "sum__table" not in source


def test_ids_that_it_has_not_are_ignored(outsider: Person) -> None:
    asked = stored.store()
    assert _normal(_source(outsider, asked, "0" * 32, "<script>", "")) == _normal(_source(outsider, asked))


def test_htmx_gets_the_changed_part_with_an_announcement_for_screen_readers(outsider: Person) -> None:
    source = _source(outsider, stored.store(), ODYSSEY[0].block_id, **{"HX-Request": "true"})
    assert "<html" not in source and "<textarea" not in source
    page = Page(source)
    assert page.all("div", "outcome")
    announced = next(text for attributes, text in page.all("p") if attributes.get("id") == "announcer")
    assert announced == "Without 1 of 5 passages: Arthur C. Clarke, as likely as not, confidence 42 %."


def test_going_back_in_the_browser_gets_the_whole_page(outsider: Person) -> None:
    headers = {"HX-Request": "true", "HX-History-Restore-Request": "true"}
    assert "<html" in _source(outsider, stored.store(), **headers)


@pytest.mark.parametrize(("likelihood", "shown"), [(0.0004, "< 0.1 %"), (0.0016, "0.2 %")])
def test_the_nearest_readings_have_one_figure_and_unlikely_ones_are_summed(
    outsider: Person, likelihood: float, shown: str
) -> None:
    blocks = (
        Read("Mars", "Mars is the fourth planet from the Sun.", 1.0, {"fourth": likelihood, "Sun": 0.0003}, 0.99),
    )
    source = _source(outsider, stored.store(stored.payload(blocks, explains="no_answer")))
    page = Page(source)
    assert [text for a, text in page.all("h2") if a.get("id") == "others-title"] == ["What came nearest"]
    assert [text for _, text in page.all("span", "other__text")] == ["fourth", "All other readings together"]
    assert figures(source[source.index('id="others-title"') :])[0][1] == shown
    assert f"“fourth”, {shown}" in page.one("p", "answer__reason")


def test_no_answer_is_said_and_the_evidence_shown(outsider: Person) -> None:
    blocks = tuple(replace(block, null=0.7 + block.prior / 4) for block in ODYSSEY)
    source = _source(outsider, stored.store(stored.payload(blocks, explains="no_answer")))
    page = Page(source)
    assert page.one("p", "answer__text") == "No answer found"
    # Not in words: unlike a confidence, this probability is not calibrated.
    assert page.one("p", "answer__reason").startswith("The model finds no answer in these passages, with a prob")
    assert "“Stanley Kubrick”, 52.0 %" in page.one("p", "answer__reason")
    assert page.one("p", "answer__compare").startswith("5 passages read in ")
    assert "share of the answer" not in source  # there is none that a block could have a share of
    assert len(page.all("article", "block")) == 5 and page.all("mark") == []
    rows, total = sum_rows(source)
    assert total[0] == pytest.approx(sum(b.prior * (b.null or 0) for b in blocks))
    assert sum(tenths(product[1]) for _, _, product in rows) == tenths(total[1])


def test_what_is_not_certain_is_not_said_as_if_it_were(outsider: Person) -> None:
    blocks = tuple(replace(block, null=0.9999) for block in ODYSSEY)
    page = Page(_source(outsider, stored.store(stored.payload(blocks, explains="no_answer"))))
    assert "with a probability of > 99 %." in page.one("p", "answer__reason").replace("\xa0", " ")
    assert page.one("p", "evidence__now").replace("\xa0", " ") == "No answer > 99 %"


def test_a_guess_that_is_not_sure_enough_says_how_sure_it_must_be(outsider: Person) -> None:
    blocks = tuple(replace(block, null=0.7 + block.prior / 4) for block in ODYSSEY)
    value = {**stored.payload(blocks, explains="no_answer"), "min_confidence": 0.455, "confidence_offset": -0.5}
    page = Page(_source(outsider, stored.store(value)))
    share = 0.52 / (0.52 + sum(b.prior * (b.null or 0) for b in blocks))
    sure = 1 / (1 + math.exp(0.5 - math.log(share / (1 - share))))
    assert sure < 0.455
    told = page.one("p", "answer__reason").replace("\xa0", " ")
    assert f"“Stanley Kubrick”, confidence {100 * sure:.0f} %; below 45.5 % no answer is given." in told


def test_a_candidate_that_is_not_sure_enough_says_how_sure_it_must_be(outsider: Person) -> None:
    value = {**stored.payload(normalisation="block", explains="candidate"), "min_confidence": 0.455}
    told = Page(_source(outsider, stored.store({**value, "confidence_offset": -0.5}))).one("p", "answer__reason")
    assert told.startswith("The best candidate, “Stanley Kubrick”, gets 52.0")
    assert re.search(r"%, confidence \d\d.%; below 45\.5.% no answer is given\.", told)


def test_a_sure_guess_that_no_answer_outdoes_has_its_probability(outsider: Person) -> None:
    blocks = tuple(replace(block, null=0.7 + block.prior / 4) for block in ODYSSEY)
    value = {**stored.payload(blocks, explains="no_answer"), "min_confidence": 0.455, "confidence_offset": 3.0}
    told = Page(_source(outsider, stored.store(value))).one("p", "answer__reason").replace("\xa0", " ")
    assert "“Stanley Kubrick”, 52.0 %." in told and "confidence" not in told


def test_a_candidate_that_is_too_unlikely_is_named_but_not_given(outsider: Person) -> None:
    value = stored.payload(normalisation="block", min_probability=0.6, explains="candidate")
    page = Page(_source(outsider, stored.store(value)))
    assert page.one("p", "answer__text") == "No answer found"
    assert "“Stanley Kubrick”, gets 52.0 %" in page.one("p", "answer__reason")
    assert page.one("span", "evidence__answer") == "Best candidate"  # the number beside it is that candidate's
    assert [text for _, text in page.all("mark")] == ["Stanley Kubrick"] * 2


def test_under_joint_normalisation_the_retrievers_prior_is_shown_apart(outsider: Person) -> None:
    value = stored.payload(normalisation="joint")
    for evidence in value["evidence"]:
        evidence["retriever_prior"] = 0.2
    source = _source(outsider, stored.store(value))
    assert source.count("Retriever’s softmax") == 10  # the figure, and what it means
    assert figures(block_part(source, ODYSSEY[0].block_id))[0] == (0.2, "20.0 %")
    assert "Σ weight × likelihood" in source and "<dt>Prior" not in source
    plain = _source(outsider, stored.store())
    assert "Retriever’s softmax" not in plain and "Σ prior × likelihood" in plain


def test_an_answer_that_does_not_exist(outsider: Person) -> None:
    response = outsider.client.get(f"/answers/{uuid4()}/")
    assert response.status_code == 404
    assert "There is nothing at this address" in response.content.decode()


def test_the_link_shows_the_same_for_everybody_and_after_a_new_deployment(outsider: Person, member: Person) -> None:
    asked = stored.store(asker=member.user)
    before = _normal(_source(outsider, asked))
    stored.deployment(note="another index")
    assert _normal(_source(outsider, asked)) == before


def _normal(source: str) -> str:
    """A page without what differs from visit to visit."""
    return re.sub(r'(name="csrfmiddlewaretoken" value=)"\w+"', r"\1", source)
