"""Sentences about the people of a country: how many, where, their languages, religions and origins."""

from __future__ import annotations

import re
from collections.abc import Iterator

from realm_core.corpus.factbook.country import Country
from realm_core.corpus.factbook.fields import dated, enumerated, fact, first_upper, pieces, share, without_brackets

_UNNAMED = re.compile(
    r"^(other|others|none|unspecified|no answer|not stated|unaffiliated|undeclared|less than|don't know|refused)\b",
    re.I,
)
_MOST_LISTED = 12
_MOST_CITIES = 8


def languages(country: Country) -> Iterator[str]:
    """The official languages, and what is spoken."""
    text = country.raw("People and Society", "Languages") or country.raw("People and Society", "Languages", "Languages")
    text, year = dated(fact(text))
    items = [one for part in pieces(text, ";") for one in pieces(part, ",")]
    official = []
    for item in items:
        # Not "official in Burgenland" or "(includes Slovene, official in …)".
        if re.search(r"\((?:de facto |de jure )?official(?![^,;)]* in )(?! minority)", item) or re.search(
            r"\(.*\bofficial(?: administrative| national|\)|;|,| language\))", item
        ):
            name = share(item)[0]
            if name and not _UNNAMED.match(name):
                official.append(re.sub(r" (?:only|and .*)$", "", name))
    if official:
        languages_are = "languages of {} are" if len(official) > 1 else "language of {} is"
        yield f"The official {languages_are.format(country)} {enumerated(official)}."
    known = [share(item) for item in items]
    listed = [(name, part) for name, part in known if name and not _UNNAMED.match(name) and len(name) < 60]
    if not listed:
        return
    if len(listed) == 1:
        if not official:
            yield f"The language of {country} is {listed[0][0]}."
        return
    if not official and listed[0][1]:
        yield f"The most widely spoken language in {country} is {listed[0][0]}."
    yield f"Languages spoken in {country}{_as_of(year)} are {_with_shares(listed)}."


def population(country: Country) -> Iterator[str]:
    """How many people, and in which cities."""
    text, year = country.population()
    if found := re.match(r"[\d,]+|[\d.]+ million|uninhabited|no indigenous inhabitants", text):
        if not found.group()[0].isdigit():
            yield f"{first_upper(country.name)} has no permanent population."
        elif year:
            yield f"In {year} the population of {country} was estimated at {found.group()}."
        else:
            yield f"The population of {country} is {found.group()}."
    text = country.fact("People and Society", "Major urban areas - population")
    cities = []
    for piece in pieces(dated(text)[0]):
        if found := re.match(r"^([\d.,]+(?: million)?) (.+)$", without_brackets(dated(piece)[0])):
            size = float(found[1].replace(",", "").removesuffix(" million")) * (1e6 if "million" in found[1] else 1)
            cities.append((size, found[2].title() if found[2].isupper() else found[2], found[1]))
    year = dated(text)[1]
    cities = sorted((one for one in cities if one[0] > 500), reverse=True)
    if len(cities) > 1:
        when = f" in {year}" if year else ""
        yield f"The largest city of {country} is {cities[0][1]}, with {cities[0][2]} people{when}."
        others = [f"{name} ({count})" for _, name, count in cities[1:_MOST_CITIES]]
        if len(others) == 1:
            yield f"Another large city of {country} is {others[0]}."
        else:
            yield f"Other large cities of {country} are {enumerated(others)}."


def society(country: Country) -> Iterator[str]:
    """Names of its people, religions, origins, ages."""
    noun = country.fact("People and Society", "Nationality", "noun").partition(";")[0]
    if adjective := country.fact("People and Society", "Nationality", "adjective").partition(";")[0]:
        noun = noun.replace("(singular and plural)", "").replace("(US citizens)", "").replace("(US nationals)", "")
        noun = re.sub(r"man\((wo)?men\)", "men", noun)
        people = re.sub(r"\(s\)", "s", noun).strip(" ,")
        if people:
            yield f"The people of {country} are called {people}; the adjective is {without_brackets(adjective)}."
    for field, greatest, all_of in (
        ("Religions", "The main religion in {} is {}.", "Religions in {}{} are {}."),
        ("Ethnic groups", "The largest ethnic group in {} is {}.", "Ethnic groups in {}{} are {}."),
    ):
        text, year = dated(country.fact("People and Society", field))
        known = [share(one) for one in pieces(text)]
        listed = [(name, part) for name, part in known if name and not _UNNAMED.match(name) and len(name) < 60]
        if not listed:
            continue
        part = listed[0][1]
        if part and _number(part) == max(_number(one) for _, one in known):
            yield greatest.format(country, f"{listed[0][0]}, with {part} of the people")
        if len(listed) > 1:
            yield all_of.format(country, _as_of(year), _with_shares(listed))
    for label, *path in (
        ("life expectancy at birth", "Life expectancy at birth", "total population"),
        ("median age", "Median age", "total"),
        ("literacy rate", "Literacy", "total population"),
    ):
        text, year = dated(country.fact("People and Society", *path))
        if text and year:
            yield f"In {year} the {label} in {country} was {text}."


def _with_shares(listed: list[tuple[str, str]]) -> str:
    return enumerated([f"{name} ({part})" if part else name for name, part in listed[:_MOST_LISTED]])


def _as_of(year: str) -> str:
    return f" (as of {year})" if year else ""


def _number(part: str) -> float:
    found = re.search(r"\d*\.?\d+", part)
    return float(found.group()) if found else 0.0
