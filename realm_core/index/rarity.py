"""How rare a wordpiece is, counted once in the default corpus (`count-wordpieces`).

Legend: V wordpieces of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from realm_core.tensors import load_tensors
from realm_core.text.wordpieces import Wordpieces

Numbers = np.ndarray[Any, np.dtype[Any]]
_COUNTS = Path(__file__).with_name("wordpiece_counts.safetensors")


@cache
def idf() -> Numbers:
    """[V]: log(1 + (N − n + ½) / (n + ½)) for a wordpiece that n of N blocks have."""
    counts = load_tensors(_COUNTS)
    with_V, blocks = counts["blocks_with"].double(), int(counts["blocks"])
    rarity: Numbers = torch.log1p((blocks - with_V + 0.5) / (with_V + 0.5)).float().numpy()
    return rarity


def rarity_of(words: Sequence[str]) -> list[float]:
    """The idf of each word's rarest wordpiece."""
    return [float(idf()[ids].max(initial=0.0)) for ids in Wordpieces.default().ids(words)]
