"""MPNet as a Bert equals transformers' MPNet, with BERT's wordpieces."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import MPNetConfig, MPNetModel

from realm_core.errors import RealmError
from realm_core.model.base import base_architecture, base_bert
from realm_core.model.bert import relative_bucket
from realm_core.model.device import fast_dtype
from realm_core.model.inference import InferenceEncoder
from realm_core.model.packed import Packed, encode

BERT_WORDS = 30522
CLS, SEP, MASK, UNKNOWN = 101, 102, 103, 100
LENGTHS = (5, 40, 150, 1)


def mpnet_id(word: int) -> int:
    return {CLS: 0, SEP: 2, MASK: BERT_WORDS + 4, UNKNOWN: 3, 0: 1}.get(word, word + 4)


@pytest.fixture(scope="module")
def plain() -> MPNetModel:
    """transformers' MPNet with random weights that are large enough for every part to matter."""
    torch.manual_seed(3)
    config = MPNetConfig(
        vocab_size=BERT_WORDS + 5,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=96,
        max_position_embeddings=202,
        layer_norm_eps=1e-5,
    )
    model = MPNetModel(config, add_pooling_layer=False).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(10)
    return model


@pytest.fixture(scope="module")
def base(plain: MPNetModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mpnet")
    plain.save_pretrained(folder)
    return folder


def sequences() -> list[list[int]]:
    draw = torch.Generator().manual_seed(1)
    drawn = [torch.randint(104, BERT_WORDS, (length,), generator=draw).tolist() for length in LENGTHS]
    return [[CLS, MASK, UNKNOWN, *words, SEP] for words in drawn]


def wanted(plain: MPNetModel) -> torch.Tensor:
    with torch.inference_mode():
        each = [plain(torch.tensor([[mpnet_id(word) for word in ids]])).last_hidden_state[0] for ids in sequences()]
    return torch.cat(each)


def test_it_is_transformers_mpnet(plain: MPNetModel, base: Path) -> None:
    bert = base_bert(str(base))
    assert (bert.config.vocab_size, bert.config.max_position_embeddings) == (BERT_WORDS, 200)
    with torch.inference_mode():
        assert torch.allclose(encode(bert, Packed.of(sequences())), wanted(plain), atol=1e-5)


@pytest.mark.parametrize("int8", [False, True])
def test_inference_stays_close(plain: MPNetModel, base: Path, int8: bool) -> None:
    bert = base_bert(str(base)).to(dtype=fast_dtype(torch.device("cpu")))
    if not InferenceEncoder.supports(bert, int8=int8):
        pytest.skip("this machine's processor never uses the encoder so")
    encoder = InferenceEncoder(bert, int8=int8)
    with torch.inference_mode():
        cosine_T = torch.nn.functional.cosine_similarity(encoder(Packed.of(sequences())).float(), wanted(plain))
    assert cosine_T.mean() > 0.97


def test_near_keys_have_own_buckets_and_far_ones_share_the_last() -> None:
    buckets = relative_bucket(torch.tensor([0, -1, 1, -7, 7, -8, -127, -500, 500]), 32).tolist()
    assert buckets[:5] == [0, 1, 17, 7, 23]
    assert buckets[5:] == [8, 15, 15, 31]


def test_damage_is_named(base: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes((base / "config.json").read_bytes())
    weights = load_file(base / "model.safetensors")
    del weights["embeddings.word_embeddings.weight"]
    save_file(weights, tmp_path / "model.safetensors")
    with pytest.raises(RealmError, match=r"model\.safetensors: the tensor 'embeddings\.word_embeddings\.weight'"):
        base_bert(str(tmp_path))
    (tmp_path / "config.json").write_text('{"model_type": "mpnet", "vocab_size": 3, "max_position_embeddings": 9}')
    with pytest.raises(RealmError, match="vocab_size of an MPNet"):
        base_architecture(str(tmp_path))
