"""Sentences about the state: names, capital, government, independence, symbols."""

from __future__ import annotations

import re
from collections.abc import Iterator

from realm_core.corpus.factbook.country import Country
from realm_core.corpus.factbook.fields import enumerated, first_upper, names, pieces, plain, without_brackets
from realm_core.corpus.factbook.names import usual

_ROLE = re.compile(r"^(.+?) \(([^()]*(?:capital|seat)[^()]*)\)$")
# What the source says of capitals in more words than a name.
_CAPITALS = {
    "Myanmar": (
        "The capital of Myanmar is Naypyidaw, where the government has its seat; before 2005 it was Yangon (Rangoon)."
    ),
    "Nauru": "Nauru has no official capital; its government offices are in the Yaren District.",
    "British Indian Ocean Territory": "The British Indian Ocean Territory is administered from London.",
    "European Union": "The European Union has its institutions in Brussels, Strasbourg, Luxembourg and Frankfurt.",
    "Netherlands": "The capital of the Netherlands is Amsterdam; the seat of its government is The Hague.",
    "Chile": "The capital of Chile is Santiago; its congress meets in Valparaíso.",
    "Moldova": "The capital of Moldova is Chisinau.",
    "Sri Lanka": "The capitals of Sri Lanka are Colombo (commercial) and Sri Jayawardenepura Kotte (legislative).",
    "Bolivia": "The capitals of Bolivia are Sucre (constitutional) and La Paz (seat of government).",
}
_KIND = re.compile(r"^(?!a )[a-z][^;,(]*(republic|monarchy|democracy|federation|state|regime|sultanate|territory)\b")
_DATE = re.compile(r"^(?:ca\. )?(?:\d{1,2}(?:-\d{1,2})? [A-Z][a-z]+ )?\d{3,4}")
_HOLIDAY = re.compile(r"^(.+?), (?:the )?(\d[\d-]* [A-Z][a-z]+)\b(.*)$")
_MOST_SITES = 10


def capital(country: Country) -> Iterator[str]:
    """The capital, and what its name means."""
    text = country.fact("Government", "Capital", "name")
    if country.title in _CAPITALS:
        yield _CAPITALS[country.title]
        return
    if not text:
        return
    roles = [_ROLE.match(piece) for piece in pieces(text)]
    if len(roles) > 1 and any(roles):
        yield f"The capitals of {country} are {enumerated([f'{one[1]} ({one[2]})' for one in roles if one])}."
        return
    city = without_brackets(text.partition(";")[0])
    also = re.search(r"\((?!on |located|city|base|aka)([A-Z][\w' -]+)\)", text)
    alias = f", also called {also[1]}" if also else ""
    yield f"The capital of {country} is {city}{alias}."
    etymology = plain(country.raw("Government", "Capital", "etymology"))
    yield from _etymology(city, etymology)


def names_of(country: Country) -> Iterator[str]:
    """Official, former and local names, and what they mean."""
    subject = first_upper(country.name)
    if country.others:
        yield f"{subject} is also called {enumerated(list(country.others))}."
    long_form = without_brackets(country.fact("Government", "Country name", "conventional long form")).partition(";")[0]
    if long_form and long_form.lower() != country.title.lower():
        article = "" if re.match(r"(?i)the |none|.*'s$", long_form) else "the "
        yield f"The official name of {country} is {article}{long_form}."
    former = [without_brackets(one) for one in pieces(country.fact("Government", "Country name", "former"))]
    if former and len(former[0]) < 60 and not former[0].startswith("sometimes"):
        yield f"{subject} was formerly called {' or '.join(one for one in former if one)}."
    local = without_brackets(country.fact("Government", "Country name", "local short form")).partition("/")[0]
    if local and local != country.title and "note" not in local and len(local) < 60:
        yield f"The local name of {country} is {local}."
    yield from _etymology(country.name, plain(country.raw("Government", "Country name", "etymology")))


def _etymology(name: str, text: str) -> Iterator[str]:
    text = names(text).rstrip(" ;.")
    if not text:
        return
    derived = re.match(r"^(?:the )?(?:origin of the |country |city'?s? |island'?s? )*name (?=[a-z])", text)
    if derived and "origin" not in derived.group():
        yield f"The name of {name} {text[derived.end() :]}."
    elif re.match(r"^named ", text):
        yield f"{first_upper(name)} was {text}."
    else:
        yield f"On the name of {name}: {text}."


