"""Text that people type, and that they read."""

from __future__ import annotations

import unicodedata
from typing import Final

from django.conf.locale import LANG_INFO

# Characters that change the reading direction, and others without a shape of their own: with them, two questions that
# look the same would differ.
_INVISIBLE = frozenset(
    "\u00ad\u034f\u061c\u180e\u200b\u200e\u200f\u202a\u202b\u202c\u202d\u202e"
    "\u2060\u2061\u2062\u2063\u2064\u2066\u2067\u2068\u2069\ufeff"
)
_JOINER = "\u200d"
_LONGEST_CLUSTER = 32  # code points that may become one character
_LANGUAGES: Final = {"la": "Latin", "tl": "Tagalog", "zh": "Chinese"}  # which Django does not know
_BEFORE_JOINERS = {"Mc", "Mn", "So", "Sk"}  # marks of some scripts, and emoji; behind anything else it has no effect


def one_line(text: str) -> str:
    """One line of text: NFC, white space folded, without control characters and lone surrogates."""
    kept: list[str] = []
    for c in text:
        if c == _JOINER and not _takes_joiner(kept):
            continue
        if c.isspace() or _is_text(c):
            kept.append(" " if c.isspace() else c)
    return unicodedata.normalize("NFC", " ".join("".join(kept).split()))


def counted(number: int, noun: str) -> str:
    """A number of things: “1 block”, “2,000 blocks”, “8 addresses”."""
    ending = "" if number == 1 else "es" if noun.endswith("ss") else "s"
    return f"{number:,} {noun}{ending}"


def language_name(code: str) -> str:
    """The name of a language; its code if that is not known."""
    known = LANG_INFO.get(code, {})
    return str(known.get("name") or _LANGUAGES.get(code, code))


def _takes_joiner(before: list[str]) -> bool:
    last = unicodedata.normalize("NFC", "".join(before[-_LONGEST_CLUSTER:]))[-1:]
    return bool(last) and unicodedata.category(last) in _BEFORE_JOINERS


def _is_text(character: str) -> bool:
    return unicodedata.category(character) not in {"Cc", "Cs"} and character not in _INVISIBLE
