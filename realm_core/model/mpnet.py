"""Converts MPNet (Song et al., 2020) to a `Bert`: renamed layers, word embeddings in the order of BERT's vocabulary.

MPNet's vocabulary is BERT's with four special tokens before it and `<mask>` after it. Its rows are reordered, so that
one tokenizer serves both. Positions count from 2; sequences have no segments.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from realm_core.errors import RealmError

_IN_FRONT = 4  # <s>, <pad>, </s>, <unk>; then BERT's words, then <mask>
_SPECIAL = {"[PAD]": (0, 1), "[UNK]": (100, 3), "[CLS]": (101, 0), "[SEP]": (102, 2)}  # BERT's id, MPNet's id
_MASK = 103
_FIRST_POSITION = 2
_SEGMENTS = 2
_WORDS, _POSITIONS = "embeddings.word_embeddings.weight", "embeddings.position_embeddings.weight"
_RENAMED = (
    (r"\.attention\.attn\.q\.", ".attention.self.query."),
    (r"\.attention\.attn\.k\.", ".attention.self.key."),
    (r"\.attention\.attn\.v\.", ".attention.self.value."),
    (r"\.attention\.attn\.o\.", ".attention.output.dense."),
    (r"\.attention\.LayerNorm\.", ".attention.output.LayerNorm."),
)


def is_mpnet(described: object) -> bool:
    """Whether a config.json describes an MPNet."""
    return isinstance(described, Mapping) and described.get("model_type") == "mpnet"


def architecture_as_bert(described: Mapping[str, Any]) -> dict[str, Any]:
    """MPNet's config.json with the keys and sizes of a `Bert`."""
    sizes: dict[str, int] = {}
    for name, less in (("vocab_size", _IN_FRONT + 1), ("max_position_embeddings", _FIRST_POSITION)):
        value = described.get(name)
        if type(value) is not int or value <= less:
            raise RealmError(f"{name} of an MPNet must be an integer above {less}.")
        sizes[name] = value - less
    return {**described, **sizes, "type_vocab_size": _SEGMENTS}


def weights_as_bert(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """MPNet's tensors under `Bert`'s names; word and position embeddings in BERT's order."""
    renamed: dict[str, Tensor] = {}
    for name, tensor in weights.items():
        for pattern, replacement in _RENAMED:
            name = re.sub(pattern, replacement, name)
        renamed[name] = tensor
    for name, least in ((_WORDS, _IN_FRONT + _MASK + 2), (_POSITIONS, _FIRST_POSITION + 1)):
        if name not in renamed or renamed[name].dim() != 2 or len(renamed[name]) < least:
            raise RealmError(f"the tensor {name!r} is missing or of another shape")
    words = renamed[_WORDS]
    order = torch.arange(_IN_FRONT, len(words) - 1)
    for bert_id, own_id in _SPECIAL.values():
        order[bert_id] = own_id
    order[_MASK] = len(words) - 1
    renamed[_WORDS] = words[order]
    renamed[_POSITIONS] = renamed[_POSITIONS][_FIRST_POSITION:].contiguous()
    renamed["embeddings.token_type_embeddings.weight"] = words.new_zeros(_SEGMENTS, words.shape[1])
    return renamed
