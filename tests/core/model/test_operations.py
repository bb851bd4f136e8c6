"""Computed FLOPs equal those that torch counts for the real modules."""

from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import BertModel

from realm_core.model.bert import Architecture, Bert
from realm_core.model.embedder import Embedder
from realm_core.model.encoder import Encoder
from realm_core.model.operations import PretrainingWork, encoder_flops, encoder_training_flops
from tests.core.model.plain import plain_config

CONFIG = Architecture(
    vocab_size=50,
    hidden_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=96,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
)
LENGTHS = (7, 19)


def bert() -> BertModel:
    """transformers', because torch can see the products of its plain attention."""
    made = BertModel(plain_config(CONFIG), add_pooling_layer=False)
    made.embeddings.requires_grad_(False)
    return made


def hidden(model: BertModel, length: int) -> torch.Tensor:
    states: torch.Tensor = model(input_ids=torch.ones(1, length, dtype=torch.long)).last_hidden_state[0]
    return states


def test_operations_of_inference() -> None:
    model = bert()
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        for length in LENGTHS:
            hidden(model, length)
    assert encoder_flops(CONFIG, LENGTHS) == counter.get_total_flops()


def test_operations_of_training() -> None:
    model = bert()
    with FlopCounterMode(display=False) as counter:
        for length in LENGTHS:
            hidden(model, length).sum().backward()
    assert encoder_training_flops(CONFIG, LENGTHS) == counter.get_total_flops()


@pytest.mark.parametrize("masks", [1, 5])
def test_operations_of_a_pretraining_step(masks: int) -> None:
    embedder, encoder = Embedder(Bert(CONFIG), 8, "mean"), Encoder(Bert(CONFIG))
    encoder.bert.embeddings.requires_grad_(False)
    of_embedder, of_encoder = bert(), bert()
    work = PretrainingWork(queries=(5,), blocks=(11, 13), pairs=(16, 18), masks=2 * masks, dimension=8)
    with FlopCounterMode(display=False) as counter:
        vectors = [
            embedder.project(hidden(of_embedder, n).mean(0, keepdim=True)) for n in (*work.queries, *work.blocks)
        ]
        states = torch.cat([hidden(of_encoder, n)[:masks] for n in work.pairs])
        (torch.cat(vectors).sum() + encoder.word_logits(states).sum()).backward()
    assert work.flops(CONFIG) == counter.get_total_flops()
