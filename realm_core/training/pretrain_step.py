"""One step of pre-training: retrieve, score the retrieved blocks again, fill the masks from each block, marginalise.

    x → Embed → the k − 1 best blocks of the (stale) index, without the passage that x came from, and the null block
    f(x, z) = Embed(x)ᵀ Embed(z) of these k with the current parameters, so that gradients reach the retriever
    join(x, z) → encoder → log p(y_j | z, x) → loss

Embeddings of x and z come from one embedder, as in the release; the paper (section 3.2) writes two projections. A block
that several sentences retrieved is embedded once. ∂ log p(y|x) / ∂ f(x, z) = posterior − prior: what a test checks.

Legend: B sentences, K blocks of each (the null block first), J masks (padded), M = masks × K in all, V vocabulary,
U different blocks, D dimension.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from realm_core.arrays import Array
from realm_core.errors import RealmError
from realm_core.model.device import fast_dtype
from realm_core.model.embedder import Embedder
from realm_core.model.encoder import Encoder
from realm_core.model.joiner import Joiner, Pieces
from realm_core.model.marginal import log_prior, masked_language_loss, retrieval_utility
from realm_core.training.config import PretrainConfig
from realm_core.training.live_index import LiveIndex
from realm_core.training.masking import MaskedSentences

NULL = -1  # the null block's row
_SPARE = 4  # blocks retrieved beyond k − 1, in place of those that are dropped


@dataclass(frozen=True)
class Filled:
    """The model's output for a batch.

    scores_BK: f(x, z); log_token_BKJ: log p(y_j | z, x), 0 at padding; present_BJ: False at padding;
    right_with, right_without: masked wordpieces predicted right by the marginal, and by the null block alone.
    """

    rows_BK: Array
    scores_BK: Tensor
    log_token_BKJ: Tensor
    present_BJ: Tensor
    right_with: int
    right_without: int


class PretrainStep(nn.Module):
    """The trainable modules and the computation of a batch.

    passage_hashes_N: text hash of every block of the index.
    """

    def __init__(
        self,
        embedder: Embedder,
        encoder: Encoder,
        joiner: Joiner,
        passage_hashes_N: Array,
        block_wordpieces: int,
        config: PretrainConfig,
    ) -> None:
        super().__init__()
        self.embedder, self.encoder = embedder, encoder
        self._joiner, self._hashes_N = joiner, passage_hashes_N
        self._block_wordpieces, self._config = block_wordpieces, config
        self._per_token = config.loss == "release"
        self._autocast = fast_dtype(joiner.device) == torch.bfloat16

    def forward(self, batch: MaskedSentences, index: LiveIndex) -> tuple[Tensor, dict[str, float]]:
        """The mean loss of a batch, and its figures, means over its sentences: see `reported`."""
        filled = self.fill(batch, index)
        prior_BK = log_prior(filled.scores_BK)
        loss = masked_language_loss(prior_BK, filled.log_token_BKJ, filled.present_BJ, per_token=self._per_token)
        return loss, _figures(filled, prior_BK.detach())

    def weight(self, batch: MaskedSentences) -> int:
        """The number of terms that the loss of a batch is the mean of: its sentences (paper) or its masks (release)."""
        return sum(map(len, batch.masks)) if self._per_token else len(batch)

    def fill(self, batch: MaskedSentences, index: LiveIndex) -> Filled:
        """Score the masked wordpieces of each sentence with each of its blocks."""
        device = self._joiner.device
        queries = Pieces.of(batch.queries, device)
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=self._autocast):
            query_BD = self.embedder(self._joiner.queries(queries))
        # In full precision: in bfloat16 many scores would be equal, and the search must be exact.
        found_BK = nearest_others(index, query_BD.detach(), batch.passage_hashes_B, self._hashes_N, self._config.k - 1)
        rows_BK = np.concatenate([np.full((len(batch), 1), NULL), found_BK], axis=1)
        rows_U, place_BK = np.unique(rows_BK, return_inverse=True)
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=self._autocast):
            block_UD = self.embedder(self._joiner.blocks(rows_U, self._block_wordpieces))
            block_BKD = block_UD[torch.from_numpy(place_BK.reshape(rows_BK.shape)).to(device)]
            pairs = self._joiner.pairs(
                queries.repeated(rows_BK.shape[1]),
                rows_BK.reshape(-1),
                self._config.pair_wordpieces,
                title=self._config.title,
            )
            hidden_TW = self.encoder.encode(pairs)
            masked_M, slot_M, target_M = self._masked(batch, pairs.starts(), rows_BK.shape[1])
            logits_MV = self.encoder.word_logits(hidden_TW[masked_M])
        scores_BK = (query_BD.float().unsqueeze(1) * block_BKD.float()).sum(-1)
        log_token_M = -torch.nn.functional.cross_entropy(logits_MV, target_M, reduction="none")
        present_BJ = _present([len(masks) for masks in batch.masks], device)
        log_token_BKJ = log_token_M.new_zeros(*rows_BK.shape, present_BJ.shape[1]).flatten()
        log_token_BKJ = log_token_BKJ.index_put((slot_M,), log_token_M).view(*rows_BK.shape, -1)
        right_with, right_without = _right(
            logits_MV.detach(), target_M, slot_M, log_prior(scores_BK.detach()), present_BJ
        )
        return Filled(rows_BK, scores_BK, log_token_BKJ, present_BJ, right_with, right_without)

    def _masked(self, batch: MaskedSentences, starts_P: list[int], k: int) -> tuple[Tensor, Tensor, Tensor]:
        """(positions in T, places in the flattened [B, K, J], target ids) of all masks with all blocks."""
        widest = max(len(masks) for masks in batch.masks)
        positions: list[int] = []
        slots: list[int] = []
        targets: list[int] = []
        for number, (masks, mask_targets) in enumerate(zip(batch.masks, batch.targets, strict=True)):
            for rank in range(k):
                pair = number * k + rank
                positions.extend(starts_P[pair] + 1 + mask for mask in masks)  # after [CLS]
                slots.extend(range(pair * widest, pair * widest + len(masks)))
                targets.extend(mask_targets)
        table = torch.tensor([positions, slots, targets]).to(self._joiner.device)
        return table[0], table[1], table[2]


def nearest_others(index: LiveIndex, queries_BD: Tensor, own_hashes_B: Array, hashes_N: Array, count: int) -> Array:
    """Rows [B, count] of the best blocks whose text is not the query's own passage (no trivial retrievals)."""
    retrieved = count + _SPARE
    while True:
        rows_BK = index.search(queries_BD, retrieved)[0].numpy()
        others_BK = hashes_N[rows_BK] != own_hashes_B[:, None]
        if (others_BK.sum(1) >= count).all():
            order_BK = np.argsort(~others_BK, axis=1, kind="stable")[:, :count]
            return np.take_along_axis(rows_BK, order_BK, axis=1)
        if retrieved >= index.blocks:
            raise RealmError(
                f"The corpus has too few different blocks: it must have {count} besides a sentence's own passage. "
                "Lower k, or use a larger corpus."
            )
        retrieved = min(2 * retrieved, index.blocks)


