"""One step of fine-tuning, end to end: retrieve from the frozen matrix, read the best k, two marginals.

    loss = −log Σ_{z correct, z in beam} softmax_beam f(x, z)               retriever
           −log Σ_{z in top k} Σ_{s correct} p(s | z, x) p(z | x)            reader, in the model's normalisation
           + pairs · mean over the k of −log p(correct spans, or "not here")  so that "not here" means something

The first two are the released recipe (paper, section 3.3; ORQA's early and main loss); each is zero where nothing is
correct. Regular expressions have to be matched in a block before it is known to be correct, so then the beam is at
most the `examined` best blocks of the moment. Gradients reach the reader and the query embedder; block vectors never
change, so an index stays valid. If BM25 ranked the blocks, f is its scores: the first term is constant, and only the
reader is trained.

Legend: B questions, N blocks, R ranked, K read, S spans of a block (longest body × M), D dimension, M widest span.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from realm_core.arrays import Array
from realm_core.model.config import ModelConfig
from realm_core.model.device import fast_dtype
from realm_core.model.embedder import Embedder
from realm_core.model.joiner import Joiner, Pieces
from realm_core.model.marginal import log_answer_marginal, log_reading, log_retriever_marginal, mean_over_possible
from realm_core.model.packed import Packed
from realm_core.model.reader import Bodies, Reader, by_block
from realm_core.text.wordpieces import Wordpieces
from realm_core.training.config import FinetuneConfig
from realm_core.training.occurrences import Expressions, Occurrences, continues


@dataclass(frozen=True)
class Ranking:
    """A question's best blocks by another retriever. scores_R: prior logits, highest first."""

    rows_R: Array
    scores_R: Array


@dataclass(frozen=True)
class Supervised:
    """A question to train on. ids: its wordpieces; group: the question set that it comes from; text: for messages.

    ranking: its blocks, if the query embedder does not retrieve. expressions: for answers that are regular
    expressions, which are matched in blocks that `occurrences` does not cover.
    """

    ids: list[int]
    occurrences: Occurrences
    group: str
    ranking: Ranking | None = None
    expressions: Expressions | None = None
    text: str = ""

    def within(self, rows_R: Array, excluded_N: Array) -> Occurrences:
        """Where its answers occur in these blocks, and perhaps in others."""
        if self.expressions is None:
            return self.occurrences
        return self.expressions.within(rows_R[~excluded_N[rows_R]].tolist())


@dataclass(frozen=True)
class ReadBatch:
    """The reader's output for a batch. rows_BK: blocks; correct_BKS: spans that read an answer."""

    rows_BK: Array
    scores_BK: Tensor
    logits_BKS: Tensor
    correct_BKS: Tensor


