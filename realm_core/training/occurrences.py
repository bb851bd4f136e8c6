"""Distant supervision, all of it: every place in the corpus where the answer of a question stands.

Answers are looked for as runs of wordpieces, punctuation and articles left out on both sides, from their rarest
wordpiece: the corpus is sorted once, and an answer then costs as much as its rarest wordpiece occurs. This is
`holds_answer` on wordpieces; what only equals after joining over punctuation ("U.S." and "US") is missed.
Regular expressions (CuratedTREC) need text: they are matched in the blocks that a retriever thinks best.

A question that names its article is answered by blocks of that article alone, and one that brings its context by blocks
within that context.

Legend: N blocks, T wordpieces of all bodies, C those that count (no punctuation, no articles), O occurrences.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from realm_core.activity import Activity
from realm_core.corpus.store import Snapshot
from realm_core.corpus.tokens import BlockTokens
from realm_core.evaluation.answers import answer_pattern, normalise_answer
from realm_core.text.wordpieces import Wordpieces
from realm_core.training.questions import Question

_MOST = 20_000  # occurrences kept of an answer that stands nearly everywhere
_SPREAD = 4  # a run may be this many times as long in the text as in the answer, punctuation and articles counted
_Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Occurrences:
    """Of one question, ordered by row. rows_O: blocks; first_O, last_O: wordpieces of the body, both included."""

    rows_O: _Array
    first_O: _Array
    last_O: _Array

    def blocks(self) -> _Array:
        """The different rows."""
        return np.unique(self.rows_O)

    def without(self, excluded_N: _Array) -> Occurrences:
        """Those in blocks that are not excluded."""
        kept_O = ~excluded_N[self.rows_O]
        return Occurrences(self.rows_O[kept_O], self.first_O[kept_O], self.last_O[kept_O])

    def of(self, row: int) -> tuple[_Array, _Array]:
        """(first, last) of the occurrences in one block."""
        low, high = np.searchsorted(self.rows_O, [row, row + 1])
        return self.first_O[low:high], self.last_O[low:high]


class OccurrenceFinder:
    """Looks answers up in one corpus."""

    def __init__(self, snapshot: Snapshot, tokens: BlockTokens) -> None:
        self._snapshot, self._tokens = snapshot, tokens
        self._wordpieces = Wordpieces.default()
        pieces = self._wordpieces.pieces(range(self._wordpieces.vocabulary_size))
        self._continues_V = np.array([piece.startswith("##") for piece in pieces])
        silent = [piece in ("a", "an", "the") or set(piece) <= set(string.punctuation) for piece in pieces]
        ids_T = np.asarray(tokens.bodies.values_T)
        counts_T = ~np.array(silent)[ids_T]
        # "a" that goes on ("a", "##bc") is no article.
        counts_T[:-1] |= self._continues_V[ids_T[1:]] & ~self._continues_V[ids_T[:-1]]
        self._silent_V = np.array(silent)
        self._place_C = np.flatnonzero(counts_T).astype(np.int32 if len(ids_T) < 2**31 else np.int64)
        self._ids_C = ids_T[self._place_C]
        self._order_C = np.argsort(self._ids_C, kind="stable").astype(self._place_C.dtype)
        self._starts_V1 = np.concatenate([[0], np.cumsum(np.bincount(self._ids_C, minlength=len(pieces)))])
        self._row_of_title: dict[str, list[int]] | None = None

    def find(self, question: Question, candidates: Callable[[], Sequence[int]]) -> Occurrences:
        """Where the question's answers stand. candidates(): rows in which regular expressions are looked for."""
        if question.answer_type == "regex":
            return self._matching(question.answers, candidates())
        found = [self._runs(ids) for ids in {tuple(ids) for ids in self._wordpieces.ids(list(question.answers))}]
        places = np.concatenate([first for first, _ in found]) if found else np.empty(0, np.int64)
        lasts = np.concatenate([last for _, last in found]) if found else np.empty(0, np.int64)
        if question.title is not None or question.context is not None:
            rows = self._rows_of(question)
        else:
            rows = None
        return self._occurrences(places, lasts, rows)

    def _runs(self, answer: Sequence[int]) -> tuple[_Array, _Array]:
        """(first, last) places in T of every run that reads the answer."""
        nothing = np.empty(0, np.int64), np.empty(0, np.int64)
        ids = self._counting(answer)
        if not len(ids):
            return nothing
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
        following = np.minimum(lasts + 1, len(values_T) - 1)
        whole = ~self._continues_V[values_T[following]] | (following == lasts)
        close = lasts - firsts < _SPREAD * len(ids)
        return firsts[whole & close], lasts[whole & close]

    def _counting(self, answer: Sequence[int]) -> _Array:
        ids = np.asarray(answer, np.int64)
        if not len(ids):
            return ids
        counts = ~self._silent_V[ids]
        counts[:-1] |= self._continues_V[ids[1:]] & ~self._continues_V[ids[:-1]]
        counting: _Array = ids[counts]
        return counting

    def _occurrences(self, firsts: _Array, lasts: _Array, rows: _Array | None) -> Occurrences:
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

    def _matching(self, expressions: Sequence[str], candidates: Sequence[int]) -> Occurrences:
        found: list[tuple[int, int, int]] = []
        rows = sorted(set(candidates))
        texts = [self._snapshot.block(row).text for row in rows]
        matches = [
            sorted({m.span() for one in expressions for m in answer_pattern(one).finditer(text) if m.end() > m.start()})
            for text in texts
        ]
        places = [[place for start, end in own for place in (start, end - 1)] for own in matches]
        hits = [number for number, own in enumerate(matches) if own]
        encoded = self._wordpieces.ids_and_places([texts[i] for i in hits], [places[i] for i in hits])
        for number, (ids, pieces) in zip(hits, encoded, strict=True):
            continues = [*self._continues_V[ids].tolist(), False]
            for first, last in zip(pieces[::2], pieces[1::2], strict=True):
                if first is None or last is None or continues[first]:
                    continue
                while continues[last + 1]:  # a match may end within a word; spans are of whole words
                    last += 1
                found.append((rows[number], first, last))
        table = np.array(sorted(set(found)), np.int64).reshape(-1, 3)
        return Occurrences(table[:, 0].astype(np.int32), table[:, 1].astype(np.int16), table[:, 2].astype(np.int16))

    def _rows_of(self, question: Question) -> _Array:
        """Blocks of the question's article; of them, those within its context if it has one."""
        if self._row_of_title is None:
            self._row_of_title = {}
            for start in range(0, len(self._snapshot), 10_000):
                for number, title in enumerate(self._snapshot.titles_texts(start, start + 10_000)[0]):
                    self._row_of_title.setdefault(normalise_answer(title), []).append(start + number)
        rows = self._row_of_title.get(normalise_answer(question.title or ""), [])
        if question.context is not None:
            context = " ".join(question.context.split())
            rows = [row for row in rows if " ".join(self._snapshot.block(row).text.split()) in context]
        return np.array(rows, np.int64)


def find_all(
    questions: Sequence[Question],
    snapshot: Snapshot,
    tokens: BlockTokens,
    candidates: Callable[[Sequence[str]], list[list[int]]],
    activity: Activity,
) -> list[Occurrences]:
    """Occurrences of every question. candidates(questions): rows that a retriever thinks best, for expressions."""
    activity.say("Looking the answers up in the corpus.")
    finder = OccurrenceFinder(snapshot, tokens)
    expressions = [number for number, question in enumerate(questions) if question.answer_type == "regex"]
    best = dict(zip(expressions, candidates([questions[i].question for i in expressions]), strict=True))
    found = []
    for number, question in enumerate(questions):
        if number % 100 == 0:
            activity.check()
            activity.progress(number, len(questions), "questions")
        found.append(finder.find(question, lambda number=number: best[number]))  # type: ignore[misc]
    activity.progress(len(questions), len(questions), "questions")
    return found
