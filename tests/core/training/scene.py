"""One step of pre-training, and everything about it computed anew: by transformers' models and plain Python.

Legend: B sentences, K blocks of each, J masks, V vocabulary, L wordpieces of a sequence, N blocks, D dimension.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from realm_core.corpus.store import Snapshot
from realm_core.corpus.tokens import open_tokens
from realm_core.index.generation import Generation
from realm_core.model.checkpoint import load_model
from realm_core.model.embedder import Embedder
from realm_core.model.encoder import Encoder
from realm_core.model.joiner import Joiner
from realm_core.salient.cache import SalientSpans
from realm_core.text.joins import join_block
from realm_core.text.wordpieces import Wordpieces
from realm_core.training.config import PretrainConfig
from realm_core.training.live_index import LiveIndex
from realm_core.training.masking import MaskedBatches, MaskedSentences
from realm_core.training.pretrain_step import NULL, PretrainStep
from tests.core.model import formulas
from tests.core.model.plain import PlainEmbedder, log_words, plain_masked_words
from tests.core.training.towns import QUIET, Towns

Rows = np.ndarray[Any, np.dtype[np.int64]]
CPU = torch.device("cpu")
WORDPIECES = Wordpieces.default()
K = 4
BLOCK_LIMIT, PAIR_LIMIT = 288, 40  # short enough for bodies to be cut


@dataclass(frozen=True)
class Scene:
    """A step, what it retrieves from, and a batch of six sentences with one or two masks."""

    step: PretrainStep
    snapshot: Snapshot
    vectors_ND: Tensor
    index: LiveIndex
    batch: MaskedSentences

    @property
    def embedder(self) -> Embedder:
        return self.step.embedder

    @property
    def encoder(self) -> Encoder:
        return self.step.encoder


def live(vectors_ND: Tensor) -> LiveIndex:
    """An index of these vectors."""
    return LiveIndex(Generation("made up", {}, vectors_ND), 0, 0.0, CPU)


def make_scene(
    towns: Towns, corpus: Path | None = None, *, per_token: bool = False, title: bool = False, k: int = K
) -> Scene:
    """Sentences of the towns. corpus: what is retrieved from, if it is another."""
    model, source = load_model(towns.model), Snapshot.open(towns.corpus)
    snapshot = Snapshot.open(corpus or towns.corpus)
    tokens = open_tokens(snapshot, QUIET)
    assert model.encoder is not None
    config = PretrainConfig(k=k, batch=6, title=title, loss="release" if per_token else "paper", query_wordpieces=96)
    config = config.model_copy(update={"pair_wordpieces": PAIR_LIMIT})
    step = PretrainStep(
        model.block,
        model.encoder,
        Joiner(tokens, CPU),
        tokens.text_hashes_N,
        BLOCK_LIMIT,
        config,
    )
    spans = SalientSpans.open(towns.spans, source)
    batches = MaskedBatches(source, spans, range(len(spans.rows_N)), config)
    vectors_ND = Generation.open(towns.index).vectors_ND.float()
    noise_ND = torch.randn(vectors_ND.shape, generator=torch.Generator().manual_seed(4))
    stale_ND = vectors_ND + 0.3 * noise_ND  # as of other parameters
    return Scene(step.eval(), snapshot, stale_ND, live(stale_ND), batches(0))


def joined(query: list[int]) -> list[int]:
    """join(x)."""
    return [WORDPIECES.cls_id, *query, WORDPIECES.sep_id]


@dataclass(frozen=True)
class ByHand:
    """Of one sentence: prior of its blocks, p(y_j | z, x), and the likeliest words under the marginal and the null."""

    prior_K: list[float]
    token_KJ: list[list[float]]
    words_J: list[int]
    null_words_J: list[int]

    @property
    def likelihood_K(self) -> list[float]:
        """p(y|z,x)."""
        return [math.prod(row) for row in self.token_KJ]

    @property
    def support_K(self) -> list[float]:
        """Posterior − prior."""
        posterior = formulas.posterior(self.prior_K, self.likelihood_K)
        return [after - before for after, before in zip(posterior, self.prior_K, strict=True)]


def by_hand(scene: Scene, rows_BK: Rows, *, title: bool = False) -> list[ByHand]:
    """What the step should make of the batch, if it reads these blocks."""
    words, embed = plain_masked_words(scene.encoder), PlainEmbedder(scene.embedder)
    results = []
    for query, masks, targets, rows in zip(
        scene.batch.queries, scene.batch.masks, scene.batch.targets, rows_BK.tolist(), strict=True
    ):
        head = joined(query)
        scores, words_KJV = [], []
        for row in rows:
            block = None if row == NULL else scene.snapshot.block(row)
            named, text = (block.title, block.text) if block else ("", "")
            join_z = join_block(WORDPIECES, [named], [text], BLOCK_LIMIT)[0]
            scores.append(float(embed(head) @ embed(join_z.ids, join_z.segments)))
            between = [*WORDPIECES.ids([named])[0], WORDPIECES.sep_id] if title and block else []
            cut = [*head, *between, *WORDPIECES.ids([text])[0]][: PAIR_LIMIT - 1]
            pair = [*cut, WORDPIECES.sep_id]
            segments = [0] * len(head) + [1] * (len(pair) - len(head))
            words_KJV.append(log_words(words, pair, segments, [1 + mask for mask in masks]).exp())
        prior_K = formulas.softmax(scores)
        mixture_JV = torch.stack([share * own_JV for share, own_JV in zip(prior_K, words_KJV, strict=True)]).sum(0)
        token_KJ = [[float(own_JV[j, target]) for j, target in enumerate(targets)] for own_JV in words_KJV]
        results.append(ByHand(prior_K, token_KJ, mixture_JV.argmax(-1).tolist(), words_KJV[0].argmax(-1).tolist()))
    return results
