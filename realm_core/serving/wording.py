"""The part of a block's text that is displayed for the reader's span."""

from __future__ import annotations

import re

_ARTICLE = re.compile(r"(?:a(?! cappella\b| priori\b| posteriori\b| la\b)|an|the)\s+(?=\S)")
_ARTICLE_LETTERS = ("a", "t")
_ABBREVIATION = re.compile(r"\b(?:(?:[A-Z]\.)+[A-Z]|Jr|Sr|Inc|Ltd|Co)$")
_WORD = re.compile(r"\w")
_PAIRS = (('"', '"'), ("“", "”"), ("«", "»"), ("(", ")"), ("[", "]"))
_MARK = re.compile(r"[\"“”«»()\[\]]")


def displayed(text: str, start: int, end: int) -> tuple[int, int]:
    """The span text[start:end] without a leading article in lower case, and with no mark whose partner is missing.

    The partner is taken in if it is next to the span ('Mel" Blanc' becomes '"Mel" Blanc'); otherwise a mark at the
    span's edge is left out. An abbreviation keeps its full stop ("Washington, D.C."), and "The Hague" its article.
    """
    # Called for each span of a reading, nearly all of which need no change: the cheap checks come first.
    if text[start : start + 1] in _ARTICLE_LETTERS and (article := _ARTICLE.match(text, start, end)):
        start += article.end() - article.start()
    for opening, closing in _PAIRS if _MARK.search(text, start, end) else ():
        lacking = _lacking(text[start:end], opening, closing)
        if "opening" in lacking and text[start - 1 : start] == opening:
            start -= 1
        elif "closing" in lacking and text[end : end + 1] == closing:
            end += 1
        elif "opening" in lacking and text[end - 1] == closing and _WORD.search(text, start, end):
            end -= 1
        elif "closing" in lacking and text[start] == opening and _WORD.search(text, start, end):
            start += 1
    if text[end : end + 1] == "." and _ABBREVIATION.search(text[start:end]):
        end += 1
    inner = text[start:end]
    stripped = inner.strip()
    if not stripped or len(stripped) == len(inner):
        return start, end
    return start + len(inner) - len(inner.lstrip()), end - len(inner) + len(inner.rstrip())


def _lacking(span: str, opening: str, closing: str) -> set[str]:
    """The mark of a pair that the span lacks; for two equal marks it cannot be known which."""
    if opening == closing:
        return {"opening", "closing"} if span.count(opening) % 2 else set()
    difference = span.count(opening) - span.count(closing)
    return {"closing"} if difference > 0 else {"opening"} if difference < 0 else set()
