"""What can be set of measuring."""

from __future__ import annotations

from dataclasses import dataclass

from realm_core.evaluation.figures import RECALL_AT
from realm_core.settings import POSITIVE, Settings, between, setting

# What BM25's scores are multiplied by unless told otherwise: its scores of the best blocks lie a few units apart, those
# of f(x, z) one or two. With realm-mini, exact match on plain-dev is the same within a question from 0.3 to 2.
BM25_SCALE = 0.5


@dataclass(frozen=True)
class EvaluateConfig(Settings):
    """How an ablation measures."""

    k: int = setting(5, "blocks read for a question", between(1, max(RECALL_AT)))  # as many as are retrieved
    score_scale: float = setting(
        BM25_SCALE, "what BM25's scores are multiplied by to be prior logits, in fine-tuning and evaluation", POSITIVE
    )
