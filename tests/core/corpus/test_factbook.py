"""Articles about countries: what is said of them, in sentences that name them, without the source's markup."""

from __future__ import annotations

import re
from typing import Any

import pytest

from realm_core.corpus.cleaning import article_of
from realm_core.corpus.factbook.country import Country
from realm_core.corpus.factbook.fields import dated, fact, names, pieces, plain, share
from realm_core.corpus.factbook.ranks import TITLE
from realm_core.corpus.factbook.source import FactbookSource
from realm_core.corpus.factbook.writing import wikitext_of
from realm_core.corpus.records import Article


@pytest.fixture(scope="module")
def countries() -> dict[str, Article]:
    cleaned = (article_of(raw) for raw in FactbookSource().articles(0))
    return {one[0].title: one[0] for one in cleaned if one is not None}


@pytest.mark.parametrize(
    ("title", "sentence"),
    [
        ("Australia", "The capital of Australia is Canberra."),
        ("Australia", "The highest point of Australia is Mount Kosciuszko, at 2,228 metres above sea level."),
        ("Australia", "Australia has no land borders with other countries."),
        ("South Africa", "The capitals of South Africa are Pretoria (administrative capital), Cape Town (legislative"),
        ("Brazil", "Brazil became independent on 7 September 1822, from Portugal."),
        ("Japan", "The currency of Japan is the yen (JPY)."),
        ("Switzerland", "The currency of Switzerland is the Swiss franc (CHF)."),
        ("Benin", "The currency of Benin is the West African CFA franc (XOF)."),
        ("Netherlands", "The official name of the Netherlands is the Kingdom of the Netherlands."),
        ("The Bahamas", "The capital of the Bahamas is Nassau."),
        ("Myanmar", "Myanmar is also called Burma."),
        ("South Korea", "The capital of South Korea is Seoul."),
        ("Belgium", "The official languages of Belgium are Dutch, French and German."),
        ("Zambia", "Zambia borders eight countries: Angola, Botswana, the Democratic Republic of the Congo,"),
        ("Portugal", "Portugal borders only one country, Spain."),
        ("Germany", "The longest river in Germany is the Danube (Donau), with a length of 2,888 km."),
        ("Algeria", "In 2025 the population of Algeria was estimated at 47,735,685."),
        ("France", "The form of government of France is a semi-presidential republic."),
        (
            "United States",
            "The capital of the United States is Washington, D.C. Washington, D.C. was named after George",
        ),
        ("Greenland", "Greenland is part of the Kingdom of Denmark."),
        ("Iceland", "The internet country code of Iceland is .is, as in web addresses."),
    ],
)
def test_facts_become_sentences(countries: dict[str, Article], title: str, sentence: str) -> None:
    assert sentence in countries[title].text


@pytest.mark.parametrize(
    "sentence",
    [
        "The largest country in the world by area is Russia, with 17,098,242 square kilometres.",
        "The tenth largest country in the world by area is Algeria, with",
        "The country with the largest population in the world is India, with",
        "The smallest country in the world by area is Vatican City.",
        "The largest country in Africa by area is Algeria.",
        "The country with the largest population in Africa is Nigeria.",
        "The smallest country in South America by area is Suriname.",
    ],
)
def test_the_largest_and_the_smallest(countries: dict[str, Article], sentence: str) -> None:
    assert sentence in countries[TITLE].text


def test_what_is_no_country_is_not_ranked(countries: dict[str, Article]) -> None:
    said = countries[TITLE].text
    assert not any(name in said for name in ("Antarctica", "European Union", "Greenland", "Tokelau"))


def test_history_stays_prose(countries: dict[str, Article]) -> None:
    australia = countries["Australia"]
    assert "In 1770, Englishman James Cook sailed to the east coast of Australia" in australia.text
    assert [section.heading for section in australia.sections] == [
        *("Name", "Geography", "People", "Government", "Symbols", "Economy", "History"),
    ]


def test_no_article_shows_how_the_source_is_written(countries: dict[str, Article]) -> None:
    assert len(countries) == 252
    left_over = re.compile(r"<|>|&\w+;|\bnote:|\bNA\b|\(\d{4} est|\(\)|: \.|,,|\.\.|\bis the The\b")
    assert [(title, found.group()) for title, one in countries.items() if (found := left_over.search(one.text))] == []


def test_a_country_of_which_little_is_known() -> None:
    entry: dict[str, Any] = {"Government": {"Country name": {"conventional short form": {"text": "Nowhere"}}}}
    assert wikitext_of(Country.of("zz", entry)) == "\n"
    entry["Government"]["Capital"] = {"name": {"text": "Erewhon (also Utopia); note - no city"}}
    assert wikitext_of(Country.of("zz", entry)) == "The capital of Nowhere is Erewhon.\n"


def test_fields() -> None:
    assert fact("<p><strong>total:</strong> 5 km; note - of which 2 km are sand</p>") == "5 km"
    assert [fact(text) for text in ("NA", "none", "")] == ["", "", ""]
    assert plain('the &ldquo;sea&rdquo;<br><br>"a"&nbsp;b <0.1%') == "the “sea” “a” b less than 0.1%"
    assert dated("97% (2023 est.)") == ("97%", "2023")
    assert pieces("gold, 1,200 goats (white, black), and salt") == ["gold", "1,200 goats (white, black)", "salt"]
    assert share("Muslim (official; mostly Sunni) 99%") == ("Muslim", "99%")
    assert names("Francisco DA SILVA of NATO, XI Jinping and Denis SASSOU-Nguesso, CHARLES III") == (
        "Francisco da Silva of NATO, Xi Jinping and Denis Sassou-Nguesso, Charles III"
    )
