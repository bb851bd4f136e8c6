"""Masked sentences for pre-training: one passage, one of its sentences, some of its wordpieces masked.

    salient  one salient span of the sentence, whole (paper, section 3.4); at most 10 wordpieces
    uniform  15 % of the sentence's wordpieces, drawn independently, at most 10; each becomes [MASK] (the paper's
             ablation)
    span     a run of wordpieces whose length is drawn as in SpanBERT: geometric, p = 0.2, at most 10 (ablation)

All three draw the same passages and sentences for a step, so ablations differ only in the masks. Batches depend only on
the seed and the step's number.

Legend: B examples, J masks of an example.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from realm_core.arrays import Array
from realm_core.corpus.store import Snapshot
from realm_core.corpus.tokens import text_hash
from realm_core.salient.cache import SalientSpans
from realm_core.text.masked import MOST_MASKS
from realm_core.text.wordpieces import Wordpieces
from realm_core.training.config import PretrainConfig

_UNIFORM_SHARE = 0.15
_SPAN_STOP = 0.2
_DRAWS = 4  # a span may be too long or start within a wordpiece; then another span of the passage is drawn


@dataclass(frozen=True)
class MaskedSentences:
    """A batch. queries: ids with [MASK]; masks: their positions in the query; targets: the masked ids.

    passage_hashes_B: uint64, the text hash of the passage that each sentence came from.
    """

    queries: list[list[int]]
    masks: list[list[int]]
    targets: list[list[int]]
    passage_hashes_B: Array

    def __len__(self) -> int:
        return len(self.queries)

    def part(self, which: slice) -> MaskedSentences:
        return MaskedSentences(
            self.queries[which], self.masks[which], self.targets[which], self.passage_hashes_B[which]
        )


class MaskedBatches:
    """Draws masked sentences.

    passages: indices into spans.rows_N to draw from.
    """

    def __init__(
        self, snapshot: Snapshot, spans: SalientSpans, passages: Sequence[int], config: PretrainConfig
    ) -> None:
        self._snapshot, self._spans, self._passages = snapshot, spans, list(passages)
        self._config, self._limit = config, config.query_wordpieces - 2  # without [CLS] and [SEP]
        self._wordpieces = Wordpieces.default()
        self._epoch, self._order = -1, self._passages

    def __call__(self, step: int) -> MaskedSentences:
        """The batch of a step. Each epoch has a new order; a batch may span two epochs."""
        first = step * self._config.batch
        chosen = [self._passage(number) for number in range(first, first + self._config.batch)]
        return self.masked(chosen, random.Random(f"{self._config.seed} masks {step}"))

    def masked(self, passages: Sequence[int], draw: random.Random) -> MaskedSentences:
        """A masked sentence of each passage; passages without a span that can be masked are omitted."""
        spans, texts, places = [], [], []
        for passage in passages:
            passage_spans = range(self._spans.first_N1[passage], self._spans.first_N1[passage + 1])
            drawn = [self._spans.spans_M5[draw.choice(passage_spans)].tolist() for _ in range(_DRAWS)]
            spans.append(drawn)
            texts.append(self._snapshot.block(drawn[0][0]).text)
            places.append([place for span in drawn for place in (span[1], span[2] - 1, span[3], span[4] - 1)])
        queries, masks, targets, hashes = [], [], [], []
        for text, (ids, found) in zip(texts, self._wordpieces.ids_and_places(texts, places), strict=True):
            # The draws of one example do not depend on how many another one took.
            example_draw = random.Random(draw.getrandbits(64))
            masked_sentence = self._sentence(ids, found, example_draw)
            if masked_sentence is not None:
                query, hidden = masked_sentence
                queries.append([self._wordpieces.mask_id if i in set(hidden) else one for i, one in enumerate(query)])
                masks.append(hidden)
                targets.append([query[i] for i in hidden])
                hashes.append(text_hash(text))
        return MaskedSentences(queries, masks, targets, np.array(hashes, np.uint64))

    def _passage(self, number: int) -> int:
        epoch, position = divmod(number, len(self._passages))
        if epoch != self._epoch:
            self._order = list(self._passages)
            random.Random(f"{self._config.seed} passages {epoch}").shuffle(self._order)
            self._epoch = epoch
        return self._order[position]

    def _sentence(
        self, ids: list[int], places: list[int | None], draw: random.Random
    ) -> tuple[list[int], list[int]] | None:
        """(sentence, masks) of the first drawn span that can be masked."""
        for first, last, start, end in zip(places[::4], places[1::4], places[2::4], places[3::4], strict=True):
            if first is None or last is None or start is None or end is None or not 0 <= last - first < MOST_MASKS:
                continue
            if end + 1 - start > self._limit:  # a long sentence is cut to a window around the span
                start = min(max(start, (first + last - self._limit) // 2), end + 1 - self._limit)
                end = start + self._limit - 1
            query = ids[start : end + 1]
            return query, self._hidden(len(query), range(first - start, last + 1 - start), draw)
        return None

    def _hidden(self, length: int, span: range, draw: random.Random) -> list[int]:
        if self._config.masking == "salient":
            return list(span)
        if self._config.masking == "uniform":
            count = min(length, MOST_MASKS, max(1, round(_UNIFORM_SHARE * length)))
            return sorted(draw.sample(range(length), count))
        width = 1
        while width < min(MOST_MASKS, length) and draw.random() >= _SPAN_STOP:
            width += 1
        first = draw.randrange(length - width + 1)
        return list(range(first, first + width))
