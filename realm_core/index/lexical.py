"""The lexical part of the prior: how many rare words of a question a block has, added to f(x, z).

    s(x, z) = f(x, z) + λ · b(x, z) + ν · n(x, z) + μ · c(x, z) + d(x, z) + o(z)
    b(x, z) = Σ over the question's wordpieces w of  idf(w) · tf(w) · (k₁ + 1) / (tf(w) + k₁ · (1 − β + β · |z| / L))

b is BM25 (Robertson and Zaragoza, 2009) with k₁ = 1.5 and β = 0.75 over the wordpieces of title and body. The sum is
the prior's logit, so p(z|x) stays one softmax. The rarity of wordpieces was counted once, in the default corpus, and L
is a constant: b depends on the question and the block alone, so a document that comes or goes changes no other
block's. n is the number of the question's names and codes that the block has: words that are not English, all of whose
wordpieces are among the block's. b of such a word counts its pieces, which need not be rare ("my ##tton"). c is for
words of the question that are near each other in the block, and d for the rank that the block states, if the question
asks for one (`proximity.py`). n, c and d are left out where λ is 0. o depends on the source of the block's article, and
is 0 but for a dictionary's entries.

The best blocks by s are found exactly where all blocks are scored (`postings.py`). In a larger corpus, and in
approximate search, b, n and c are added for the 20 nearest blocks, which are ranked again.

Legend: V wordpieces of the vocabulary, W different ones of the question (or of a name in it), T wordpieces of a block.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import torch

from realm_core.corpus.records import Block
from realm_core.corpus.store import Snapshot
from realm_core.corpus.wordnet import ADDRESS, SCORE_OFFSET
from realm_core.files import refuse_existing
from realm_core.index.proximity import Proximity
from realm_core.index.rarity import Numbers, idf
from realm_core.index.tasks import CountWordpieces
from realm_core.runs.activity import Activity
from realm_core.tensors import save_tensors
from realm_core.text.folding import folded
from realm_core.text.joins import TITLE_WORDPIECES
from realm_core.text.language import foreign_language
from realm_core.text.spelling import english
from realm_core.text.wordpieces import Wordpieces

RANKED_AGAIN = 20  # nearest blocks; with 100, recall of the best five was no higher
NAME_WEIGHT: Final = 4.0  # ν; docs/experiments.md, “Names that a block only mentions”
_SHORTEST_NAME: Final = 4  # characters; shorter ones are abbreviations, whose pieces are in too many blocks
_WORD = re.compile(r"[a-z0-9]+(?:[-./][a-z0-9]+)*")
_NUMBER = re.compile(r"\d+[a-z]*")  # also an ordinal, a decade, or a number with its unit
_COMPARED_OFFSET = -1.0  # with −1.5 the misspelt “ceasar”, which only dictionary entries are near to, is not corrected
_K1, _BETA = 1.5, 0.75
_LENGTH = 220.0  # L, in wordpieces
_AT_ONCE = 4096


@dataclass(frozen=True)
class WantedWords:
    """The wordpieces of a question. ids_W: different ones, ascending; names: those of each of its names."""

    ids_W: Numbers
    names: tuple[Numbers, ...]

    @classmethod
    def of(cls, question: str) -> WantedWords:
        wordpieces = Wordpieces.default()
        ids, *names = wordpieces.ids([question, *_names(question)])
        return cls(np.unique(np.array(ids, np.uint16)), tuple(np.unique(np.array(name, np.uint16)) for name in names))


def _names(question: str) -> list[str]:
    """A question's words that are not English ("Mytton", "KX-4021"); none if it is in another language."""
    found: dict[str, None] = {}
    for word in _WORD.findall(folded(question)):
        parts = re.split(r"[-./]", word)
        code = len(parts) > 1 and re.search(r"\d", word) and not any(map(_is_known, parts))
        found |= dict.fromkeys([word] if code else [part for part in parts if not _is_known(part)])
    names = [word for word in found if len(word) >= _SHORTEST_NAME and not _is_number(word)]
    return [] if names and foreign_language(question) else names


def _is_known(word: str) -> bool:
    """Whether English has the word; nearly all of two letters count, in codes, too."""
    return len(word) > 2 and english().count(word) > 0


def _is_number(word: str) -> bool:
    return all(_NUMBER.fullmatch(part) for part in re.split(r"[-./]", word))


