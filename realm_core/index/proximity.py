"""Questions of rank: scores for blocks that have their words near each other and state their rank.

Both are parts of the prior. Term proximity:

    c(x, z) = Σ over pairs (v, w) that z has near each other of r(v, w)  /  max(12, Σ over all pairs of the question)

A vector has the subject of a block, and BM25 its words. Neither tells a block that says "the second-largest city in
Sindh" from one of a city that is the second-largest elsewhere and lies in Sindh. Pairs of a question's words
that occur within a window of a document, in any order, are the unordered windows of the sequential dependence model
(Metzler and Croft, 2005). Here a pair is two of the question's words, apart from those that only ask or link, with at
most one such word between them; it counts if they are less than `_WINDOW` words apart in the block's title or text,
and r is the smaller idf of the two, as in `lexical.py`. c is from 0 to 1, and the single pair of a short question,
which says little, has less than that: three pairs of usual words add up to 12. Questions without a superlative have
no pairs: there the right block came first more often, but no more answers were right (docs/experiments.md).

c depends on the question and the block alone, as all of the lexical part does. It needs the block's text, so the
blocks that are best without it are read; how many suffice, so that the k best are found exactly, is known from its
bound (`best_with_proximity`).

d(x, z) scores the rank that the block states (`STANDING`): the question's superlative with its noun has the question's
rank, the same among fewer ("the largest lake in Africa" for one in the world), or another. So a block of another rank
takes no place among the k blocks from one that answers. Nouns must be the question's: "the largest ferry port" says
nothing of the largest port.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from realm_core.corpus.records import Block
from realm_core.index.rarity import rarity_of
from realm_core.text.folding import folded
from realm_core.text.superlatives import SAME, AskedRank, Standing, ranked_in

PROXIMITY_WEIGHT: Final = 2.0  # μ; docs/experiments.md, “Ranks”
STANDING: Final = {Standing.SAME: 1.5, Standing.NARROWER: -1.5, Standing.OTHER: -2.0, Standing.UNSAID: 0.0}  # d
_MOST: Final = PROXIMITY_WEIGHT + STANDING[Standing.SAME]
READ_FIRST: Final = 50  # blocks that are read at first; more if the bound demands it
_WINDOW: Final = 8  # words
_APART: Final = 2  # places among the question's words
_LEAST_TOTAL: Final = 12.0  # of the pairs' rarity
_WORD: Final = re.compile(r"[^\W_]+")
_ASKING: Final = frozenset(
    "a an the of in on at to for by from with and or as is are was were be been being do does did has have had what "
    "which who whom whose when where why how many much that this these those it its his her their there s me tell name "
    "called".split()
)


@dataclass(frozen=True)
class Proximity:
    """The pairs of a question's words. weights: of each pair, at most 1 together. asked: the rank it asks for."""

    weights: dict[tuple[str, str], float]
    asked: AskedRank | None = None

    @classmethod
    def of(cls, question: str) -> Proximity:
        """None without an English superlative."""
        if not ranked_in(question):
            return cls({})
        words = [word for word in _words(question) if word not in _ASKING]
        pairs = {
            (first, second): 0.0
            for distance in range(1, _APART + 1)
            for first, second in zip(words, words[distance:], strict=False)
            if first != second
        }
        if not pairs:
            return cls({})
        rarity = dict(zip(words, rarity_of(words), strict=True))
        smaller = {pair: min(rarity[word] for word in pair) for pair in pairs}
        total = max(_LEAST_TOTAL, math.fsum(smaller.values()))
        return cls({pair: own / total for pair, own in smaller.items()}, AskedRank.of(question))

    def near(self, block: Block) -> float:
        """μ · c(x, z)."""
        places: dict[str, list[int]] = {word: [] for pair in self.weights for word in pair}
        start = 0
        for text in (block.title, block.text) if self.weights else ():
            words = _words(text)
            for place, word in enumerate(words, start):
                if word in places:
                    places[word].append(place)
            start += len(words) + _WINDOW  # no pair is of title and text
        return PROXIMITY_WEIGHT * math.fsum(
            own for pair, own in self.weights.items() if _near(*(places[word] for word in pair))
        )

    def score(self, block: Block) -> float:
        """μ · c(x, z) + d(x, z)."""
        return self.near(block) + (0.0 if self.asked is None else STANDING[self.asked.standing_in(block.text)])


def _words(text: str) -> list[str]:
    """In lower case and without accents; "biggest" is "largest"."""
    return [SAME.get(word, word) for word in _WORD.findall(folded(text))]


def _near(first: Sequence[int], second: Sequence[int]) -> bool:
    return any(abs(one - other) < _WINDOW for one in first for other in second)


Found = TypeVar("Found")  # a block, or its row


def best_with_proximity(
    questions: Sequence[str],
    ks: Sequence[int],
    best: Callable[[list[int], list[int]], list[tuple[list[Found], list[float]]]],
    block_of: Callable[[Found], Block],
) -> list[tuple[list[Found], list[float]]]:
    """The k best blocks of each question by score + μ · c + d, exactly, with these sums, highest first.

    best: given places of questions and how many blocks of each, the best ones by the score alone, highest first.
    """
    proximities = [Proximity.of(question) for question in questions]
    counts = [max(k, READ_FIRST) if own.weights else k for k, own in zip(ks, proximities, strict=True)]
    found: dict[int, tuple[list[Found], list[float]]] = {}
    while places := [place for place in range(len(questions)) if place not in found]:
        for place, (own, scores) in zip(places, best(places, [counts[place] for place in places]), strict=True):
            sums = [score + proximities[place].score(block_of(one)) for one, score in zip(own, scores, strict=True)]
            k, proximity = ks[place], proximities[place]
            if proximity.weights and len(own) == counts[place] and not _settled(scores, sums, k):
                counts[place] *= 4
                continue
            order = sorted(range(len(sums)), key=lambda at: -sums[at])[:k]  # stable
            found[place] = [own[at] for at in order], [sums[at] for at in order]
    return [found[place] for place in range(len(questions))]


def _settled(scores: Sequence[float], sums: Sequence[float], k: int) -> bool:
    """Whether no unread block can be among the k best, whatever its proximity and rank."""
    return len(sums) >= k and scores[-1] + _MOST <= sorted(sums, reverse=True)[k - 1]