def _present(counts_B: list[int], device: torch.device) -> Tensor:
    counts = torch.tensor(counts_B, device=device).unsqueeze(1)
    return torch.arange(max(counts_B), device=device) < counts


@torch.no_grad()
def _right(
    logits_MV: Tensor, target_M: Tensor, slot_M: Tensor, log_prior_BK: Tensor, present_BJ: Tensor
) -> tuple[int, int]:
    """Number of masked wordpieces whose most probable word is right: by the marginal, and by the null block alone."""
    k, widest = log_prior_BK.shape[1], present_BJ.shape[1]
    pair_M, mask_M = slot_M // widest, slot_M % widest
    sentence_M, rank_M = pair_M // k, pair_M % k
    weight_M1 = log_prior_BK.flatten()[pair_M].exp().unsqueeze(1)
    # Indices of the different masks, K times fewer than M.
    place_BJ = torch.cumsum(present_BJ.flatten(), 0).view_as(present_BJ) - 1
    place_M = place_BJ[sentence_M, mask_M]
    mixture = logits_MV.new_zeros(int(present_BJ.sum()), logits_MV.shape[1])
    mixture.index_add_(0, place_M, torch.softmax(logits_MV, -1) * weight_M1)
    null_M = rank_M == 0
    truth = torch.empty(len(mixture), dtype=torch.long, device=target_M.device)
    truth[place_M[null_M]] = target_M[null_M]
    right_with = int((mixture.argmax(-1) == truth).sum())
    right_without = int((logits_MV[null_M].argmax(-1) == target_M[null_M]).sum())
    return right_with, right_without


@torch.no_grad()
def _figures(filled: Filled, log_prior_BK: Tensor) -> dict[str, float]:
    sentences = len(filled.present_BJ)
    log_likelihood_BK = filled.log_token_BKJ.detach().sum(-1)
    utility_BK = retrieval_utility(log_likelihood_BK, log_likelihood_BK[:, 0])
    prior_BK = log_prior_BK.exp()
    return {
        "right": filled.right_with / sentences,
        "right_without": filled.right_without / sentences,
        "masks": int(filled.present_BJ.sum()) / sentences,
        "utility": utility_BK[:, 1:].mean().item(),
        "utility_best": utility_BK[:, 1:].amax(1).mean().item(),
        "null_share": prior_BK[:, 0].mean().item(),
        "prior_entropy": -(prior_BK * log_prior_BK).sum(1).mean().item(),
        "log_likelihood": torch.logsumexp(log_prior_BK + log_likelihood_BK, 1).mean().item(),
        "log_likelihood_without": log_likelihood_BK[:, 0].mean().item(),
    }


def reported(means: dict[str, float]) -> dict[str, float]:
    """The figures as they are called in metrics, from the means of `_figures` over any number of sentences.

    Shares of the masks and the perplexity of a mask are computed last: batches have different numbers of masks.
    """
    others = dict(means)
    masks = others.pop("masks")
    accuracies = {"accuracy": others.pop("right") / masks, "accuracy_without": others.pop("right_without") / masks}
    return {**others, **accuracies, "perplexity": math.exp(min(50.0, -means["log_likelihood_without"] / masks))}
