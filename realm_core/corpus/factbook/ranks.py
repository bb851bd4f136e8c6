"""Sentences about which country is the largest: in the world, and in the continents that its entries are sorted by.

The Factbook gives areas and populations, and people ask for the first and the last: "What is the smallest country?"
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from realm_core.corpus.factbook.country import Country
from realm_core.corpus.factbook.fields import first_upper

_ORDINALS: Final = ("", "second ", "third ", "fourth ", "fifth ", "sixth ", "seventh ", "eighth ", "ninth ", "tenth ")
# Folders of the source that are whole continents. Russia is in none of them that is.
_CONTINENTS: Final = {"africa": "Africa", "south-america": "South America"}
_NO_COUNTRIES: Final = {"European Union"}


def superlatives(countries: Iterable[tuple[str, Country]]) -> Mapping[str, list[str]]:
    """Sentences by the title of the country. countries: each with the folder of the source that it is in."""
    sovereign = [(folder, country) for folder, country in countries if _is_sovereign(country)]
    said: defaultdict[str, list[str]] = defaultdict(list)
    for place, most in [("the world", len(_ORDINALS)), *((place, 1) for place in _CONTINENTS.values())]:
        here = [country for folder, country in sovereign if place in ("the world", _CONTINENTS.get(folder))]
        for first, last, by, number in (
            ("largest", "smallest", " by area", lambda country: _number(country.area())),
            ("most populous", "least populous", "", lambda country: _number(country.population()[0])),
        ):
            ranked = _ranked(here, number)
            ranks = [(f"{ordinal}{first}", one) for ordinal, one in zip(_ORDINALS[:most], ranked, strict=False)]
            for rank, one in [*ranks, *((last, one) for one in ranked[-1:])]:
                said[one.title].append(f"{first_upper(one.name)} is the {rank} country in {place}{by}.")
    return said


def _ranked(countries: Iterable[Country], number: Callable[[Country], float | None]) -> list[Country]:
    """Those whose number is known, the largest first."""
    numbers = [(value, country) for country in countries if (value := number(country)) is not None]
    return [country for _, country in sorted(numbers, key=lambda one: -one[0])]


def _is_sovereign(country: Country) -> bool:
    independence = country.fact("Government", "Independence")
    depends = country.fact("Government", "Dependency status")
    no_country = not independence or independence.startswith("none") or country.title in _NO_COUNTRIES
    return not no_country and not depends


def _number(text: str) -> float | None:
    found = re.match(r"[\d,]+(?:\.\d+)?(?! million)", text)
    return float(found.group().replace(",", "")) if found else None
