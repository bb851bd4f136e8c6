"""Sentences about the economy of a country: money, what it makes, what it sells and buys."""

from __future__ import annotations

import re
from collections.abc import Iterator

from realm_core.corpus.factbook.country import Country
from realm_core.corpus.factbook.fields import dated, enumerated, fact, first_upper, pieces, plain, share
from realm_core.corpus.factbook.names import usual

_FRANCS = {"XOF": "West African CFA franc", "XAF": "Central African CFA franc", "XPF": "CFP franc"}
# The singular of currencies that the source names in the plural.
_ONE = {
    "colones": "colón",
    "emalangeni": "lilangeni",
    "euros": "euro",
    "koruny": "koruna",
    "kroner": "krone",
    "kronor": "krona",
    "kronur": "króna",
    "lei": "leu",
    "leke": "lek",
    "leva": "lev",
    "maloti": "loti",
    "meticais": "metical",
    "quetzales": "quetzal",
    "zlotych": "zloty",
    "konvertibilna": "convertible",
    "reals": "real",
}
_MONEY = {
    "Bulgaria": "euro",
    "China": "renminbi, whose unit is the yuan (CNY)",
    "Ecuador": "United States dollar",
    "El Salvador": "United States dollar",
    "Gaza Strip": "new Israeli shekel (ILS)",
    "Peru": "sol (PEN)",
    "Turkey": "Turkish lira (TRY)",
    "United Kingdom": "pound sterling, or British pound (GBP)",
    "United States": "United States dollar (USD)",
    "Western Sahara": "Moroccan dirham (MAD)",
}


def currency(country: Country) -> Iterator[str]:
    text = fact(country.raw("Economy", "Exchange rates", "Currency")) or plain(country.raw("Economy", "Exchange rates"))
    money = _MONEY.get(country.title)
    if money is None and "the US dollar is used" in text:
        money = "United States dollar"
    elif money is None and "uses the euro" in text:
        money = "euro"
    elif money is None and (found := re.match(r"^(.+?)(?: \(([A-Z/]{2,9})\))? per US dollar", text)):
        code = found[2]
        money = _FRANCS.get(code or "") or " ".join(_singular(word) for word in found[1].split())
        money += f" ({code})" if code else ""
    if money:
        yield f"The currency of {country} is the {money}."


def _singular(word: str) -> str:
    if word in _ONE:
        return _ONE[word]
    kept = {"Swiss", "Honduras", "Caicos", "Islands", "Netherlands", "Seychelles"}
    return "/".join(one.removesuffix("s") for one in word.split("/")) if word not in kept else word


def economy(country: Country) -> Iterator[str]:
    """Output, industries, farming, trade."""
    overview = plain(country.raw("Economy", "Economic overview")).rstrip(" ;.")
    if overview:
        yield f"The economy of {country}: {overview}."
    text, year = dated(country.fact("Economy", "GDP (official exchange rate)"))
    if text and year:
        yield f"In {year} the gross domestic product (GDP) of {country} was estimated at {text}."
    for field, sentence in (
        ("Industries", "The industries of {} include {}."),
        ("Agricultural products", "The main agricultural products of {} are {}."),
        ("Exports - commodities", "The main exports of {} are {}."),
        ("Imports - commodities", "The main imports of {} are {}."),
    ):
        if text := dated(country.fact("Economy", field))[0]:
            yield sentence.format(country, enumerated(pieces(text)) if ";" not in text else text)
    for field, one, several in (
        ("Exports - partners", "{} exports most to {}", ", followed by {}."),
        ("Imports - partners", "{} imports most from {}", ", followed by {}."),
    ):
        partners = [share(piece) for piece in pieces(dated(country.fact("Economy", field))[0])]
        known = [f"{usual(name)} ({part})" for name, part in partners if part]
        if known:
            rest = several.format(enumerated(known[1:])) if len(known) > 1 else "."
            yield one.format(first_upper(country.name), known[0]) + rest
    code = country.fact("Communications", "Internet country code").partition(";")[0]
    if code.startswith("."):
        yield f"The internet country code of {country} is {code.split()[0]}, as in web addresses."
