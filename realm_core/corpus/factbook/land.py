"""Sentences about the land of a country: where it lies, its borders, mountains, rivers, climate and resources."""

from __future__ import annotations

import re
from collections.abc import Iterator

from realm_core.corpus.factbook.country import Country
from realm_core.corpus.factbook.fields import enumerated, first_upper, notes, pieces, shortened, without_brackets
from realm_core.corpus.factbook.names import usual

_NOUN = re.compile(r", (?=(?:island|group|archipelago|atoll|string|chain|continent|peninsula)\b)")
_HEIGHT = re.compile(r"^(.*?),?\s+(-?[\d,]+(?:\.\d+)?)(?: m(?:eters)?\b.*)?$")
_MEASURED = re.compile(r"^(.+)\s+[-–]\s*([\d,.]+)\s*(?:sq )?(?:km)?\b.*$")
# Names of the neighbours that share it stand in brackets, whose ends are not always written.
_SHARED = re.compile(r"\s*(?:\[[sm/]+\]\s*)?\((?:shared|source|mouth|ephemeral|includes).*$|\s*\[[sm/]+\]$")
_RIVER_PART = re.compile(r"\s+(?:river)?(?: ?(?:source|mouth)(?: and mouth)?)?$|\*")
_COMPARED = re.compile(r"(slightly|about|almost|more|less|twice|roughly|nearly|\d|one|two|three|four|five)")
_COUNTS = ("", "one country", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_MOST_NOTES = 3


def location(country: Country) -> Iterator[str]:
    """Where it lies and how large it is."""
    if place := re.sub(r"^metropolitan France: ", "", country.fact("Geography", "Location")).partition(";")[0]:
        place = re.sub(r"^(Middle East|Caribbean)\b", r"the \1", _NOUN.sub(", a ", place, count=1))
        place = re.sub(r", a (island|archipelago|atoll)\b", r", an \1", place)
        yield f"{first_upper(country.name)} lies in {place}."
    if country.area() not in ("", "0"):
        yield f"The area of {country} is {country.area()} square kilometres."
        comparison = country.fact("Geography", "Area - comparative").partition(";")[0]
        if _COMPARED.match(comparison):
            yield f"In area, {country} is {comparison}."


def geography(country: Country) -> Iterator[str]:
    """Everything else about the land."""
    yield from _borders(country)
    yield from _heights(country)
    yield from _waters(country)
    for field, sentence in (
        ("Climate", "The climate of {}: {}."),
        ("Terrain", "The terrain of {}: {}."),
        ("Natural resources", "The natural resources of {} include {}."),
        ("Natural hazards", "Natural hazards in {}: {}."),
        ("Population distribution", "Where people live in {}: {}."),
    ):
        if text := country.fact("Geography", field):
            listed = field == "Natural resources" and ";" not in text
            yield sentence.format(country, enumerated(pieces(text)) if listed else shortened(text))
    for note in notes(country.raw("Geography", "Geography - note"))[:_MOST_NOTES]:
        yield f"About the geography of {country}: {shortened(note)}."


def _borders(country: Country) -> Iterator[str]:
    lengths: dict[str, float] = {}
    for piece in pieces(
        re.sub(r"(km) and ", r"\1; ", country.fact("Geography", "Land boundaries", "border countries"))
    ):
        if found := re.match(r"^(.*?)(?: \(.*?\))? ([\d,.]+) km", piece):
            lengths[usual(found[1])] = lengths.get(usual(found[1]), 0.0) + float(found[2].replace(",", ""))
    subject = first_upper(country.name)
    if len(lengths) == 1:
        yield f"{subject} borders only one country, {next(iter(lengths))}."
    elif lengths:
        count = _COUNTS[len(lengths)] if len(lengths) < len(_COUNTS) else str(len(lengths))
        yield f"{subject} borders {count} countries: {enumerated(list(lengths))}."
        longest = max(lengths, key=lambda name: lengths[name])
        yield f"The longest border of {country} is with {longest}, at {lengths[longest]:,.0f} km."
    elif country.fact("Geography", "Land boundaries", "total").startswith("0"):
        yield f"{subject} has no land borders with other countries."
    coast = country.fact("Geography", "Coastline")
    if "landlocked" in coast:
        yield f"{subject} is landlocked: it has no coast."
    elif found := re.match(r"[\d,.]+ km", coast):
        yield f"The coastline of {country} is {found.group()} long."


def _heights(country: Country) -> Iterator[str]:
    for which in ("highest", "lowest"):
        text = country.fact("Geography", "Elevation", f"{which} point")
        found = _HEIGHT.match(without_brackets(text)) or _HEIGHT.match(text)
        if not found:
            continue
        name, height = found[1].strip(" ,;"), found[2]
        if re.match(r"(unnamed|location|point|peak|summit|hill|highest|area|crest)\b", name):
            name = f"an {name}" if name.startswith("unnamed") else f"a {name}"
        elif re.search(r"(Ocean|Oceans|Sea|River|delta|Gulf)$", name) and not name.startswith(
            ("the ", "near ", "along ")
        ):
            name = f"the {name}"
        if height.startswith("-"):
            level = f"{height[1:]} metres below sea level"
        else:
            level = "sea level" if height == "0" else f"{height} metres above sea level"
        yield f"The {which} point of {country} is {name}, at {level}."


def _waters(country: Country) -> Iterator[str]:
    rivers = _measured(country.fact("Geography", "Major rivers (by length in km)"))
    if rivers:
        name, length = rivers[0]
        yield f"The longest river in {country} is the {name}, with a length of {length} km."
        if len(rivers) > 1:
            others = [f"the {one}" for one, _ in rivers[1:]]
            yield f"{'Other major rivers' if len(others) > 1 else 'Another major river'} of {country} {_be(others)}."
    for kind, what in (("fresh water lake(s)", "largest lake"), ("salt water lake(s)", "largest salt lake")):
        lakes = _measured(country.fact("Geography", "Major lakes (area sq km)", kind))
        if lakes:
            name, area = lakes[0]
            yield f"The {what} in {country} is {_lake(name)}, with an area of {area} square kilometres."
            if len(lakes) > 1:
                others = [_lake(one) for one, _ in lakes[1:8]]
                kind_of = what.removeprefix("largest ")
                yield f"{f'Other {kind_of}s' if len(others) > 1 else f'Another {kind_of}'} of {country} {_be(others)}."


def _measured(text: str) -> list[tuple[str, str]]:
    """Names and lengths or areas, the greatest first."""
    found = []
    for piece in pieces(text, ";"):
        parts = _MEASURED.match(piece)
        name = _RIVER_PART.sub("", _SHARED.sub("", parts[1]).strip()).strip() if parts else ""
        if parts and name:
            english = re.match(r"^(.+?) \(([^()]+)\)$", name)
            found.append((f"{english[2]} ({english[1]})" if english else name, parts[2]))
    return sorted(found, key=lambda one: -float(one[1].replace(",", "") or 0))


def _be(items: list[str]) -> str:
    return f"{'are' if len(items) > 1 else 'is'} {enumerated(items)}"


def _lake(name: str) -> str:
    return name if re.search(r"(?i)lake|lago|lac|sea|lough|danau|tonle|great salt", name) else f"Lake {name}"
