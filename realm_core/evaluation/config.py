"""What can be set of measuring."""

from __future__ import annotations

from realm_core.evaluation.figures import RECALL_AT
from realm_core.settings import Positive, Settings, setting

# What BM25's scores are multiplied by unless told otherwise: its scores of the best blocks lie a few units apart, those
# of f(x, z) one or two. With realm-mini, exact match on plain-dev is the same within a question from 0.3 to 2.
BM25_SCALE = 0.5


class EvaluateConfig(Settings):
    """How an ablation measures."""

    k: int = setting(5, "blocks read for a question", ge=1, le=max(RECALL_AT))  # as many as are retrieved
    score_scale: Positive = setting(
        BM25_SCALE, "what BM25's scores are multiplied by to be prior logits, in fine-tuning and evaluation"
    )
