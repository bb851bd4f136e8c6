"""Answers that a word implies: asked for a country, “Swiss” is Switzerland; for an instrument, “trumpeter” the trumpet;
for a sport, “swimmer” is swimming; for a religion, “Catholic” is Catholicism; for a party, “Democrat” is the Democratic
Party.

The countries' adjectives are those of The World Factbook (CIA, January 2026, in the public domain) where one country
alone has them, and some that are as usual: Argentinian, English, Filipino, Ivorian, Kazakh, Nepalese, Scottish, Tajik,
Uzbek, Welsh.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from realm_core.questions.answers import normalise_answer

_ASKS_COUNTRY = re.compile(
    r"\b(?:which|what|name (?:the|a))(?:\s+(?:is|was|are|were)\s+the\b)?"
    r"(?:\s+(?!(?:the|of|in|this|that|its|their)\b)[\w-]+){0,3}?"  # not "which army conquered the country"
    r"\s+(?:country|countries|nation)\b|^(?:the )?country\b"
    r"|\bcountry(?: of (?:origin|birth))?\s*\??$|^where\b",
    re.IGNORECASE,
)
_ASKS_INSTRUMENT = re.compile(r"\binstruments?\b|^what (?:did|does) .+ play\b", re.IGNORECASE)
_ASKS_SPORT = re.compile(r"\bsport\b|^what (?:did|does) .+ play\b", re.IGNORECASE)
_ASKS_RELIGION = re.compile(r"\b(?:religion|faith)\b", re.IGNORECASE)
_ASKS_PARTY = re.compile(r"\b(?:which|what)(?: [\w-]+){0,2} party\b|\bpolitical party\b|\bparty of\b", re.IGNORECASE)
_ASKS_OTHERWISE = re.compile(
    r"\b(?:languages?|speaks?|speaking|spoken|people|ethnic|nationality|religion"
    r"|words?|terms?|phrase|surname|the name)\b",
    re.IGNORECASE,
)
_COUNTRIES: Final = """
Afghan Afghanistan|Albanian Albania|Algerian Algeria|American United States|Andorran Andorra|Angolan Angola
Argentine Argentina|Argentinian Argentina|Armenian Armenia|Australian Australia|Austrian Austria|Azerbaijani Azerbaijan
Bahamian The Bahamas|Bahraini Bahrain|Bangladeshi Bangladesh|Barbadian Barbados|Belarusian Belarus|Belgian Belgium
Belizean Belize|Beninese Benin|Bhutanese Bhutan|Bolivian Bolivia|Bosnian Bosnia and Herzegovina|Brazilian Brazil
British United Kingdom|Bruneian Brunei|Bulgarian Bulgaria|Burkinabe Burkina Faso|Burmese Myanmar|Burundian Burundi
Cambodian Cambodia|Cameroonian Cameroon|Canadian Canada|Chadian Chad|Chilean Chile|Chinese China|Colombian Colombia
Comoran Comoros|Croatian Croatia|Cuban Cuba|Cypriot Cyprus|Czech Czech Republic|Danish Denmark|Djiboutian Djibouti
Dutch Netherlands|Ecuadorian Ecuador|Egyptian Egypt|Emirati United Arab Emirates|English England|Eritrean Eritrea
Estonian Estonia|Ethiopian Ethiopia|Fijian Fiji|Filipino Philippines|Finnish Finland|French France|Gabonese Gabon
Gambian The Gambia|Georgian Georgia|German Germany|Ghanaian Ghana|Greek Greece|Grenadian Grenada|Guatemalan Guatemala
Guyanese Guyana|Haitian Haiti|Honduran Honduras|Hungarian Hungary|Icelandic Iceland|Indian India|Indonesian Indonesia
Iranian Iran|Iraqi Iraq|Irish Ireland|Israeli Israel|Italian Italy|Ivorian Ivory Coast|Jamaican Jamaica|Japanese Japan
Jordanian Jordan|Kazakh Kazakhstan|Kazakhstani Kazakhstan|Kenyan Kenya|Kosovan Kosovo|Kuwaiti Kuwait
Kyrgyzstani Kyrgyzstan|Laotian Laos|Latvian Latvia|Lebanese Lebanon|Liberian Liberia|Libyan Libya|Lithuanian Lithuania
Macedonian North Macedonia|Malagasy Madagascar|Malawian Malawi|Malaysian Malaysia|Maldivian Maldives|Malian Mali
Maltese Malta|Mauritanian Mauritania|Mauritian Mauritius|Mexican Mexico|Moldovan Moldova|Mongolian Mongolia
Montenegrin Montenegro|Moroccan Morocco|Mozambican Mozambique|Namibian Namibia|Nepalese Nepal|Nepali Nepal
Nicaraguan Nicaragua|Nigerian Nigeria|Nigerien Niger|Norwegian Norway|Omani Oman|Pakistani Pakistan|Palauan Palau
Panamanian Panama|Paraguayan Paraguay|Peruvian Peru|Philippine Philippines|Polish Poland|Portuguese Portugal
Qatari Qatar|Romanian Romania|Russian Russia|Rwandan Rwanda|Salvadoran El Salvador|Samoan Samoa|Saudi Saudi Arabia
Scottish Scotland|Senegalese Senegal|Serbian Serbia|Seychellois Seychelles|Singaporean Singapore|Slovak Slovakia
Slovenian Slovenia|Somali Somalia|Spanish Spain|Sudanese Sudan|Surinamese Suriname|Swedish Sweden|Swiss Switzerland
Syrian Syria|Tajik Tajikistan|Tanzanian Tanzania|Thai Thailand|Timorese East Timor|Togolese Togo|Tongan Tonga
Trinidadian Trinidad and Tobago|Tunisian Tunisia|Turkish Turkey|Tuvaluan Tuvalu|Ugandan Uganda|Ukrainian Ukraine
Uruguayan Uruguay|Uzbek Uzbekistan|Venezuelan Venezuela|Vietnamese Vietnam|Welsh Wales|Yemeni Yemen|Zambian Zambia
Zimbabwean Zimbabwe
"""
_MUSICIANS: Final = """
accordionist accordion|bassist bass|bassoonist bassoon|cellist cello|clarinetist clarinet|clarinettist clarinet
drummer drums|flautist flute|flutist flute|guitarist guitar|harpist harp|oboist oboe|organist organ
percussionist percussion|pianist piano|saxophonist saxophone|trombonist trombone|trumpeter trumpet|violinist violin
violist viola
"""
_ATHLETES: Final = """
archer archery|athlete athletics|biathlete biathlon|boxer boxing|cricketer cricket|cyclist cycling
decathlete decathlon|diver diving|fencer fencing|footballer football|golfer golf|gymnast gymnastics
heptathlete heptathlon|jockey horse racing|judoka judo|mountaineer mountaineering|rower rowing|runner running
sailor sailing|skater skating|skier skiing|snowboarder snowboarding|sprinter sprinting|surfer surfing|swimmer swimming
weightlifter weightlifting|wrestler wrestling
"""
_OF_BELIEVER: Final = {
    "buddhist": "Buddhism",
    "catholic": "Catholicism",
    "christian": "Christianity",
    "hindu": "Hinduism",
    "jewish": "Judaism",
    "muslim": "Islam",
    "protestant": "Protestantism",
    "roman catholic": "Roman Catholicism",
    "sikh": "Sikhism",
}
_OF_POLITICIAN: Final = {
    "conservative": "Conservative Party",
    "democrat": "Democratic Party",
    "democratic": "Democratic Party",
    "labour": "Labour Party",
    "republican": "Republican Party",
    "whig": "Whig Party",
}
_PLAYER: Final = " player"
_PAID: Final = "professional "


def _table(text: str) -> dict[str, str]:
    """The first word of each entry, normalised → the rest."""
    entries = (entry.partition(" ") for entry in re.split(r"[|\n]", text.strip()))
    return {normalise_answer(word): rest for word, _, rest in entries}


_OF_ADJECTIVE: Final = _table(_COUNTRIES) | {
    "costa rican": "Costa Rica",
    "south african": "South Africa",
    "sri lankan": "Sri Lanka",
}
ADJECTIVE: Final = rf"(?:{'|'.join(word.title() for word in _OF_ADJECTIVE)})"  # pattern
_OF_MUSICIAN: Final = _table(_MUSICIANS)
_OF_ATHLETE: Final = _table(_ATHLETES) | {
    "figure skater": "figure skating",
    "marathon runner": "marathon running",
    "racing driver": "motor racing",
    "sumo wrestler": "sumo wrestling",
}
_OF_JAZZ: Final = {f"jazz {musician}": instrument for musician, instrument in _OF_MUSICIAN.items()}


def implied(question: str, keys: Collection[str]) -> dict[str, str]:
    """Normalised answer → the answer of the requested kind that it implies, if it implies one.

    A question for a place counts as one for a country: no adjective is a place.
    """
    found: dict[str, str] = {}
    if _ASKS_COUNTRY.search(question) and not _ASKS_OTHERWISE.search(question):
        found = _OF_ADJECTIVE
    if _ASKS_INSTRUMENT.search(question):
        found = found | _OF_MUSICIAN | _OF_JAZZ
    if _ASKS_RELIGION.search(question):
        found = found | _OF_BELIEVER
    if _ASKS_PARTY.search(question):
        found = found | _OF_POLITICIAN
    if _ASKS_SPORT.search(question):
        found = found | {key: sport for key in keys if (sport := _sport_of(key.removeprefix(_PAID)))}
    return {key: found[key] for key in keys if key in found}


def _sport_of(athlete: str) -> str | None:
    return _OF_ATHLETE.get(athlete) or (athlete.removesuffix(_PLAYER) if athlete.endswith(_PLAYER) else None)
