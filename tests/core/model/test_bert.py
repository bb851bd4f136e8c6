"""BERT equals that of transformers: names, shapes, initial weights, states and gradients, in float64."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import Tensor
from transformers import BertConfig, BertModel

from realm_core.errors import RealmError
from realm_core.model.base import base_bert
from realm_core.model.bert import ACTIVATIONS, Architecture, Bert
from realm_core.model.packed import Packed, encode
from realm_core.training.loop import no_dropout_in_attention
from tests.core.model.plain import plain_bert, plain_config
from tests.core.model.small import VOCABULARY, padded_hidden, small_bert

ARCHITECTURES = (
    Architecture(vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=4, intermediate_size=32),
    Architecture(vocab_size=7, hidden_size=6, num_hidden_layers=1, num_attention_heads=1, intermediate_size=5),
    Architecture(
        vocab_size=11,
        hidden_size=12,
        num_hidden_layers=3,
        num_attention_heads=3,
        intermediate_size=8,
        max_position_embeddings=9,
        type_vocab_size=3,
        initializer_range=0.5,
    ),
)
Sequences = tuple[list[list[int]], list[list[int]]]


def drawn(lengths: list[int]) -> Sequences:
    """Wordpieces, including [PAD], and segments of sequences of these lengths."""
    draw = torch.Generator().manual_seed(sum(lengths))
    ids = [torch.randint(VOCABULARY, (length,), generator=draw).tolist() for length in lengths]
    return ids, [torch.randint(2, (length,), generator=draw).tolist() for length in lengths]


def pair(**changed: Any) -> tuple[Bert, BertModel]:
    """Ours and transformers' with the same weights, in float64."""
    small = small_bert()
    ours = Bert(replace(small.config, **changed)).eval()
    ours.load_state_dict(small.state_dict())
    ours.double()
    return ours, plain_bert(ours)


