"""The scope of a search: a filter of documents, and the weights of collections.

Legend: B queries, D dimension, K results.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from realm_core.index.postings import LexicalPart
from realm_core.index.search import merged
from realm_core.living.documents import Filter
from realm_core.living.index import LivingIndex


@dataclass(frozen=True)
class Scope:
    """The documents that pass a filter. weights: of the collections whose weight is not 1; each is more than 0.

    A weight multiplies the prior of a collection's blocks before it is normalised: the prior's logit of a block is
    f(x, z) / T + log weight, T the prior's temperature. The k blocks are chosen by this logit, too.
    """

    wanted: Filter
    weights: frozenset[tuple[str, float]] = frozenset()

    def parts(self) -> list[tuple[Filter, float]]:
        """Disjoint filters, one for each weight; together they are `wanted`."""
        collections = self.wanted.collections
        by_weight: dict[float, set[str]] = {}
        for name, weight in self.weights:
            if collections is None or name in collections:
                by_weight.setdefault(weight, set()).add(name)
        weighted = [
            (replace(self.wanted, collections=frozenset(names)), weight) for weight, names in sorted(by_weight.items())
        ]
        names = frozenset(name for own in by_weight.values() for name in own)
        if collections is None:
            return [(replace(self.wanted, hidden_collections=self.wanted.hidden_collections | names), 1.0), *weighted]
        return [(replace(self.wanted, collections=collections - names), 1.0), *weighted]


class ScopedSearch:
    """Search (`index/search.py`) in a scope of a corpus state. Its scores are T × the prior's logits."""

    def __init__(self, index: LivingIndex, scope: Scope, temperature: float) -> None:
        self._corpus = index.corpus
        parts = ((index.where(wanted), temperature * math.log(weight)) for wanted, weight in scope.parts())
        self._parts = [(part, bonus) for part, bonus in parts if part.rows]

    def search(self, queries_BD: Tensor, k: int, lexical: LexicalPart | None = None) -> tuple[Tensor, Tensor]:
        """Rows and scores [B, min(k, blocks in the scope)] on the CPU, highest first."""
        rows, scores = [torch.empty(len(queries_BD), 0).long()], [torch.empty(len(queries_BD), 0)]
        for part, bonus in self._parts:
            own_rows, own_scores = part.search(queries_BD, k, lexical)
            rows.append(own_rows)
            scores.append(own_scores + bonus)
        rows_BM, scores_BM = torch.cat(rows, dim=1), torch.cat(scores, dim=1)
        if len(self._parts) < 2:
            return merged(rows_BM, scores_BM, k)
        # A block that documents of several weights have counts once, with the highest.
        rows_BM, scores_BM = merged(rows_BM, scores_BM, rows_BM.shape[1])
        places_BK = torch.tensor([self._distinct(ranked)[:k] for ranked in rows_BM.tolist()])
        return rows_BM.gather(1, places_BK), scores_BM.gather(1, places_BK)

    def _distinct(self, rows: list[int]) -> list[int]:
        """The places of rows with different blocks, of equal ones the first."""
        places: dict[str, int] = {}
        for place, row in enumerate(rows):
            places.setdefault(self._corpus.block_id(row), place)
        return list(places.values())