class FinetuneStep(nn.Module):
    """The trainable modules and the computation of a batch of questions.

    matrix_ND: block vectors, float32; None if every question brings its ranking. excluded_N: bool, blocks that are
    never retrieved.
    """

    def __init__(
        self,
        config: ModelConfig,
        query: Embedder,
        reader: Reader,
        joiner: Joiner,
        matrix_ND: Tensor | None,
        excluded_N: Tensor,
        settings: FinetuneConfig,
    ) -> None:
        super().__init__()
        self.query, self.reader = query, reader
        self._config, self._joiner = config, joiner
        self._matrix_ND, self._excluded_N = matrix_ND, excluded_N
        self._unread_N: Array = excluded_N.cpu().numpy()
        self._k = min(settings.k, int((~excluded_N).sum()))  # more than that would retrieve excluded blocks
        self._settings = settings
        self._autocast = fast_dtype(joiner.device) == torch.bfloat16
        self._continues_V = torch.tensor(continues(Wordpieces.default()), device=joiner.device)

    def forward(self, batch: Sequence[Supervised]) -> tuple[Tensor, dict[str, float]]:
        """The loss of a batch, and its figures."""
        scores_BN = self._scores(batch)
        retriever_loss, retrievable = mean_over_possible(self._log_retrieved(scores_BN, batch))
        read = self.read(batch, scores_BN, supply=self._settings.supply)
        weight, likelihood, _null = log_reading(read.logits_BKS, read.scores_BK, self._config.normalisation)
        log_answer_B = log_answer_marginal(weight, likelihood, read.correct_BKS)
        reader_loss, readable = mean_over_possible(log_answer_B)
        pair_loss = _pair_loss(read)
        # A batch without any correct block has loss zero; the mean over none would divide by zero.
        retriever_loss, reader_loss = retriever_loss * (retrievable / len(batch)), reader_loss * (readable / len(batch))
        loss = retriever_loss + reader_loss
        # The marginals skip NaN; a model that diverged must not appear to have no loss.
        sound = (scores_BN < math.inf).all() & (read.logits_BKS < math.inf).all()
        loss = torch.where(sound, loss + self._settings.pairs * pair_loss, math.nan)
        return loss, {
            "retriever_loss": retriever_loss.item(),
            "reader_loss": reader_loss.item(),
            "pair_loss": pair_loss.item(),
            "answerable": readable.item() / len(batch),
            "sequences": len(batch),
        }

    @torch.no_grad()
    def figures(self, batch: Sequence[Supervised]) -> list[dict[str, bool]]:
        """For each question: is a correct block among the best 1, 5 and 20, and is the best span correct?"""
        scores_BN = self._scores(batch)
        best_BK = scores_BN.topk(min(20, scores_BN.shape[1])).indices.cpu().numpy()
        read = self.read(batch, scores_BN, supply=False)
        weight, likelihood, _null = log_reading(read.logits_BKS, read.scores_BK, self._config.normalisation)
        spans_BS = (weight.unsqueeze(-1) + likelihood).flatten(1)
        right_B = read.correct_BKS.flatten(1).gather(1, spans_BS.argmax(1, keepdim=True)).squeeze(1).tolist()
        results = []
        for question, best_K, right in zip(batch, best_BK, right_B, strict=True):
            hits_K = np.isin(best_K, question.within(best_K, self._unread_N).rows_O)
            results.append({"span": right, **{f"recall@{k}": bool(hits_K[:k].any()) for k in (1, 5, 20)}})
        return results

    def read(self, batch: Sequence[Supervised], scores_BN: Tensor, *, supply: bool) -> ReadBatch:
        """Read the k best blocks of each question."""
        best_BK = scores_BN.detach().topk(self._k).indices.cpu().numpy()
        if supply:
            self._supply_correct(best_BK, scores_BN, batch)
        rows_BK = torch.from_numpy(best_BK).to(scores_BN.device)
        logits_NM, lengths = self._span_logits(batch, best_BK)
        widest = logits_NM.shape[1]
        logits_PS = by_block(logits_NM, lengths)
        correct_PS = torch.zeros_like(logits_PS, dtype=torch.bool)
        places = self._correct(batch, best_BK, lengths, widest)
        if len(places[0]):
            pairs, spans = (torch.from_numpy(part).to(logits_PS.device) for part in places)
            correct_PS[pairs, spans] = True
        correct_PS &= torch.isfinite(logits_PS)
        shape = (*best_BK.shape, logits_PS.shape[1])
        return ReadBatch(best_BK, scores_BN.gather(1, rows_BK), logits_PS.view(shape), correct_PS.view(shape))

    def _scores(self, batch: Sequence[Supervised]) -> Tensor:
        """f(x, z) [B, N] of every block, with a gradient to the query embedder."""
        if self._matrix_ND is None:
            return self._ranked(batch)
        device = self._joiner.device
        queries = Pieces.of([question.ids for question in batch], device)
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=self._autocast):
            query_BD = self.query(self._joiner.queries(queries))
        scores_BN: Tensor = query_BD.float() @ self._matrix_ND.T  # float32: the loss depends on small differences
        return scores_BN.masked_fill(self._excluded_N, -math.inf)

    def _ranked(self, batch: Sequence[Supervised]) -> Tensor:
        """Scores [B, N] of rankings. Blocks beyond a ranking get its last score, an upper bound."""
        scores_BN = torch.empty(len(batch), len(self._excluded_N), device=self._excluded_N.device)
        for own_N, question in zip(scores_BN, batch, strict=True):
            assert question.ranking is not None
            scores_R = torch.from_numpy(question.ranking.scores_R).to(own_N.device)
            own_N.fill_(scores_R[-1])
            own_N[torch.from_numpy(question.ranking.rows_R).to(own_N.device)] = scores_R
        return scores_BN.masked_fill(self._excluded_N, -math.inf)

    def _log_retrieved(self, scores_BN: Tensor, batch: Sequence[Supervised]) -> Tensor:
        """log of the retriever's marginal over the correct blocks of the beam [B]."""
        correct_BN = torch.zeros_like(scores_BN, dtype=torch.bool)
        unknown_BN = torch.zeros_like(correct_BN)
        for number, question in enumerate(batch):
            occurrences = question.occurrences
            if question.expressions is not None:
                examined_R = scores_BN[number].detach().topk(min(self._settings.examined, scores_BN.shape[1])).indices
                unknown_BN[number] = True
                unknown_BN[number, examined_R] = False
                occurrences = question.within(examined_R.cpu().numpy(), self._unread_N)
            blocks = torch.from_numpy(occurrences.blocks().astype(np.int64)).to(scores_BN.device)
            correct_BN[number, blocks] = True
        if any(question.expressions is not None for question in batch):
            scores_BN = scores_BN.masked_fill(unknown_BN, -math.inf)
        if 0 < self._settings.beam < scores_BN.shape[1]:
            beam_BK = scores_BN.detach().topk(self._settings.beam).indices
            return log_retriever_marginal(scores_BN.gather(1, beam_BK), correct_BN.gather(1, beam_BK))
        return log_retriever_marginal(scores_BN, correct_BN)

    def _supply_correct(self, best_BK: Array, scores_BN: Tensor, batch: Sequence[Supervised]) -> None:
        for number, question in enumerate(batch):
            correct = question.occurrences.blocks()
            read = question.within(best_BK[number], self._unread_N).rows_O
            if len(correct) and not np.isin(best_BK[number], read).any():
                rows = torch.from_numpy(correct.astype(np.int64)).to(scores_BN.device)
                best_BK[number, -1] = correct[int(scores_BN[number].detach()[rows].argmax())]

    def _span_logits(self, batch: Sequence[Supervised], rows_BK: Array) -> tuple[Tensor, tuple[int, ...]]:
        device = self._joiner.device
        queries = Pieces.of([question.ids for question in batch], device).repeated(rows_BK.shape[1])
        pairs, first_P, length_P = self._joiner.readings(
            queries, rows_BK.reshape(-1), self._config.reader_wordpieces, title=self._config.reader_title
        )
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=self._autocast):
            logits_NM: Tensor = self.reader(pairs, self._bodies(pairs, first_P, length_P))
        return logits_NM.float(), tuple(length_P.tolist())

    def _bodies(self, pairs: Packed, first_P: Array, length_P: Array) -> Bodies:
        """The positions of the bodies, from vocabulary and lengths alone."""
        device = self._joiner.device
        total = int(length_P.sum())
        starts_P = np.cumsum(length_P) - length_P
        table = torch.from_numpy(np.stack([first_P - starts_P, starts_P + length_P, length_P])).to(device)
        owner_N = torch.repeat_interleave(torch.arange(len(length_P), device=device), table[2], output_size=total)
        place_N = torch.arange(total, device=device)
        positions_N = place_N + table[0][owner_N]
        room_N = table[1][owner_N] - place_N
        begins_N = ~self._continues_V[pairs.ids_T[positions_N]]
        # A word ends where the next wordpiece starts another one, or at the end of the body.
        ends_N = torch.cat([begins_N[1:], begins_N.new_ones(1)]) | (room_N == 1)
        return Bodies(positions_N, room_N, begins_N, ends_N, tuple(length_P.tolist()))

    def _correct(
        self, batch: Sequence[Supervised], rows_BK: Array, lengths: tuple[int, ...], widest: int
    ) -> tuple[Array, Array]:
        """(pairs, indices in S) of every correct span that was read completely."""
        pairs, spans = [], []
        for number, question in enumerate(batch):
            occurrences = question.within(rows_BK[number], self._unread_N)
            for rank, row in enumerate(rows_BK[number].tolist()):
                first_O, last_O = (part.astype(np.int64) for part in occurrences.of(row))
                pair = number * rows_BK.shape[1] + rank
                fits = (last_O < lengths[pair]) & (last_O - first_O < widest)
                spans.append((first_O * widest + last_O - first_O)[fits])
                pairs.append(np.full(int(fits.sum()), pair, np.int64))
        return np.concatenate(pairs), np.concatenate(spans)


def _pair_loss(read: ReadBatch) -> Tensor:
    """Mean over all pairs of −log p(correct spans), or of "not here" where there are none, under `block+null`."""
    logits_P1S = read.logits_BKS.flatten(0, 1).unsqueeze(1)
    correct_P1S = read.correct_BKS.flatten(0, 1).unsqueeze(1)
    weight, likelihood, null = log_reading(logits_P1S, logits_P1S.new_zeros(len(logits_P1S), 1), "block+null")
    assert null is not None
    # "Not here" is one more outcome beside the spans, correct where no span is.
    readings = torch.cat([likelihood, null.unsqueeze(-1)], dim=-1)
    right = torch.cat([correct_P1S, ~correct_P1S.any(-1, keepdim=True)], dim=-1)
    return -log_answer_marginal(weight, readings, right).mean()
