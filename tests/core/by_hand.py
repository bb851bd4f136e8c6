"""Filling masked sentences once more, written out: from a deployment's files, without the modules that serve it."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer

from realm_core.corpus.store import Snapshot
from realm_core.index.generation import Generation
from realm_core.model.bert import Bert
from realm_core.model.checkpoint import load_model
from realm_core.text.wordpieces import Wordpieces
from tests.core.conftest import Deployment
from tests.core.model.plain import plain_bert


class ByHand:
    """The same from weights and vectors alone: one sequence at a time through transformers, the rest in formulas."""

    def __init__(self, deployment: Deployment) -> None:
        self.model = load_model(deployment.model)
        self.vectors_ND = Generation.open(deployment.index).vectors_ND.double().numpy()
        self.blocks = [Snapshot.open(deployment.corpus).block(row) for row in range(len(self.vectors_ND))]
        self.tokenizer = Tokenizer.from_file(str(Wordpieces.default().path))
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()
        self._plain = cache(plain_bert)

    def ids(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False).ids)

    def hidden(self, bert: Bert, first: list[int], second: list[int] | None) -> np.ndarray[Any, Any]:
        """Of `[CLS] first [SEP]`, or of `[CLS] first [SEP] second [SEP]`."""
        cls, sep = self.tokenizer.token_to_id("[CLS]"), self.tokenizer.token_to_id("[SEP]")
        ids, segments = [cls, *first, sep], [0] * (len(first) + 2)
        if second is not None:
            ids, segments = [*ids, *second, sep], [*segments, *[1] * (len(second) + 1)]
        with torch.no_grad():
            states = self._plain(bert)(input_ids=torch.tensor([ids]), token_type_ids=torch.tensor([segments]))[0][0]
        return np.asarray(states.double().numpy())

    def vector(self, first: list[int], second: list[int] | None = None) -> np.ndarray[Any, Any]:
        own = self.model.block
        pooled = self.hidden(own.bert, first, second).mean(0)
        return normed(pooled @ numbers(own.dense.weight).T + numbers(own.dense.bias), own.norm)

    def log_tokens(self, sentence: list[int], body: list[int]) -> np.ndarray[Any, Any]:
        """log p(· | z, x), a row for each mask."""
        encoder = self.model.encoder
        assert encoder is not None
        mask = self.tokenizer.token_to_id("[MASK]")
        states = self.hidden(encoder.bert, sentence, body)[[1 + i for i, one in enumerate(sentence) if one == mask]]
        head = encoder.head
        raised = states @ numbers(head.dense.weight).T + numbers(head.dense.bias)
        gelu = 0.5 * raised * (1 + np.vectorize(math.erf)(raised / math.sqrt(2)))
        words = numbers(encoder.bert.embeddings.word_embeddings.weight)
        logits = normed(gelu, head.norm) @ words.T + numbers(head.bias)
        highest = logits.max(1, keepdims=True)
        return np.asarray(logits - highest - np.log(np.exp(logits - highest).sum(1, keepdims=True)))

    def fill(self, sentence: str, k: int) -> tuple[list[str | None], list[float], np.ndarray[Any, Any]]:
        """Ids of the blocks read (None: the null block), their priors, and log p of all words [K, J, V]."""
        x = self.ids(sentence)
        query = self.vector(x)
        scores = self.vectors_ND @ query
        rows = sorted(range(len(scores)), key=lambda row: -scores[row])[: k - 1]
        logits = [float(query @ self.vector([], [])), *(float(scores[row]) for row in rows)]
        weights = [math.exp(logit - max(logits)) for logit in logits]
        bodies = [[], *(self.ids(self.blocks[row].text) for row in rows)]
        log_tokens = np.stack([self.log_tokens(x, body) for body in bodies])
        ids = [None, *(self.blocks[row].block_id for row in rows)]
        return ids, [weight / sum(weights) for weight in weights], log_tokens


def numbers(parameter: torch.Tensor) -> np.ndarray[Any, Any]:
    return parameter.detach().double().numpy()


def normed(rows: np.ndarray[Any, Any], norm: torch.nn.LayerNorm) -> np.ndarray[Any, Any]:
    centred = rows - rows.mean(-1, keepdims=True)
    scaled = centred / np.sqrt(rows.var(-1, keepdims=True) + norm.eps)
    return np.asarray(scaled * numbers(norm.weight) + numbers(norm.bias))
