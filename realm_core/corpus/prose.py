"""Clean text that can be packed, shown and quoted.

Control characters, zero-width marks, soft hyphens and lone surrogates are removed, every kind of space becomes one
plain space, every line break "\\n". Visible characters stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable

MAX_TITLE_CHARACTERS = 512  # MediaWiki's own limit is 255 bytes; what is longer is no title

Replacement = str | Callable[[re.Match[str]], str]  # a string stands for itself: it names no groups
Substitutions = tuple[tuple[re.Pattern[str], Replacement], ...]  # applied one after the other

# Each begins with a character or a set of them, which a search finds faster than alternatives.
_LINE_BREAK = re.compile(r"[\r\x0b\x0c\x85\u2028\u2029](?:(?<=\r)\n)?")
_INVISIBLE = re.compile(
    r"[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u00ad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064"
    r"\u2066-\u2069\ufeff\ufff9-\ufffb]"
)
_SURROGATES = re.compile(r"[\ud800-\udfff]")
_UNUSUAL_SPACE = re.compile(r"[\t\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]")
TIDYING: Substitutions = (
    (_LINE_BREAK, "\n"),
    (_INVISIBLE, ""),
    (_SURROGATES, "\ufffd"),
    (_UNUSUAL_SPACE, " "),
    (re.compile("  +"), " "),
    (re.compile(" \n"), "\n"),
    (re.compile("\n[ \n]+"), "\n"),
)


def without_surrogates(text: str) -> str:
    """Lone surrogates, which JSON can smuggle in and UTF-8 cannot hold, replaced."""
    return _SURROGATES.sub("\ufffd", text)


def edited(text: str, rules: Substitutions) -> str:
    """The text with every rule's matches replaced."""
    for pattern, replacement in rules:
        text = pattern.sub(replacement, text)
    return text


def tidy(text: str) -> str:
    """Prose with plain spaces and single line breaks, and no space at either end."""
    return edited(text, TIDYING).strip()


_MARK_AT_END = re.compile(r"[.!?:;…。！？][\"'”’»)\]]*$")


def sentence(text: str) -> str:
    """The text with a full stop at its end unless it ends with a mark of its own; "" for blank text."""
    text = text.strip()
    return text if not text or _MARK_AT_END.search(text) else f"{text}."


# Where a template, a formula or a pronunciation was removed from a sentence: "( ; born 1815)",
# "the numbat ; Thylacinidae", "2,000 years ago,. The". French writes a space before ; : ! ? on purpose.
_GAP_AFTER_OPENING = re.compile(r"\([\s,;:]+(?=[^\s,;:])")
_GAP_BEFORE_CLOSING = re.compile(r"(?<=[^\s,;:])[\s,;:]+\)")
_EMPTY_PARENTHESES = re.compile(r"[ \xa0]*\([\s,;:]*\)")
_STRAY_SPACE = re.compile(r"[ \xa0]+(?=[,;.](?:\s|$))")
_STRAY_SPACE_FRENCH = re.compile(r"[ \xa0]+(?=[,.](?:\s|$))")
_DOUBLED_MARKS = re.compile(r",(?=[,;.](?:\s|$))")


def gap_closing(language: str) -> Substitutions:
    """Substitutions that repair the punctuation where parts of sentences were removed."""
    return (
        (_EMPTY_PARENTHESES, ""),
        (_GAP_AFTER_OPENING, "("),
        (_GAP_BEFORE_CLOSING, ")"),
        (_EMPTY_PARENTHESES, ""),
        (_STRAY_SPACE_FRENCH if language == "fr" else _STRAY_SPACE, ""),
        (_DOUBLED_MARKS, ""),
    )


def close_gaps(text: str, language: str) -> str:
    """The text with its punctuation repaired by `gap_closing`."""
    return edited(text, gap_closing(language))


def tidy_line(text: str, limit: int = MAX_TITLE_CHARACTERS) -> str:
    """A title or heading: one line, at most `limit` characters."""
    line = tidy(text).replace("\n", " ")
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"
