"""Which blocks of a corpus hold an answer: compiled code selects articles, then their blocks are examined.

The criterion is `holds_answer`. First Arrow searches the articles for a regular expression (RE2) that matches wherever
the criterion could hold: 400 MB of text in a second or less. An expression of CuratedTREC is searched for itself if RE2
reads it with the same meaning; otherwise every block is examined, which takes a hundred times as long.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import groupby

from realm_core.corpus.records import Block
from realm_core.corpus.store import Snapshot
from realm_core.living.view import CorpusView
from realm_core.questions.answers import holds_answer, normalise_answer

# What `normalise_answer` removes, in RE2's notation.
_PUNCTUATION = r"[[:punct:]]*"
_ARTICLES = ("an", "a", "the")
_BETWEEN = r"[^\pL\pN]"
_NOWHERE = r"[^\x00-\x{10FFFF}]"
_SHORT = 4  # characters
# Flags, special groups, and escapes that RE2 treats as ASCII only or does not know change an expression's meaning.
_SAME_IN_RE2 = re.compile(r"""(?:(?![*+?]\+)(?:[^\\(\[{^$]|\((?!\?)|\\[.()'"/-]))*""")


def in_corpus(snapshot: Snapshot | CorpusView, answers: Sequence[str], answer_type: str = "string") -> bool:
    """Whether any block holds an answer."""
    return next(blocks_holding(snapshot, answers, answer_type), None) is not None


def blocks_holding(
    snapshot: Snapshot | CorpusView, answers: Sequence[str], answer_type: str = "string"
) -> Iterator[Block]:
    """The blocks that hold one of the answers, by row. RealmError as `answer_pattern`."""
    pattern = _expressions(answers) if answer_type == "regex" else _strings(answers)
    for article in range(snapshot.articles) if pattern is None else snapshot.articles_matching(pattern):
        for block in snapshot.blocks_of_article(article):
            if holds_answer(block.text, answers, answer_type):
                yield block


def _strings(answers: Sequence[str]) -> str | None:
    """RE2 for texts that may hold one of the answers; None if no expression excludes any text."""
    normals = list(dict.fromkeys(normal for answer in answers if (normal := normalise_answer(answer))))
    # A text with the longer answer also holds the shorter one that is part of it.
    shortest = [one for one in normals if not any(o != one and f" {o} " in f" {one} " for o in normals)]
    patterns = [_pattern(normal) for normal in shortest]
    return ("|".join(patterns) or _NOWHERE) if all(patterns) else None


def _pattern(normal: str) -> str:
    """RE2 for the longest part of a normalised answer that is spelt the same in every text; "" if there is none.

    Letters with accents are not: they are encoded as one character or as two.
    """
    joined = unicodedata.normalize("NFC", normal)
    alike = groupby(joined, key=lambda one: unicodedata.normalize("NFD", one) == one and not unicodedata.combining(one))
    longest = max(("".join(own) for same, own in alike if same), key=len, default="")
    # Between words there is at least one character that is neither letter nor digit, and perhaps articles.
    pattern = rf"(?:{_BETWEEN}|{'|'.join(map(_word, _ARTICLES))})+".join(_word(word) for word in longest.split())
    if longest != joined:
        return pattern
    # Searching for word boundaries takes longer than for most words, and for the shortest words it excludes few
    # articles. An article may touch a mark that is no ASCII punctuation, but no letter.
    before = f"(?:^|{_BETWEEN})" if longest[0].isalnum() and len(longest) < _SHORT else ""
    after = f"(?:{_BETWEEN}|$)" if longest[-1].isalnum() else ""
    return before + pattern + after


def _word(word: str) -> str:
    return _PUNCTUATION.join(re.escape(character) for character in word)


def _expressions(expressions: Sequence[str]) -> str | None:
    """RE2 for texts that one of the expressions may match; None if RE2 would read one with another meaning."""
    if not all(_SAME_IN_RE2.fullmatch(re.sub(r"\\[sd]", "x", one)) for one in expressions):
        return None
    # RE2's \s and \d are ASCII only.
    wider = [one.replace(r"\s", r"(?:\s|[^\x00-\x7F])").replace(r"\d", r"\pN") for one in expressions]
    return "|".join(f"(?:{one})" for one in wider)
