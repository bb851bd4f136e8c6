"""Distant supervision: finds every occurrence of a question's answer in the corpus.

Answers are searched for as sequences of wordpieces, without punctuation and articles on both sides, starting from their
rarest wordpiece: the corpus is sorted once, and the cost of an answer is the number of occurrences of its rarest
wordpiece. This is `holds_answer` on wordpieces, which drop accents and spaces: "Dvorak" is found as "Dvořák",
"Spider-Man" as "Spider Man". Not found are answers that are equal only after joining over punctuation ("U.S." and "US")
and those with characters outside the vocabulary. Regular expressions (CuratedTREC) need text: they are matched in the
blocks that a retriever ranks highest, and later in each block that training reads. Other blocks are of unknown label.

A question that names its article is answered only by blocks of that article, and one that brings its context only by
blocks within that context.

Legend: N blocks, T wordpieces of all bodies, C those that count (no punctuation, no articles), O occurrences.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from realm_core.arrays import Array
from realm_core.corpus.store import Snapshot
from realm_core.corpus.tokens import BlockTokens
from realm_core.questions.answers import answer_pattern, normalise_answer
from realm_core.questions.question_file import Question
from realm_core.runs.activity import Activity
from realm_core.text.wordpieces import Wordpieces

_MOST = 20_000  # most occurrences kept of one answer
_ARTICLE = re.compile(r"\b(a|an|the)\b", re.IGNORECASE)
_SPREAD = 4  # longest match in the text, relative to the answer, including punctuation and articles


@dataclass(frozen=True)
class Occurrences:
    """The occurrences for one question, by row. rows_O: blocks; first_O, last_O: wordpieces of the body, inclusive."""

    rows_O: Array
    first_O: Array
    last_O: Array

    def blocks(self) -> Array:
        return np.unique(self.rows_O)

    def chosen(self, chosen_O: Array) -> Occurrences:
        return Occurrences(self.rows_O[chosen_O], self.first_O[chosen_O], self.last_O[chosen_O])

    def without(self, excluded_N: Array) -> Occurrences:
        return self.chosen(~excluded_N[self.rows_O])

    def of(self, row: int) -> tuple[Array, Array]:
        """(first, last) of the occurrences in one block."""
        low, high = np.searchsorted(self.rows_O, [row, row + 1])
        return self.first_O[low:high], self.last_O[low:high]


_NONE = Occurrences(np.empty(0, np.int32), np.empty(0, np.int16), np.empty(0, np.int16))


class ExpressionSearch:
    """Matches regular expressions in the text of given blocks; the wordpieces cannot be searched for them."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot, self._wordpieces = snapshot, Wordpieces.default()
        self._continues_V = continues(self._wordpieces)

    def find(self, question: Question, blocks: Iterable[int]) -> Occurrences:
        """Matches in these blocks; with a context, only in blocks that are part of it."""
        found: list[tuple[int, int, int]] = []
        rows = sorted(set(blocks))
        texts = [self._snapshot.block(row).text for row in rows]
        matches = [
            sorted({span for one in question.answers for span in answer_pattern(one).spans(text)}) for text in texts
        ]
        places = [[place for start, end in spans for place in (max(start - 1, 0), start, end - 1)] for spans in matches]
        hits = [number for number, spans in enumerate(matches) if spans]
        encoded = self._wordpieces.ids_and_places([texts[i] for i in hits], [places[i] for i in hits])
        for number, (ids, pieces) in zip(hits, encoded, strict=True):
            continues = [*self._continues_V[ids].tolist(), False]
            for (start, _), before, first, last in zip(
                matches[number], pieces[::3], pieces[1::3], pieces[2::3], strict=True
            ):
                if first is None or last is None or continues[first] or (start > 0 and before == first):
                    continue  # it starts between two words, or within one
                while continues[last + 1]:  # a match may end within a word; spans are whole words
                    last += 1
                found.append((rows[number], first, last))
        table = np.array(sorted(set(found)), np.int64).reshape(-1, 3)
        matched = Occurrences(table[:, 0].astype(np.int32), table[:, 1].astype(np.int16), table[:, 2].astype(np.int16))
        return matched if question.context is None else _within(self._snapshot, matched, question.context)


