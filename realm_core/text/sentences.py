"""Sentence boundaries by rules for English, French and Spanish.

A line break always ends a sentence. A full stop ends one unless it follows an abbreviation or an initial, or
precedes lower case. After abbreviations that can end a sentence ("Inc.", "U.S.", "p.m.", an initial) the next word
decides: a capitalised function word ("The", "Il", "El") starts a new sentence, a name does not. In doubt there is no
boundary: a missed one only joins two sentences, a wrong one splits a sentence.
"""

from __future__ import annotations

import re

_CLOSERS = "\"'”’»)\\]"
_OPENERS = "\"'“‘«(\\[¿¡—–\\-"

# A line break; an ideographic full stop, which no space follows; or closing punctuation, then a space.
# Possessive quantifiers, and a run of marks that only matches at its start, keep this linear on any text.
_CANDIDATE = re.compile(rf"\n|[。！？][」』”’）)]*+|(?<![.!?…۔؟।])(?P<mark>[.!?…۔؟।]++)[{_CLOSERS}]*+(?P<space>\s++)")
_WORD_AFTER = re.compile(rf"[{_OPENERS}\s]*(?P<word>[^\W\d_]+)?(?P<next>.)?", re.DOTALL)
_FIRST_AFTER = re.compile(rf"[{_OPENERS}\s]*(?P<first>.)?", re.DOTALL)
_TOKEN_BEFORE = re.compile(rf"[^\s{_OPENERS}/]+$")
_LOOK_BACK = 24  # characters; no abbreviation is longer
_LIST_NUMBER = re.compile(r"(?:^|\n)[ \t]*(?:\d{1,3}|[A-Za-z])$")
_DOTTED = re.compile(r"(?:[^\W\d_]{1,3}\.-?)+[^\W\d_]{1,3}$")

# A sentence never ends after these: titles, and words that introduce the next one.
_NEVER = frozenset(
    "al mr mrs ms dr drs prof rev gen col lt capt cpt sgt cmdr adm maj brig gov sen rep supt messrs mme mlle mgr sra "
    "srta sres dña d.ª vs viz e.g i.e cf ca approx eds trans publ univ p.ej sv abbr lat gr germ russ pron née "
    "st ste sta sto mt".split()
)
# A sentence does not end after these if a number follows.
_BEFORE_NUMBER = frozenset(
    "no nos nr nº vol vols p pp pág págs núm fig figs ch sec art op tel est fl av ver jan feb mar apr jun jul aug sep "
    "sept oct nov dec janv févr juil déc ene abr ago".split()
)
# A sentence ends after these if a function word follows.
_PERHAPS = frozenset(
    "inc ltd co corp bros cie jr sr snr esq sts ave blvd rd ph.d m.d b.a m.a d.c u.s u.k u.n ee uu a.m p.m "
    "b.c a.d c.e b.c.e hr hrs min km cm mm kg lb lbs oz mi sq ss dist pop gal max ed vid resp".split()
)
_STARTERS = frozenset(
    # English
    "The A An It Its In On At He She They His Her Their This That These Those There We You However Although After "
    "Before During When While As For From By With But And Or If Since Some Many Most Other One Two Three Several Both "
    "Each Because Though Until Under According Also Today Later Between Among Through Despite Unlike Like To Such "
    "Not Then Thus Therefore Her Our My What Who Where Why How No All Another Early Over Within Following "
    # French
    "Le La Les L Un Une Des Il Elle Ils Elles Ce Cet Cette Ces C Son Sa Ses Leur Leurs En Dans Au Aux Du De D Par Pour "
    "Après Avant Selon Sur Avec Depuis Pendant Lors Mais Et Si Sous Entre On Nous Plusieurs Cependant "
    # Spanish
    "El Los Las Una Unos Unas Su Sus Es Fue Se Por Para Con Desde Durante Aunque Tras Este Esta Estos Estas Ese Esa "
    "Al Del Sin Según Entre Cuando Como Hasta También Sobre Hay Son Pero Y Lo".split()
)


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """(start, end) character offsets of each sentence in order, stripped and not blank.

    Every character of `text` that is not white space is in exactly one span. Linear in the text's length.
    """
    spans: list[tuple[int, int]] = []
    start = 0
    for candidate in _CANDIDATE.finditer(text):
        if candidate["mark"] is None or _ends_sentence(text, start, candidate):
            _append_trimmed(spans, text, start, candidate.end())
            start = candidate.end()
    _append_trimmed(spans, text, start, len(text))
    return spans


def _append_trimmed(spans: list[tuple[int, int]], text: str, start: int, end: int) -> None:
    piece = text[start:end]
    stripped = piece.strip()
    if stripped:
        start += len(piece) - len(piece.lstrip())
        spans.append((start, start + len(stripped)))


def _ends_sentence(text: str, sentence_start: int, candidate: re.Match[str]) -> bool:
    space: str = candidate["space"]
    if "\n" in space:
        return True
    first = _FIRST_AFTER.match(text, candidate.end())
    if first is not None and first["first"] is not None and (first["first"].islower() or first["first"] in ",;:)]"):
        return False
    if candidate["mark"] != "." or candidate.end("mark") != candidate.start("space"):
        return True  # "!", "?", "…" and a stop inside quotation marks do not end abbreviations
    mark_start = candidate.start("mark")
    before = text[max(sentence_start, mark_start - _LOOK_BACK) : mark_start]
    if _LIST_NUMBER.search(before) and mark_start - sentence_start <= 4:
        return False
    token_match = _TOKEN_BEFORE.search(before)
    if token_match is None:
        return True
    token = token_match[0].removeprefix("l’").removeprefix("l'")
    lowered = token.lower()
    if lowered in _NEVER:
        return False
    following = text[candidate.end() : candidate.end() + 4]
    if lowered in _BEFORE_NUMBER and (following[:1].isdecimal() or following == "J.-C"):
        return False
    is_initial = len(token) == 1 and token.isalpha()
    if is_initial or lowered in _PERHAPS or _DOTTED.match(token):
        return _starter_follows(text, candidate.end())
    return True


def _starter_follows(text: str, position: int) -> bool:
    match = _WORD_AFTER.match(text, position)
    if match is None or match["word"] is None:
        return match is None or match["next"] is None  # before a number the abbreviation does not end the sentence
    return match["word"] in _STARTERS and match["next"] != "."