def lexical_scores(question: str, blocks: Sequence[Block], weight: float) -> list[float]:
    """λ · b(x, z) + ν · n(x, z) of each block. weight: λ."""
    wanted = WantedWords.of(question)
    scores = []
    for block in blocks:
        ids_T = _wordpieces(block.title, block.text)
        tf_W = np.count_nonzero(ids_T[:, None] == wanted.ids_W, axis=0)
        b = float((most_added(wanted.ids_W) * shares(tf_W, len(ids_T))).sum())
        n = sum(bool(np.isin(name_W, ids_T).all()) for name_W in wanted.names)
        scores.append(weight * b + NAME_WEIGHT * n)
    return scores


def offset(block: Block) -> float:
    """o(z)."""
    return SCORE_OFFSET if block.url.startswith(ADDRESS) else 0.0


def compared(blocks: Sequence[Block], scores: Sequence[float]) -> tuple[list[Block], list[float]]:
    """The blocks nearest to one reading of a question, best first, with scores to compare with other readings'.

    scores: f(x, z). That of a dictionary's entry is less by 1: “morroco” is not near to “Morrow: the next day”.
    """
    sums = [score + max(offset(block), _COMPARED_OFFSET) for score, block in zip(scores, blocks, strict=True)]
    order = sorted(range(len(sums)), key=lambda place: -sums[place])
    return [blocks[place] for place in order], [sums[place] for place in order]


def offsets(snapshot: Snapshot) -> Numbers:
    """o(z) of all blocks, float32 [V]."""
    return np.where(snapshot.rows_from(ADDRESS), np.float32(SCORE_OFFSET), np.float32(0))


def most_added(wordpieces: Numbers) -> Numbers:
    """The most that a wordpiece adds to b of a block."""
    most: Numbers = idf()[wordpieces.astype(np.int64)] * (_K1 + 1)
    return most


def shares(tf: Numbers, lengths: Numbers | int) -> Numbers:
    """The share of `most_added` for a count in a block, from 0 to 1. lengths: of blocks, in wordpieces."""
    found: Numbers = tf / (tf + _K1 * (1 - _BETA + _BETA * lengths / _LENGTH))
    return found


@lru_cache(maxsize=8192)  # some 15 MB; questions come back to the same blocks
def _wordpieces(title: str, body: str) -> Numbers:
    """The wordpieces [T] of a block as in `corpus/tokens.py`; a vocabulary has less than 65,536."""
    title_ids, body_ids = Wordpieces.default().ids([title, body])
    return np.array(title_ids[:TITLE_WORDPIECES] + body_ids, dtype=np.uint16)


def ranked_again(
    question: str, blocks: Sequence[Block], scores: Sequence[float], weight: float
) -> tuple[list[int], list[float]]:
    """(places, scores s) of blocks, best first; the blocks are given in the order of f.

    s for the first `RANKED_AGAIN` blocks, and s without b, n, c and d for all after them. weight: λ.
    """
    again = blocks[: RANKED_AGAIN if weight else 0]
    proximity = Proximity.of(question)
    own = [b + proximity.score(block) for b, block in zip(lexical_scores(question, again, weight), again, strict=True)]
    own += [0.0] * (len(blocks) - len(again))
    sums = [score + added + offset(block) for score, added, block in zip(scores, own, blocks, strict=True)]
    order = sorted(range(len(sums)), key=lambda place: -sums[place])  # stable
    return order, [sums[place] for place in order]


def candidates(k: int) -> int:
    """The number of nearest blocks that must be found so that the k best can be taken."""
    return max(k, RANKED_AGAIN)


def main(task: CountWordpieces, activity: Activity) -> None:
    """Count in how many blocks of a corpus each wordpiece occurs."""
    refuse_existing(task.output)
    snapshot, wordpieces = Snapshot.verified(task.corpus), Wordpieces.default()
    with_V = torch.zeros(wordpieces.vocabulary_size, dtype=torch.int32)
    for start in range(0, len(snapshot), _AT_ONCE):
        activity.check()
        titles, bodies = snapshot.titles_texts(start, min(start + _AT_ONCE, len(snapshot)))
        for ids in wordpieces.ids([f"{title}\n{body}" for title, body in zip(titles, bodies, strict=True)]):
            with_V[sorted(set(ids))] += 1
        activity.progress(min(start + _AT_ONCE, len(snapshot)), len(snapshot), "blocks")
    save_tensors(task.output, {"blocks_with": with_V, "blocks": torch.tensor(len(snapshot), dtype=torch.int32)})
    activity.result({"blocks": len(snapshot), "path": str(task.output)})