def assert_equal_computation(ours: Bert, theirs: BertModel, sequences: Sequences) -> None:
    """States, and gradients of a loss in which every state has a weight of its own."""
    batch = Packed.of(*sequences)
    states = encode(ours, batch), torch.cat(padded_hidden(*sequences, theirs))
    torch.testing.assert_close(*states, rtol=1e-10, atol=1e-10)
    weights_TW = torch.randn(states[0].shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    for states_TW in states:
        (states_TW * weights_TW).sum().backward()
    expected = dict(theirs.named_parameters())
    for name, parameter in ours.named_parameters():
        torch.testing.assert_close(parameter.grad, expected[name].grad, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_weights_have_the_names_shapes_and_values_that_transformers_gives_them(architecture: Architecture) -> None:
    torch.manual_seed(4)
    ours = Bert(architecture).state_dict()
    torch.manual_seed(4)
    theirs = BertModel(plain_config(architecture), add_pooling_layer=False).state_dict()
    assert list(ours) == list(theirs)  # in this order, and no buffers
    for name, tensor in ours.items():
        torch.testing.assert_close(tensor, theirs[name], rtol=0, atol=0, msg=name)


@settings(max_examples=15)
@given(st.lists(st.integers(1, 20), min_size=1, max_size=5))
def test_states_and_gradients_are_those_of_transformers(lengths: list[int]) -> None:
    assert_equal_computation(*pair(), drawn(lengths))


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_every_activation_is_that_of_transformers(activation: str) -> None:
    ours, theirs = pair(hidden_act=activation)
    assert_equal_computation(ours, theirs, drawn([9, 4]))
    others = [encode(pair(hidden_act=name)[0], Packed.of(*drawn([9, 4]))) for name in ACTIVATIONS]
    own = encode(ours, Packed.of(*drawn([9, 4])))
    assert sum(torch.allclose(own, other, rtol=1e-7, atol=1e-7) for other in others) == 1  # so that the test can tell


def test_norms_use_the_epsilon_that_they_are_given() -> None:
    ours, theirs = pair(layer_norm_eps=0.5)
    assert_equal_computation(ours, theirs, drawn([6]))


def test_in_training_hidden_states_are_dropped_as_in_transformers() -> None:
    both = pair()
    sequences = drawn([12])
    states = []
    for bert in both:
        no_dropout_in_attention(bert.train(), 0.3)
        torch.manual_seed(2)
        states.append(
            encode(bert, Packed.of(*sequences)) if isinstance(bert, Bert) else padded_hidden(*sequences, bert)[0]
        )
    torch.testing.assert_close(*states, rtol=1e-10, atol=1e-10)
    assert not torch.allclose(states[0], encode(both[0].eval(), Packed.of(*sequences)), atol=0.1)


def test_attention_is_dropped_in_training_alone_and_not_where_it_is_switched_off() -> None:
    bert = pair(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.5)[0]
    batch = Packed.of(*drawn([12, 5]))

    def once() -> Tensor:
        return encode(bert, batch).detach()

    exact = once()
    bert.train()
    assert not torch.allclose(once(), exact, atol=0.1)
    no_dropout_in_attention(bert, 0.0)
    assert torch.equal(once(), exact)


# ── Architectures ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_default_is_that_of_transformers() -> None:
    theirs = BertConfig()
    own = asdict(Architecture())
    assert own.pop("relative_attention_num_buckets") == 0  # MPNet's, which BERT does not have
    assert own == {name: getattr(theirs, name) for name in own}


def test_other_keys_of_a_config_are_ignored() -> None:
    written = BertConfig(hidden_size=24, num_attention_heads=2, hidden_act="relu", hidden_dropout_prob=0).to_dict()
    wanted = Architecture(hidden_size=24, num_attention_heads=2, hidden_act="relu", hidden_dropout_prob=0)
    assert Architecture.of(written | {"surprise": []}) == wanted


IMPOSSIBLE: list[tuple[dict[str, Any], str]] = [
    *(
        ({key: wrong}, rf"{key} must be a whole number from 1 to [\d,]+, not ")
        for key in (
            *("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"),
            *("max_position_embeddings", "type_vocab_size"),
        )
        for wrong in (0, -1, 1.5, 16.0, "16", None, True, 10**30)
    ),
    (
        {"hidden_size": 10, "num_attention_heads": 4},
        "num_attention_heads must divide hidden_size, 10, which 4 does not",
    ),
    *(
        ({"hidden_act": wrong}, "hidden_act must be one of gelu, gelu_new, relu, not ")
        for wrong in ("silu", None, ["a"])
    ),
    *(
        ({key: wrong}, f"{key} must be a number from 0 up to 1, not ")
        for key in ("hidden_dropout_prob", "attention_probs_dropout_prob")
        for wrong in (-0.1, 1, math.nan, "0.1", None, False)
    ),
    *(
        ({key: wrong}, f"{key} must be a number above 0 and at most 1, not ")
        for key in ("layer_norm_eps", "initializer_range")
        for wrong in (0, -1e-12, math.inf, math.nan, "1e-12", None, True)
    ),
]


@pytest.mark.parametrize(("config", "said"), IMPOSSIBLE)
def test_an_impossible_architecture_is_refused_by_its_key(config: dict[str, Any], said: str) -> None:
    with pytest.raises(RealmError, match=f"^{said}"):
        Architecture.of(config)


# ── Weights that a base brings along ────────────────────────────────────────────────────────────────────────────────


def write_base(folder: Path, config: object, tensors: dict[str, Tensor]) -> str:
    (folder / "config.json").write_text(json.dumps(config))
    save_file(tensors, folder / "model.safetensors")
    return str(folder)


def test_a_base_is_read_as_written(tmp_path: Path) -> None:
    bert = small_bert()
    base = base_bert(write_base(tmp_path, asdict(bert.config), {**bert.state_dict(), "other": torch.zeros(1)}))
    assert base.config == bert.config and not base.training
    for name, tensor in base.state_dict().items():
        assert torch.equal(tensor, bert.state_dict()[name])


WEIGHT = "encoder.layer.1.output.dense.weight"


def test_a_base_that_contradicts_its_config_is_refused(tmp_path: Path) -> None:
    bert = small_bert()
    config, tensors = asdict(bert.config), bert.state_dict()

    def refused(said: str, config: object = config, tensors: dict[str, Tensor] = tensors) -> None:
        with pytest.raises(RealmError, match=said):
            base_bert(write_base(tmp_path, config, tensors))

    refused(r"config\.json is not an architecture: a JSON object is expected", config=[1])
    refused(r"config\.json: hidden_act must be one of", config=config | {"hidden_act": "swish"})
    refused(
        rf"model\.safetensors has no tensor '{WEIGHT}'",
        tensors={name: tensor for name, tensor in tensors.items() if name != WEIGHT},
    )
    refused(
        r"intermediate\.dense\.weight has shape \(32, 16\), not \(40, 16\)", config=config | {"intermediate_size": 40}
    )


@pytest.mark.parametrize(
    ("base", "said"),
    [('{"hidden_size"', " is not valid JSON: Expecting"), ('{"hidden_size": 7}', ": num_attention_heads must divide")],
)
def test_an_invalid_architecture_as_base_is_refused(base: str, said: str) -> None:
    with pytest.raises(RealmError, match=rf"^The base '\{base}'{said}"):
        base_bert(base)


def test_an_architecture_alone_has_weights_of_zero() -> None:
    bert = base_bert(json.dumps(asdict(ARCHITECTURES[1])))
    assert bert.config == ARCHITECTURES[1]
    assert not any(parameter.any() for parameter in bert.parameters())