class Expressions:
    """The expressions of one question, matched in each block on first use, and cached."""

    def __init__(self, question: Question, search: ExpressionSearch) -> None:
        self._question, self._search = question, search
        self._known: dict[int, Occurrences] = {}

    def within(self, blocks: Iterable[int]) -> Occurrences:
        rows = sorted(set(blocks))
        new = [row for row in rows if row not in self._known]
        if new:
            found = self._search.find(self._question, new)
            self._known |= dict.fromkeys(new, _NONE)
            self._known |= {row: found.chosen(found.rows_O == row) for row in found.blocks().tolist()}
        known = [self._known[row] for row in rows]
        return Occurrences(
            np.concatenate([_NONE.rows_O, *(one.rows_O for one in known)]),
            np.concatenate([_NONE.first_O, *(one.first_O for one in known)]),
            np.concatenate([_NONE.last_O, *(one.last_O for one in known)]),
        )


class OccurrenceFinder:
    """Searches one corpus for answers."""

    def __init__(self, snapshot: Snapshot, tokens: BlockTokens) -> None:
        self._snapshot, self._tokens = snapshot, tokens
        self.expressions = ExpressionSearch(snapshot)
        self._wordpieces = Wordpieces.default()
        self._continues_V = continues(self._wordpieces)
        self._silent_V = _silent(self._wordpieces)
        ids_T = np.asarray(tokens.bodies.values_T)
        self._place_C = np.flatnonzero(self._counts(ids_T)).astype(np.int32 if len(ids_T) < 2**31 else np.int64)
        self._ids_C = ids_T[self._place_C]
        self._order_C = np.argsort(self._ids_C, kind="stable").astype(self._place_C.dtype)
        counts_V = np.bincount(self._ids_C, minlength=self._wordpieces.vocabulary_size)
        self._starts_V1 = np.concatenate([[0], np.cumsum(counts_V)])
        self._row_of_title: dict[str, list[int]] | None = None

    def find(self, question: Question, candidates: Callable[[], Sequence[int]]) -> Occurrences:
        """The occurrences of the question's answers.

        candidates(): rows to match regular expressions in, unless the question names its article.
        """
        rows = None if question.title is None else self._rows_of(question.title)
        if question.answer_type == "regex":
            return self.expressions.find(question, candidates() if rows is None else rows.tolist())
        runs = [self._runs(answer) for answer in question.answers]
        firsts, lasts = (np.concatenate(ends) for ends in zip(*runs, strict=True))
        found = self._occurrences(firsts, lasts, rows)
        return found if question.context is None else _within(self._snapshot, found, question.context)

    def _runs(self, answer: str) -> tuple[Array, Array]:
        """(first, last) positions in T of every sequence that reads the answer."""
        all_ids = np.asarray(self._wordpieces.ids([answer])[0], np.int64)
        counts = self._counts(all_ids)
        ids = all_ids[counts]
        if not len(ids) or self._wordpieces.unknown_id in ids:  # everything outside the vocabulary has this id
            return np.empty(0, np.int64), np.empty(0, np.int64)
        occurring = self._starts_V1[ids + 1] - self._starts_V1[ids]
        rarest = int(occurring.argmin())
        start, stop = self._starts_V1[ids[rarest]], self._starts_V1[ids[rarest] + 1]
        first_R = self._order_C[start:stop].astype(np.int64) - rarest
        first_R = first_R[(first_R >= 0) & (first_R + len(ids) <= len(self._ids_C))]
        for position in np.argsort(occurring, kind="stable")[1:]:
            first_R = first_R[self._ids_C[first_R + position] == ids[position]]
        first_R = np.sort(first_R)
        if len(first_R) > _MOST:
            first_R = first_R[:: -(-len(first_R) // _MOST)]
        firsts, lasts = self._place_C[first_R].astype(np.int64), self._place_C[first_R + len(ids) - 1].astype(np.int64)
        values_T = self._tokens.bodies.values_T
        if _has_article_in_a_word(answer):
            firsts -= int(counts.argmax())
            lasts = firsts + len(all_ids) - 1
            inside = (firsts >= 0) & (lasts < len(values_T))
            firsts, lasts = firsts[inside], lasts[inside]
            exact = (values_T[firsts[:, None] + np.arange(len(all_ids))] == all_ids).all(1)
            firsts, lasts = firsts[exact], lasts[exact]
        following = np.minimum(lasts + 1, len(values_T) - 1)
        whole = ~self._continues_V[values_T[following]] | (following == lasts)
        close = lasts - firsts < _SPREAD * len(all_ids)
        return firsts[whole & close], lasts[whole & close]

    def _counts(self, ids_T: Array) -> Array:
        """bool [T]: neither punctuation nor an article; "a" that continues ("a", "##bc") is no article."""
        counts_T: Array = ~self._silent_V[ids_T]
        counts_T[:-1] |= self._continues_V[ids_T[1:]] & ~self._continues_V[ids_T[:-1]]
        return counts_T

    def _occurrences(self, firsts: Array, lasts: Array, rows: Array | None) -> Occurrences:
        starts_N1 = self._tokens.bodies.starts_N1
        owner = np.searchsorted(starts_N1, firsts, side="right") - 1
        inside = lasts < starts_N1[owner + 1]
        if rows is not None:
            inside &= np.isin(owner, rows)
        owner, firsts, lasts = owner[inside], firsts[inside], lasts[inside]
        order = np.lexsort((lasts, firsts, owner))
        owner, firsts, lasts = owner[order], firsts[order], lasts[order]
        return Occurrences(
            owner.astype(np.int32),
            (firsts - starts_N1[owner]).astype(np.int16),
            (lasts - starts_N1[owner]).astype(np.int16),
        )

    def _rows_of(self, title: str) -> Array:
        if self._row_of_title is None:
            self._row_of_title = {}
            for start in range(0, len(self._snapshot), 10_000):
                for number, stored_title in enumerate(self._snapshot.titles_texts(start, start + 10_000)[0]):
                    self._row_of_title.setdefault(normalise_answer(stored_title), []).append(start + number)
        return np.array(self._row_of_title.get(normalise_answer(title), []), np.int64)


def _within(snapshot: Snapshot, found: Occurrences, context: str) -> Occurrences:
    """Occurrences in blocks whose text is part of the context."""
    context = " ".join(context.split())
    blocks = found.blocks()
    inside = [" ".join(snapshot.block(row).text.split()) in context for row in blocks.tolist()]
    return found.chosen(np.isin(found.rows_O, blocks[np.array(inside, np.bool_)]))


@cache
def continues(wordpieces: Wordpieces) -> Array:
    """bool [V]: wordpieces that continue a word."""
    return np.array([piece.startswith("##") for piece in wordpieces.vocabulary])


@cache
def _silent(wordpieces: Wordpieces) -> Array:
    """bool [V]: articles and punctuation."""
    marks = set(string.punctuation)
    return np.array([piece in ("a", "an", "the") or set(piece) <= marks for piece in wordpieces.vocabulary])


def _has_article_in_a_word(answer: str) -> bool:
    """Whether the answer has a word with a part that looks like an article ("a.m.", "Jack-in-the-box")."""
    return any(normalise_answer(word) and _ARTICLE.search(word) for word in answer.split())


def find_all(
    questions: Sequence[Question],
    snapshot: Snapshot,
    tokens: BlockTokens,
    candidates: Callable[[Sequence[str]], list[list[int]]],
    activity: Activity,
) -> list[tuple[Occurrences, Expressions | None]]:
    """Occurrences of every question; questions with expressions get a way to match them in further blocks.

    candidates(questions): rows that a retriever ranks highest, in which expressions are matched at once.
    """
    activity.say("Searching the corpus for the answers.")
    finder = OccurrenceFinder(snapshot, tokens)
    partly = [i for i, question in enumerate(questions) if question.answer_type == "regex" and question.title is None]
    best = dict(zip(partly, candidates([questions[i].question for i in partly]), strict=True))
    found: list[tuple[Occurrences, Expressions | None]] = []
    for number, question in enumerate(questions):
        if number % 100 == 0:
            activity.check()
            activity.progress(number, len(questions), "questions")
        if number in best:
            expressions = Expressions(question, finder.expressions)
            found.append((expressions.within(best[number]), expressions))
        else:
            found.append((finder.find(question, list), None))
    activity.progress(len(questions), len(questions), "questions")
    return found
