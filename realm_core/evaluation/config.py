"""The settings of evaluation."""

from __future__ import annotations

from realm_core.settings import MAX_K, Positive, Settings, setting

# Default factor of BM25's scores: BM25's scores of the best blocks differ by a few units, those of f(x, z) by one or
# two. With realm-mini, exact match on plain-dev differs by at most one question from 0.3 to 2.
BM25_SCALE = 0.5


class EvaluateConfig(Settings):
    """The settings of evaluation in an ablation."""

    k: int = setting(5, "read for a question", unit="blocks", ge=1, le=MAX_K)
    score_scale: Positive = setting(
        BM25_SCALE, "factor that makes BM25's scores prior logits, in fine-tuning and evaluation"
    )
