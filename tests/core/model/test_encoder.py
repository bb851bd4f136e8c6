"""The encoder of masked sentences equals transformers' BERT with its masked-language head."""

from __future__ import annotations

import pytest
import torch

from realm_core.model.encoder import Encoder
from realm_core.model.packed import Packed
from tests.core.model.plain import log_words, plain_masked_words
from tests.core.model.small import VOCABULARY, small_bert

IDS = [[3, 9, 27, 5], [8, 2], [7, 7, 1, 30, 12, 44, 6]]
SEGMENTS = [[0, 0, 1, 1], [0, 0], [0, 0, 0, 1, 1, 1, 1]]
# Places in all thirteen wordpieces, and the same as (sequence, place).
MASKED = [1, 3, 4, 12, 6]
PLACES = [(0, 1), (0, 3), (1, 0), (2, 6), (2, 0)]


@pytest.fixture
def encoder() -> Encoder:
    encoder = Encoder(small_bert(seed=3)).eval()
    with torch.no_grad():
        for parameter in encoder.head.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(parameter.numel())))
    return encoder


def test_log_probabilities_equal_those_of_transformers(encoder: Encoder) -> None:
    plain = plain_masked_words(encoder)
    with torch.no_grad():
        log_MV = encoder(Packed.of(IDS, SEGMENTS), torch.tensor(MASKED))
    assert log_MV.shape == (5, VOCABULARY) and log_MV.dtype == torch.float32
    for log_V, (sequence, place) in zip(log_MV, PLACES, strict=True):
        wanted_1V = log_words(plain, IDS[sequence], SEGMENTS[sequence], [place])
        torch.testing.assert_close(log_V, wanted_1V[0], rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(log_MV.exp().sum(1), torch.ones(5))


def test_other_packed_sequences_change_nothing(encoder: Encoder) -> None:
    with torch.no_grad():
        together = encoder(Packed.of(IDS, SEGMENTS), torch.tensor([4, 5]))
        alone = encoder(Packed.of(IDS[1:2], SEGMENTS[1:2]), torch.tensor([0, 1]))
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-4)


def test_the_decoder_is_the_word_embeddings(encoder: Encoder) -> None:
    hidden = torch.randn(4, 16, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        before = encoder.word_logits(hidden)
        encoder.bert.embeddings.word_embeddings.weight[7].zero_()
        after = encoder.word_logits(hidden)
    changed = (before != after).any(0)
    assert changed.nonzero().flatten().tolist() == [7]
    torch.testing.assert_close(after[:, 7], encoder.head.bias[7].expand(4))  # nothing but the word's bias is left
    matrices = [name for name, parameter in encoder.head.named_parameters() if parameter.dim() > 1]
    assert matrices == ["dense.weight"]


def test_gradients_reach_every_layer_and_the_head(encoder: Encoder) -> None:
    log_MV = encoder(Packed.of(IDS, SEGMENTS), torch.tensor(MASKED))
    (-log_MV[:, 11].sum()).backward()
    without = {name for name, p in encoder.named_parameters() if p.grad is None or not p.grad.any()}
    # A key's bias adds the same to all scores of a query, so that attention does not depend on it.
    assert {name for name in without if not name.endswith("key.bias")} == set()
