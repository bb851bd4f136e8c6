"""The article about which countries are the largest, the smallest and the most populous.

The Factbook gives areas and populations, and people ask for the first and the last: "What is the smallest country?"
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from realm_core.corpus.factbook.country import Country

TITLE: Final = "Largest and smallest countries"
_ORDINALS: Final = ("", "second ", "third ", "fourth ", "fifth ", "sixth ", "seventh ", "eighth ", "ninth ", "tenth ")
# Only these folders of the source are whole continents. Asia is several folders, and Russia is filed under one of them.
_CONTINENTS: Final = {"africa": "Africa", "south-america": "South America"}
_NO_COUNTRIES: Final = {"European Union"}


def wikitext_of_ranks(countries: Mapping[str, list[Country]]) -> str:
    """Its sections. countries: by the folder of the source that they are in."""
    sovereign = {folder: [one for one in own if _is_sovereign(one)] for folder, own in countries.items()}
    everywhere = [one for own in sovereign.values() for one in own]
    sections = {
        "Area": _largest(everywhere),
        "Population": _most_populous(everywhere),
        "Smallest": _smallest("the world", everywhere),
        **{place: _in_continent(place, sovereign.get(folder, [])) for folder, place in _CONTINENTS.items()},
    }
    return "\n\n".join(f"== {heading} ==\n{' '.join(sentences)}" for heading, sentences in sections.items()) + "\n"


def _largest(countries: Iterable[Country]) -> Iterator[str]:
    for ordinal, country in zip(_ORDINALS, _by(_area, countries), strict=False):
        area = f"with {country.area()} square kilometres"
        yield f"The {ordinal}largest country in the world by area is {country}, {area}."


def _most_populous(countries: Iterable[Country]) -> Iterator[str]:
    for ordinal, country in zip(_ORDINALS, _by(_people, countries), strict=False):
        people = f"with {country.population()[0]} people"
        yield f"The country with the {ordinal}largest population in the world is {country}, {people}."


def _smallest(place: str, countries: Iterable[Country]) -> Iterator[str]:
    yield f"The smallest country in {place} by area is {_by(_area, countries)[-1]}."
    yield f"The country with the smallest population in {place} is {_by(_people, countries)[-1]}."


def _in_continent(place: str, countries: Iterable[Country]) -> Iterator[str]:
    yield f"The largest country in {place} by area is {_by(_area, countries)[0]}."
    yield f"The country with the largest population in {place} is {_by(_people, countries)[0]}."
    yield from _smallest(place, countries)


def _by(number: Callable[[Country], float | None], countries: Iterable[Country]) -> list[Country]:
    """Those whose number is known, the largest first."""
    numbers = [(value, country) for country in countries if (value := number(country)) is not None]
    return [country for _, country in sorted(numbers, key=lambda one: -one[0])]


def _area(country: Country) -> float | None:
    return _number(country.area())


def _people(country: Country) -> float | None:
    return _number(country.population()[0])


def _number(text: str) -> float | None:
    found = re.match(r"[\d,]+(?:\.\d+)?(?! million)", text)
    return float(found.group().replace(",", "")) if found else None


def _is_sovereign(country: Country) -> bool:
    independence = country.fact("Government", "Independence")
    depends = country.fact("Government", "Dependency status")
    no_country = not independence or independence.startswith("none") or country.title in _NO_COUNTRIES
    return not no_country and not depends
