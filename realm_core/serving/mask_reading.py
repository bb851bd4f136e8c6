"""Fills masked sentences from blocks as in pre-training: pairs → log p(y_j | z, x) → marginal → filling.

Sentences and blocks are embedded by the block embedder, as in pre-training; fine-tuning changes only the query
embedder. The null block is the first of the blocks read.

Legend: K blocks, J masks, V vocabulary, Y guesses, C candidates of one block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from realm_core.corpus.records import Block
from realm_core.errors import RealmError
from realm_core.index.embedding import embed
from realm_core.model.config import MASKED_PAIR_WORDPIECES, MASKED_SENTENCE_WORDPIECES
from realm_core.model.embedder import Embedder
from realm_core.model.encoder import Encoder
from realm_core.model.marginal import log_marginal, log_posterior, log_prior, retrieval_utility
from realm_core.model.packed import Packed
from realm_core.serving.filled import Filling, FillingEvidence, Guess, MaskWords, Word
from realm_core.text.joins import Joined, join_block, join_pair
from realm_core.text.masked import MASK, MOST_MASKS, between_masks, filled_words
from realm_core.text.wordpieces import Encoded, Wordpieces

_WORDS = 5  # returned per mask
_GUESSES = 5
_CANDIDATES = 20  # per block; guesses are the best of all blocks' candidates


@dataclass(frozen=True)
class MaskedSentence:
    """x. ids: its wordpieces including `[MASK]`; masks: positions of `[MASK]`. truth: ids of the correct words."""

    text: str
    ids: list[int]
    masks: list[int]
    truth: list[int] | None


def masked_sentence(text: str, truth: str | None = None) -> MaskedSentence:
    """Tokenise a sentence; `RealmError` if it has no mask, too many masks, or is too long.

    truth: the correct words in the order of the masks. A single mask is repeated for each wordpiece of the truth, as
    pre-training masks spans; several masks must match its number of wordpieces, or `RealmError` is raised.
    """
    wordpieces = Wordpieces.default()
    masks = len(between_masks(text)) - 1
    if masks == 0:
        raise RealmError(f"The sentence has no {MASK}: write {MASK} where a word is missing.")
    hidden = None if truth is None else _truth(wordpieces, truth, masks)
    if hidden is not None and masks == 1:
        masks = len(hidden)
        text = " ".join([MASK] * masks).join(between_masks(text))
    if masks > MOST_MASKS:
        raise RealmError(f"At most {MOST_MASKS} {MASK} can be filled; this sentence has {masks}.")
    first, *following = wordpieces.ids(between_masks(text))
    ids, places = list(first), []
    for after in following:
        places.append(len(ids))
        ids += [wordpieces.mask_id, *after]
    if len(ids) > MASKED_SENTENCE_WORDPIECES - 2:
        raise RealmError(
            f"The sentence is too long: it has {len(ids)} wordpieces, and at most {MASKED_SENTENCE_WORDPIECES - 2} are "
            "allowed."
        )
    return MaskedSentence(text, ids, places, hidden)


def _truth(wordpieces: Wordpieces, truth: str, masks: int) -> list[int]:
    ids = wordpieces.ids([truth])[0]
    if not ids or wordpieces.unknown_id in ids:
        raise RealmError(f"“{truth}” cannot fill a {MASK}: the vocabulary has no wordpieces for it.")
    if masks not in (1, len(ids)):
        raise RealmError(
            f"“{truth}” and the {masks} {MASK} do not match: it has {len(ids)} wordpieces "
            f"({', '.join(wordpieces.pieces(ids))}), but each {MASK} needs exactly one."
        )
    return ids


class MaskReading:
    """Fills masked sentences with one model. embedder, encoder: ready for inference, on their device.

    model, index, corpus: ids to record in the fillings.
    """

    def __init__(self, embedder: Embedder, encoder: Encoder, *, model: str, index: str, corpus: str) -> None:
        self._embedder, self._encoder = embedder, encoder
        self._device = encoder.head.bias.device
        self._wordpieces = Wordpieces.default()
        self._null = join_block(self._wordpieces, [""], [""], limit=3)[0]  # [CLS] [SEP] [SEP]
        self._model, self._index, self._corpus = model, index, corpus

    def embed(self, sentence: MaskedSentence) -> tuple[Tensor, float]:
        """(Embed(x) [D], f(x, ∅)). To be called in `torch.inference_mode()`, like `read`."""
        ids = [self._wordpieces.cls_id, *sentence.ids, self._wordpieces.sep_id]
        joined = Joined(ids, [0] * len(ids), 1, len(ids) - 1)
        sentence_D, null_D = embed(self._embedder, [joined, self._null])
        return sentence_D, torch.dot(sentence_D, null_D).item()

    def read(self, sentence: MaskedSentence, blocks: Sequence[Block]) -> Tensor:
        """log p(· | z, x) [K, J, V], float64, for the null block, then for `blocks`."""
        question = Encoded(sentence.ids, [], [])
        pairs = [
            join_pair(
                self._wordpieces,
                question,
                None,
                body,
                question_limit=MASKED_SENTENCE_WORDPIECES,
                limit=MASKED_PAIR_WORDPIECES,
            )
            for body in self._wordpieces.encode(["", *(block.text for block in blocks)])
        ]
        packed = Packed.of([pair.ids for pair in pairs], [pair.segments for pair in pairs])
        masked_M = torch.tensor([start + 1 + mask for start in packed.starts() for mask in sentence.masks])
        hidden_MW = self._encoder.encode(packed.to(self._device))[masked_M.to(self._device)]
        # The head runs in float32, because a utility is a difference of logarithms.
        words_VW = self._encoder.bert.embeddings.word_embeddings.weight.float()
        logits_MV = self._encoder.head(hidden_MW, words_VW).cpu().double()
        return torch.log_softmax(logits_MV, dim=-1).view(len(pairs), len(sentence.masks), -1)

    def filling(
        self, sentence: MaskedSentence, blocks: Sequence[Block], scores_K: Sequence[float], log_token_KJV: Tensor
    ) -> Filling:
        """The filling of one reading; the caller adds the timings.

        scores_K, log_token_KJV: f(x, z) and log p(· | z, x) of the null block, then of `blocks`.
        """
        log_prior_K = log_prior(torch.tensor(scores_K, dtype=torch.float64))
        marginal_JV = torch.logsumexp(log_prior_K.view(-1, 1, 1) + log_token_KJV, dim=0)
        guesses_YJ = best_guesses(log_prior_K, log_token_KJV, marginal_JV)
        explained_J = guesses_YJ[0] if sentence.truth is None else torch.tensor(sentence.truth)
        log_likelihood_K = log_likelihood(log_token_KJV, explained_J.unsqueeze(0))[0]
        posterior_K = log_posterior(log_prior_K, log_likelihood_K).exp()
        best = 1 + int(posterior_K[1:].argmax()) if blocks else None

        def guess(words_J: Tensor) -> Guess:
            own_K = log_likelihood(log_token_KJV, words_J.unsqueeze(0))[0]
            pieces = self._wordpieces.pieces(words_J.tolist())
            return Guess(
                words=tuple(pieces),
                text=filled_words(sentence.text, pieces),
                without_retrieval=own_K[0].exp().item(),
                best_block=None if best is None else own_K[best].exp().item(),
                marginal=log_marginal(log_prior_K, own_K).exp().item(),
            )

        return Filling(
            sentence=sentence.text,
            guesses=tuple(guess(words_J) for words_J in guesses_YJ),
            truth=None if sentence.truth is None else guess(explained_J),
            explains="guess" if sentence.truth is None else "truth",
            masks=tuple(
                MaskWords(
                    without_retrieval=self._top(log_token_KJV[0, mask]),
                    best_block=() if best is None else self._top(log_token_KJV[best, mask]),
                    marginal=self._top(marginal_JV[mask]),
                )
                for mask in range(len(sentence.masks))
            ),
            best_block_id=None if best is None else blocks[best - 1].block_id,
            evidence=evidence_of(blocks, scores_K, log_prior_K, log_likelihood_K, posterior_K),
            model=self._model,
            index=self._index,
            corpus=self._corpus,
            latency_ms=0.0,
            timings_ms={},
        )

    def _top(self, log_probability_V: Tensor) -> tuple[Word, ...]:
        best = log_probability_V.topk(_WORDS)
        pieces = self._wordpieces.pieces(best.indices.tolist())
        return tuple(Word(piece, value) for piece, value in zip(pieces, best.values.exp().tolist(), strict=True))


def log_likelihood(log_token_KJV: Tensor, guesses_YJ: Tensor) -> Tensor:
    """log p(y | z, x) = Σ_j log p(y_j | z, x) [Y, K]."""
    masks = torch.arange(guesses_YJ.shape[1])
    log_likelihood_YK: Tensor = log_token_KJV[:, masks, guesses_YJ].sum(-1).T
    return log_likelihood_YK


def best_guesses(log_prior_K: Tensor, log_token_KJV: Tensor, marginal_JV: Tensor) -> Tensor:
    """Wordpieces for all masks [Y, J], the highest joint marginal first.

    Selected from the most probable candidates of each block and of the per-mask marginals. This is exact for one mask;
    for several, a better guess would have to rank low for every block.
    """
    candidates = [likeliest(log_token_JV, _CANDIDATES) for log_token_JV in (*log_token_KJV, marginal_JV)]
    guesses_YJ = torch.cat(candidates).unique(dim=0)
    log_marginal_Y = log_marginal(log_prior_K, log_likelihood(log_token_KJV, guesses_YJ))
    best_YJ: Tensor = guesses_YJ[log_marginal_Y.topk(_GUESSES).indices]
    return best_YJ


def likeliest(log_token_JV: Tensor, count: int) -> Tensor:
    """The `count` sequences of wordpieces [C, J] with the highest product of probabilities, exactly.

    Given a block, masks are independent, so the best sequences extend best sequences of one mask less.
    """
    best_JC = log_token_JV.topk(count)
    total_C, chosen_CJ = best_JC.values[0], best_JC.indices[0].unsqueeze(1)
    for value_C, word_C in zip(best_JC.values[1:], best_JC.indices[1:], strict=True):
        best = (total_C.unsqueeze(1) + value_C).flatten().topk(count)
        prefix_C, next_C = best.indices // count, best.indices % count
        total_C, chosen_CJ = best.values, torch.cat([chosen_CJ[prefix_C], word_C[next_C].unsqueeze(1)], dim=1)
    return chosen_CJ


def evidence_of(
    blocks: Sequence[Block],
    scores_K: Sequence[float],
    log_prior_K: Tensor,
    log_likelihood_K: Tensor,
    posterior_K: Tensor,
) -> tuple[FillingEvidence, ...]:
    """The null block and `blocks` with their figures, ranked by posterior."""
    utility_K = retrieval_utility(log_likelihood_K, log_likelihood_K[0])
    read = zip(
        (None, *blocks),
        log_prior_K.exp().tolist(),
        log_likelihood_K.exp().tolist(),
        posterior_K.tolist(),
        utility_K.tolist(),
        scores_K,
        strict=True,
    )
    return FillingEvidence.ranked(sorted(read, key=lambda one: one[0].block_id if one[0] else ""))
