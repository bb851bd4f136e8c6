"""What holds on every page: structure, a strict policy, and errors that help."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from django.db import connection
from django.test import Client, RequestFactory
from django.test.utils import CaptureQueriesContext
from hypothesis import given
from hypothesis import strategies as st

from tests.web.conftest import Person
from tests.web.console import another_index
from tests.web.pages import stored
from tests.web.pages.pages import Page, figures
from webapp.asking.rounding import add_up, rounded_sum
from webapp.models import CorpusSnapshot, Deployment
from webapp.pages.errors import server_error
from webapp.templatetags import numbers
from webapp.templatetags.pages import corpus_attribution

pytestmark = pytest.mark.django_db


def _addresses() -> list[str]:
    asked = stored.store()
    return [
        "/",
        "/?q=%3Cb%3E",
        f"/answers/{asked.pk}/",
        f"/answers/{asked.pk}/?without={stored.ODYSSEY[0].block_id}",
        f"/blocks/{stored.ODYSSEY[0].block_id}/?answer={asked.pk}",
        "/history/",
        "/how-it-works/",
        "/accounts/login/",
        "/nowhere/",
    ]


@pytest.mark.parametrize("who", ["outsider", "member", "staff"])
def test_every_page_is_well_formed_and_needs_nothing_that_the_policy_forbids(
    who: str, request: pytest.FixtureRequest
) -> None:
    person: Person = request.getfixturevalue(who)
    for address in _addresses():
        response = person.client.get(address)
        source = response.content.decode()
        page = Page(source)
        assert len(page.all("main")) == 1 and len(page.all("h1")) == 1, address
        assert page.all("a", "skip-link")[0][0]["href"] == "#main"
        assert page.one("title").endswith("· REALM")
        identities = [attributes["id"] for _, attributes, _ in page.elements if "id" in attributes]
        assert len(identities) == len(set(identities)), address
        levels = [int(tag[1]) for tag, _, _ in page.elements if re.fullmatch(r"h[1-6]", tag)]
        assert all(after <= before + 1 for before, after in pairwise(levels)), address
        for tag, attributes, texts in page.elements:
            assert "style" not in attributes, address
            assert not any(name.startswith("on") for name in attributes), address
            assert tag != "style" and (tag != "script" or not "".join(texts).strip()), address
        assert not re.search(r"{[%#]|{{|[%#]}|}}", re.sub(r'content="[^"]*"|content=\'[^\']*\'', "", source)), address
        policy = response["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy


def test_every_control_has_a_name() -> None:
    page = Page(Client().get(_addresses()[2]).content.decode())
    labelled = {attributes["for"] for attributes, _ in page.all("label")}
    for tag in ("input", "textarea"):
        for attributes, _ in page.all(tag):
            assert attributes.get("type") == "hidden" or attributes["id"] in labelled
    known = {attributes["id"] for _, attributes, _ in page.elements if "id" in attributes}
    for _, attributes, _ in page.elements:
        for name in ("aria-labelledby", "aria-describedby", "for"):
            assert set(attributes.get(name, "").split()) <= known
    for attributes, _ in page.all("svg"):
        assert attributes["aria-hidden"] == "true"


def test_staff_find_their_pages(staff: Person, member: Person, outsider: Person) -> None:
    for person, expected in ((staff, True), (member, False), (outsider, False)):
        links = [text for _, text in Page(person.client.get("/").content.decode()).all("a")]
        assert ("Manage" in links) is expected
        assert ("Log in" in links) is (person.user is None)


def test_the_page_that_is_shown_is_marked_in_the_navigation(outsider: Person) -> None:
    answer = f"/answers/{stored.store().pk}/"  # asking leads there without the frame being written anew
    for address, label in (
        ("/", "Ask"),
        (answer, "Ask"),
        ("/history/", "History"),
        ("/how-it-works/", "How this works"),
    ):
        page = Page(outsider.client.get(address).content.decode())
        assert [text for attributes, text in page.all("a") if "aria-current" in attributes] == [label]


def test_the_page_for_a_bug_needs_nothing(rf: RequestFactory) -> None:
    response = server_error(rf.get("/"))
    assert response.status_code == 500
    assert "Something went wrong here" in response.content.decode()


def test_the_corpus_and_its_licence_are_named_on_every_page(outsider: Person) -> None:
    """The active one, of which no more is read than is shown."""
    with CaptureQueriesContext(connection) as before:
        assert corpus_attribution() == {"corpus": None}
    assert len(before) == 1 and "path" not in before[0]["sql"]
    CorpusSnapshot.every.create(name="another", snapshot_id="f" * 16, path="", articles=1, blocks=1)
    Deployment.activate(another_index(stored.deployment().model))
    page = Page(outsider.client.get("/how-it-works/").content.decode())
    assert "vital-en" in page.all("footer")[0][1]
    assert any(attributes.get("rel") == "license" for attributes, _ in page.all("a"))


def test_the_worked_example_adds_up(outsider: Person) -> None:
    """Every figure of its table follows from priors and likelihoods."""
    page = Page(outsider.client.get("/how-it-works/").content.decode())
    cells = [text.replace("\xa0", " ") for _, text in page.all("td", "num")]
    number = [float(c.rstrip(" %").replace("\N{MINUS SIGN}", "-").replace("±", "")) for c in cells[:15]]
    rows = [number[i : i + 5] for i in (0, 5, 10)]
    total = sum(prior * likelihood / 100 for prior, likelihood, *_ in rows)
    for prior, likelihood, adds, posterior, support in rows:
        assert adds == pytest.approx(prior * likelihood / 100)
        assert posterior == pytest.approx(100 * adds / total)
        assert support == pytest.approx(posterior - prior)
    assert sum(prior for prior, *_ in rows) == 100
    assert "The probability is 80.0 %" in page.one("main") and total == pytest.approx(80)
    without_first = sum(prior * likelihood for prior, likelihood, *_ in rows[1:]) / sum(p for p, *_ in rows[1:])
    assert "25 % × 20 % = 65 %" in page.one("main") and without_first == pytest.approx(65)


def test_the_scale_of_words_is_on_the_page(outsider: Person) -> None:
    text = Page(outsider.client.get("/how-it-works/").content.decode()).one("main")
    assert all(words in text for _, words in numbers.WORDS)


@pytest.mark.parametrize(
    ("probability", "words"),
    [(1.0, "almost certain"), (0.95, "almost certain"), (0.9499, "very likely"), (0.8, "very likely"),
     (0.5, "as likely as not"), (0.2, "rather unlikely"), (0.0, "very unlikely")],
)  # fmt: skip
def test_probabilities_in_words(probability: float, words: str) -> None:
    assert numbers.in_words(probability) == words


def test_how_numbers_are_written() -> None:
    assert [numbers.percent(p) for p in (0.8312, 1.0, 0.0, 0.0004, None)] == [
        "83.1\xa0%", "100.0\xa0%", "0.0\xa0%", "< 0.1\xa0%", "–",
    ]  # fmt: skip
    assert [numbers.points(p) for p in (269, -52, 0)] == ["+26.9", "\N{MINUS SIGN}5.2", "±0.0"]
    assert [numbers.seconds(ms) for ms in (4.2, 99.4, 312.4)] == ["4\xa0ms", "99\xa0ms", "0.31\xa0s"]
    assert figures(numbers.figure(0.25)) == [(0.25, "25.0 %")]


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=20))
def test_rounded_figures_add_up_and_none_is_off_by_a_tenth(values: list[float]) -> None:
    total = sum(values)
    values = [value / total for value in values] if total > 1 else values
    total = sum(values)
    rounded = add_up(values, total)
    assert sum(rounded) == round(total * 1000)
    assert all(abs(figure - 1000 * value) < 1 + 1e-9 for figure, value in zip(rounded, values, strict=True))


@given(st.lists(st.tuples(st.floats(1e-6, 1.0), st.floats(0.0, 1.0)), min_size=1, max_size=20))
def test_a_rounded_sum_adds_up_and_multiplies(factors: list[tuple[float, float]]) -> None:
    weight = sum(prior for prior, _ in factors)
    priors, likelihoods = [prior / weight for prior, _ in factors], [likelihood for _, likelihood in factors]
    total = sum(prior * likelihood for prior, likelihood in zip(priors, likelihoods, strict=True))
    found = rounded_sum(priors, likelihoods, total)
    whole = 100 * 10**found.decimals
    assert sum(found.priors) == whole and sum(found.products) == found.total == round(total * whole)
    assert all(abs(shown - prior * whole) < 1 + 1e-6 for shown, prior in zip(found.priors, priors, strict=True))
    for prior, likelihood, product in zip(found.priors, found.likelihoods, found.products, strict=True):
        assert abs(product - prior * likelihood / whole) <= (0.5 if found.decimals < 4 else 2)
