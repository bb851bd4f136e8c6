"""The lexical part of the prior: how many rare words of a question a block has, added to f(x, z).

    s(x, z) = f(x, z) + λ · b(x, z) + o(z)
    b(x, z) = Σ over the question's wordpieces w of  idf(w) · tf(w) · (k₁ + 1) / (tf(w) + k₁ · (1 − β + β · |z| / L))

b is BM25 (Robertson and Zaragoza, 2009) with k₁ = 1.5 and β = 0.75 over the wordpieces of title and body. The sum is
the prior's logit, so p(z|x) stays one softmax. How rare a wordpiece is was counted once, in the default corpus, and L
is a constant: b depends on the question and the block alone, so a document that comes or goes changes no other
block's. o depends on the source of the block's article, and is 0 but for a dictionary's entries.

The best blocks by s are found exactly where all blocks are scored (`postings.py`). In a larger corpus, and in
approximate search, b is added for the 20 nearest blocks, which are ranked again.

Legend: V wordpieces of the vocabulary, W different ones of the question, T wordpieces of a block.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from realm_core.corpus.records import Block
from realm_core.corpus.store import Snapshot
from realm_core.corpus.wordnet import ADDRESS, SCORE_OFFSET
from realm_core.errors import RealmError
from realm_core.index.tasks import CountWordpieces
from realm_core.runs.activity import Activity
from realm_core.tensors import load_tensors, save_tensors
from realm_core.text.joins import TITLE_WORDPIECES
from realm_core.text.wordpieces import Wordpieces

Numbers = np.ndarray[Any, np.dtype[Any]]
RANKED_AGAIN = 20  # nearest blocks; with 100, recall of the best five was no higher
_COUNTS = Path(__file__).with_name("wordpiece_counts.safetensors")
_K1, _BETA = 1.5, 0.75
_LENGTH = 220.0  # L, in wordpieces
_AT_ONCE = 4096


def lexical_scores(question: str, blocks: Sequence[Block]) -> list[float]:
    """b(x, z) of each block."""
    wanted_W = wanted_wordpieces(question)
    scores = []
    for block in blocks:
        ids_T = _wordpieces(block.title, block.text)
        tf_W = np.count_nonzero(ids_T[:, None] == wanted_W, axis=0)
        scores.append(float((most_added(wanted_W) * shares(tf_W, len(ids_T))).sum()))
    return scores


def offset(block: Block) -> float:
    """o(z)."""
    return SCORE_OFFSET if block.url.startswith(ADDRESS) else 0.0


def offsets(snapshot: Snapshot) -> Numbers:
    """o(z) of all blocks, float32 [V]."""
    return np.where(snapshot.rows_from(ADDRESS), np.float32(SCORE_OFFSET), np.float32(0))


def wanted_wordpieces(question: str) -> Numbers:
    """The different wordpieces [W] of a question, ascending."""
    return np.unique(np.array(Wordpieces.default().ids([question])[0], dtype=np.uint16))


def most_added(wordpieces: Numbers) -> Numbers:
    """What a wordpiece adds to b of a block at most."""
    most: Numbers = _rarity()[wordpieces.astype(np.int64)] * (_K1 + 1)
    return most


def shares(tf: Numbers, lengths: Numbers | int) -> Numbers:
    """How much of that it adds to a block that has it so many times, from 0 to 1. lengths: of blocks, in wordpieces."""
    found: Numbers = tf / (tf + _K1 * (1 - _BETA + _BETA * lengths / _LENGTH))
    return found


@lru_cache(maxsize=8192)  # some 15 MB; what is asked of a corpus comes back to the same blocks
def _wordpieces(title: str, body: str) -> Numbers:
    """The wordpieces [T] of a block as in `corpus/tokens.py`; a vocabulary has less than 65,536."""
    title_ids, body_ids = Wordpieces.default().ids([title, body])
    return np.array(title_ids[:TITLE_WORDPIECES] + body_ids, dtype=np.uint16)


def ranked_again(
    question: str, blocks: Sequence[Block], scores: Sequence[float], weight: float
) -> tuple[list[int], list[float]]:
    """The places of the blocks, which are given in the order of f, by their new scores, and these, best first.

    s for the first `RANKED_AGAIN` blocks, and s without b for all after them. weight: λ.
    """
    again = blocks[: RANKED_AGAIN if weight else 0]
    own = lexical_scores(question, again) + [0.0] * (len(blocks) - len(again))
    sums = [score + weight * b + offset(block) for score, b, block in zip(scores, own, blocks, strict=True)]
    order = sorted(range(len(sums)), key=lambda place: -sums[place])  # stable
    return order, [sums[place] for place in order]


def candidates(k: int) -> int:
    """The number of nearest blocks that must be found so that the k best can be taken."""
    return max(k, RANKED_AGAIN)


@cache
def _rarity() -> Numbers:
    """idf [V]: log(1 + (N − n + ½) / (n + ½)) for a wordpiece that n of N blocks have."""
    counts = load_tensors(_COUNTS)
    with_V, blocks = counts["blocks_with"].double(), int(counts["blocks"])
    rarity: Numbers = torch.log1p((blocks - with_V + 0.5) / (with_V + 0.5)).float().numpy()
    return rarity


def main(task: CountWordpieces, activity: Activity) -> None:
    """Count in how many blocks of a corpus each wordpiece occurs."""
    if task.output.exists():
        raise RealmError(f"{task.output} exists already; choose another name.")
    snapshot, wordpieces = Snapshot.open(task.corpus), Wordpieces.default()
    with_V = torch.zeros(wordpieces.vocabulary_size, dtype=torch.int32)
    for start in range(0, len(snapshot), _AT_ONCE):
        activity.check()
        titles, bodies = snapshot.titles_texts(start, min(start + _AT_ONCE, len(snapshot)))
        for ids in wordpieces.ids([f"{title}\n{body}" for title, body in zip(titles, bodies, strict=True)]):
            with_V[sorted(set(ids))] += 1
        activity.progress(min(start + _AT_ONCE, len(snapshot)), len(snapshot), "blocks")
    save_tensors(task.output, {"blocks_with": with_V, "blocks": torch.tensor(len(snapshot), dtype=torch.int32)})
    activity.result({"blocks": len(snapshot), "path": str(task.output)})
