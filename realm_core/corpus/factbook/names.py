"""How countries are called: the source writes "Bahamas, The", "Burma" and "DRC"."""

from __future__ import annotations

import re

# Where the usual name is another than the source's short form: code → name, then further names in use.
NAMES: dict[str, tuple[str, ...]] = {
    "ae": ("United Arab Emirates", "UAE"),
    "ax": ("Akrotiri",),
    "bm": ("Myanmar", "Burma"),
    "ce": ("Sri Lanka",),
    "cf": ("Republic of the Congo", "Congo-Brazzaville"),
    "cg": ("Democratic Republic of the Congo", "DR Congo", "DRC", "Congo-Kinshasa"),
    "ch": ("China", "PRC"),
    "ct": ("Central African Republic", "CAR"),
    "cv": ("Cape Verde", "Cabo Verde"),
    "dr": ("Dominican Republic",),
    "ee": ("European Union", "EU"),
    "ez": ("Czech Republic", "Czechia"),
    "fk": ("Falkland Islands", "Islas Malvinas"),
    "fm": ("Micronesia",),
    "gz": ("Gaza Strip", "Gaza"),
    "io": ("British Indian Ocean Territory",),
    "iv": ("Ivory Coast", "Côte d'Ivoire"),
    "kn": ("North Korea", "DPRK"),
    "ks": ("South Korea",),
    "nl": ("Netherlands", "Holland"),
    "sh": ("Saint Helena, Ascension and Tristan da Cunha",),
    "sv": ("Svalbard", "Spitsbergen"),
    "sx": ("South Georgia and the South Sandwich Islands",),
    "tb": ("Saint Barthélemy",),
    "tp": ("São Tomé and Príncipe",),
    "tt": ("East Timor", "Timor-Leste"),
    "tu": ("Turkey", "Türkiye"),
    "uc": ("Curaçao",),
    "uk": ("United Kingdom", "UK", "Great Britain"),
    "um": ("United States Pacific Island Wildlife Refuges",),
    "us": ("United States", "USA", "US", "America"),
    "vq": ("United States Virgin Islands",),
    "vt": ("Vatican City", "Holy See"),
    "wz": ("Eswatini", "Swaziland"),
}

# The end of an entry's address, where it is not the name in lower case with hyphens.
_SLUGS = {
    "bf": "bahamas-the",
    "bm": "burma",
    "cf": "congo-republic-of-the",
    "cg": "congo-democratic-republic-of-the",
    "cv": "cabo-verde",
    "ez": "czechia",
    "fk": "falkland-islands-islas-malvinas",
    "fm": "micronesia-federated-states-of",
    "ga": "gambia-the",
    "iv": "cote-divoire",
    "kn": "korea-north",
    "ks": "korea-south",
    "sx": "south-georgia-and-south-sandwich-islands",
    "tb": "saint-barthelemy",
    "tp": "sao-tome-and-principe",
    "tt": "timor-leste",
    "tu": "turkey-turkiye",
    "uc": "curacao",
    "vq": "virgin-islands",
    "vt": "holy-see-vatican-city",
}
_WITH_ARTICLE = re.compile(
    r"(Republic|Kingdom|States|Emirates|Islands|Territory|Refuges|Lands|Strip|Bank|Union)$|^(Democratic )?Republic of"
    r"|^(Netherlands|Philippines|Maldives|Comoros|Isle of Man)$"
)
# As neighbours and partners in trade are written.
_SHORT = {
    "Bosnia & Herzegovina": "Bosnia and Herzegovina",
    "Burma": "Myanmar",
    "Cabo Verde": "Cape Verde",
    "Cote d'Ivoire": "Ivory Coast",
    "Czechia": "Czech Republic",
    "DRC": "Democratic Republic of the Congo",
    "Democratic Republic of Congo": "Democratic Republic of the Congo",
    "Holy See": "Vatican City",
    "NZ": "New Zealand",
    "S. Korea": "South Korea",
    "N. Korea": "North Korea",
    "Timor-Leste": "East Timor",
    "UAE": "United Arab Emirates",
    "UK": "United Kingdom",
    "US": "United States",
    "USA": "United States",
    "the US": "United States",
    "the UK": "United Kingdom",
}


def slug_of(code: str, name: str) -> str:
    """The end of the entry's address."""
    return _SLUGS.get(code) or re.sub(r"[^a-z]+", "-", name.lower().replace("'", "")).strip("-")


def with_article(name: str) -> str:
    """The name as it stands within a sentence: "the Netherlands", "Norway"."""
    if name.startswith("The "):
        return f"the {name[4:]}"
    return f"the {name}" if _WITH_ARTICLE.search(name) else name


def usual(name: str) -> str:
    """The usual name of another country, as it stands within a sentence."""
    name = name.strip()
    return with_article(_SHORT.get(name, name))