def government(country: Country) -> Iterator[str]:
    """Status, form of government, independence, parliament.

    Not who governs: that is out of date first, and readers took it for who governed first.
    """
    subject = first_upper(country.name)
    status = re.split(r"[;,] ", country.fact("Government", "Dependency status"))[0]
    if status.startswith(("self-governing", "part of", "administered", "one of")):
        yield f"{subject} is {_spelt_out(status)}."
    elif status and not status.startswith(("with ", country.title)):
        article = "" if status.startswith("a ") else "an " if status[0] in "aeou" else "a "
        yield f"{subject} is {article}{_spelt_out(status)}."
    if form := country.fact("Government", "Government type"):
        article = ("an " if form[0] in "aeo" else "a ") if _KIND.match(form) else ""
        yield f"The form of government of {country} is {article}{form}."
    yield from _independence(country)
    legislature = country.fact("Government", "Legislative branch", "legislature name")
    if legislature:
        legislature = legislature.removeprefix("The ")
        chambers = country.fact("Government", "Legislative branch", "legislative structure")
        yield f"The parliament of {country} is the {legislature}{f', which is {chambers}' if chambers else ''}."
    yield from _holidays(country)


def symbols(country: Country) -> Iterator[str]:
    """Flag, symbols, anthem, World Heritage."""
    flag = country.raw("Government", "Flag")
    parts = re.split(r"<strong>\s*(description|meaning|history|note)\s*:?\s*</strong>:?", flag)
    told = dict(zip(parts[1::2], parts[2::2], strict=False))
    if looks := names(plain(told.get("description", "" if len(parts) > 1 else flag)).rstrip(" ;.")):
        yield f"The flag of {country}: {looks}."
    if meaning := names(plain(told.get("meaning", "")).rstrip(" ;.")):
        yield f"What the flag of {country} stands for: {meaning}."
    for field, what in (("National symbol(s)", "symbol"), ("National color(s)", "colour")):
        values = list(dict.fromkeys(pieces(without_brackets(country.fact("Government", field)))))
        if values and not values[0].startswith("see "):
            listed = enumerated([_definite(one) for one in values] if what == "symbol" else values)
            several = len(values) > 1
            yield f"The national {what}{'s' if several else ''} of {country} {'are' if several else 'is'} {listed}."
    title = country.fact("Government", "National anthem(s)", "title").replace("”(", "” (")
    if title:
        writers = names(country.fact("Government", "National anthem(s)", "lyrics/music")).split("/")
        words, music = ("" if re.match(r"unknown|no lyrics|none", one) else one for one in (writers[0], writers[-1]))
        if words == music:
            by = f", by {words}" if words else ""
        else:
            by = ", with " + " and ".join(
                f"{what} by {one}" for what, one in (("words", words), ("music", music)) if one
            )
        # Of some realms the source has only the king's.
        royal = country.fact("Government", "National anthem(s)", "history").startswith("royal anthem")
        yield f"The {'royal' if royal else 'national'} anthem of {country} is {title}{by}."
    sites = [
        without_brackets(one)
        for one in pieces(country.fact("Government", "National heritage", "selected World Heritage Site locales"), ";")
    ]
    if sites:
        yield f"World Heritage Sites in {country} include {'; '.join(sites[:_MOST_SITES])}."


def _definite(symbol: str) -> str:
    return f"the {symbol}" if symbol[0].islower() and not symbol.startswith(("the ", "a ", "an ")) else symbol


def _independence(country: Country) -> Iterator[str]:
    text = names(country.fact("Government", "Independence"))
    if not _DATE.match(text):
        return  # territories: their status says it
    first = pieces(text, ";")[0]
    found = re.match(r"^(.+?\d{3,4}) \((?:independence )?from (.+?)(?:;.*)?\)$", first)
    on = "on " if re.match(r"\d{1,2} [A-Z]", first) else "in "
    if found and ";" not in text:
        source = found[2] if found[2].startswith("a ") else usual(_spelt_out(found[2]).removeprefix("the "))
        yield f"{first_upper(country.name)} became independent on {found[1]}, from {source}."
    elif re.fullmatch(r"[\d A-Za-z]+", first):
        yield f"{first_upper(country.name)} became independent {on}{first}."
    else:
        yield f"Dates of the independence of {country}: {_spelt_out(text)}."


def _holidays(country: Country) -> Iterator[str]:
    days = []
    for piece in pieces(names(country.fact("Government", "National holiday")), ";"):
        if found := _HOLIDAY.match(piece):
            year = re.match(r"^ \((\d+)\)", found[3])
            days.append(f"{found[1]} on {found[2]}{f' ({year[1]})' if year else ''}")
        elif not piece.startswith(("note", "the ", "see ")):
            days.append(piece)
    if days:
        yield f"The national holiday of {country} is {days[0]}."
        for day in days[1:]:
            yield f"Another national holiday of {country} is {day}."


def _spelt_out(text: str) -> str:
    return re.sub(r"\bthe US\b", "the United States", re.sub(r"\b(the )?UK\b", "the United Kingdom", text))
