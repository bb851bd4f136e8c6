"""The masked-language warm-up: what is hidden and how, what is learnt, and resuming."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from realm_core.corpus.store import Snapshot
from realm_core.corpus.tokens import open_tokens
from realm_core.errors import RealmError
from realm_core.index.generation import Generation
from realm_core.index.retriever import check_manifest_fits
from realm_core.model.checkpoint import load_model, new_encoder, save_model
from realm_core.model.encoder import Encoder
from realm_core.model.joiner import Joiner
from realm_core.model.packed import Packed
from realm_core.text.wordpieces import Wordpieces
from realm_core.training import mlm
from realm_core.training.mlm import MlmStep, hide
from tests.core.model.plain import log_words, plain_masked_words
from tests.core.running import activity_of, metrics
from tests.core.training.towns import QUIET, TEXTS, Towns
from tests.tiny import tiny_snapshot

WORDPIECES = Wordpieces.default()
SPECIAL = (WORDPIECES.cls_id, WORDPIECES.sep_id)
LEARNING: dict[str, Any] = {
    "steps": 60,
    "batch": 8,
    "at_once": 8,
    "learning_rate": 2e-2,
    "dropout": 0.0,
    "holdout": 0.2,
    "checkpoint_every": 20,
}


@pytest.fixture(scope="module")
def blocks(towns: Towns) -> Packed:
    """join(z) of every town, ten times over."""
    snapshot = Snapshot.open(towns.corpus)
    joiner = Joiner(open_tokens(snapshot, QUIET), torch.device("cpu"))
    return joiner.blocks(np.tile(np.arange(len(snapshot)), 10), 288)


# ── What is hidden ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("share", [0.15, 0.5])
def test_of_what_is_hidden_80_percent_are_masks_10_other_words_and_10_stay(blocks: Packed, share: float) -> None:
    shown, hidden_M = hide(blocks, share, np.random.default_rng(1))
    ids_T, new_T = blocks.ids_T, shown.ids_T
    open_T = ~torch.isin(ids_T, torch.tensor(SPECIAL))
    total, count = int(open_T.sum()), len(hidden_M)
    assert total > 10_000

    def near(times: int, of: int, law: float) -> bool:
        return abs(times / of - law) < 5 * math.sqrt(law * (1 - law) / of)

    assert near(count, total, share)
    assert open_T[hidden_M].all() and len(hidden_M.unique()) == count
    masks = int((new_T[hidden_M] == WORDPIECES.mask_id).sum())
    same = int((new_T[hidden_M] == ids_T[hidden_M]).sum())
    assert near(masks, count, 0.8) and near(same, count, 0.1) and near(count - masks - same, count, 0.1)
    others = new_T[hidden_M][(new_T[hidden_M] != WORDPIECES.mask_id) & (new_T[hidden_M] != ids_T[hidden_M])]
    assert others.min() >= 1996 and others.max() < 30522  # words, and no special tokens
    assert len(others.unique()) > 0.9 * len(others)
    untouched_T = torch.ones_like(open_T)
    untouched_T[hidden_M] = False
    assert torch.equal(new_T[untouched_T], ids_T[untouched_T])
    assert (shown.lengths, shown.segments_T is blocks.segments_T) == (blocks.lengths, True)


def test_what_is_hidden_follows_from_the_draw(blocks: Packed) -> None:
    (first, places), (again, same), (other, _) = (hide(blocks, 0.15, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert torch.equal(first.ids_T, again.ids_T) and torch.equal(places, same)
    assert not torch.equal(first.ids_T, other.ids_T)


def test_something_is_always_hidden() -> None:
    short = Packed.of([[WORDPIECES.cls_id, 2054, 2003, WORDPIECES.sep_id]])
    places = [hide(short, 0.01, np.random.default_rng(seed))[1].tolist() for seed in range(30)]
    assert {len(own) for own in places} == {1} and {own[0] for own in places} == {1, 2}


def test_the_loss_is_of_the_hidden_words_alone(towns: Towns, blocks: Packed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mlm, "fast_dtype", lambda device: torch.float32)
    encoder = load_model(towns.model).encoder
    assert encoder is not None
    some = Packed.of(
        [part.tolist() for part in blocks.ids_T.split(blocks.lengths)[:3]],
        [part.tolist() for part in blocks.segments_T.split(blocks.lengths)[:3]],
    )
    shown, hidden_M = hide(some, 0.15, np.random.default_rng(4))
    with torch.no_grad():  # one hidden word is guessed right wherever it stands
        encoder.head.bias[some.ids_T[hidden_M[0]]] += 10.0
        loss, right, hidden = MlmStep(encoder, 0.15, torch.device("cpu"))(some, np.random.default_rng(4))
    plain = plain_masked_words(encoder)
    sequences = zip(shown.ids_T.split(shown.lengths), shown.segments_T.split(shown.lengths), strict=True)
    log_TV = torch.cat(
        [log_words(plain, ids.tolist(), segments.tolist(), range(len(ids))) for ids, segments in sequences]
    )
    truth_M = some.ids_T[hidden_M]
    assert loss.item() == pytest.approx(-log_TV[hidden_M, truth_M].mean().item(), rel=1e-4)
    assert hidden == len(truth_M)
    assert right == int((log_TV[hidden_M].argmax(-1) == truth_M).sum()) and 0 < right < hidden


# ── The training ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def headless(towns: Towns) -> Path:
    """A model that has no encoder yet."""
    folder = towns.root / "headless"
    save_model(replace(load_model(towns.model), encoder=None), folder)
    return folder


@pytest.fixture(scope="module")
def learnt(towns: Towns, headless: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mlm")
    words = [*towns.warm_up(folder / "made", LEARNING), "--model", headless]
    activity_of("mlm", words, run=folder / "run")
    return folder


def test_the_loss_falls_in_training(learnt: Path) -> None:
    losses = metrics(learnt / "run", "mlm.loss")
    assert list(losses) == [10, 20, 30, 40, 50, 60] and losses[60] < 0.7 * losses[10]
    held_out, accuracies = (metrics(learnt / "run", f"mlm.held_out.{name}") for name in ("loss", "accuracy"))
    assert list(held_out) == [20, 40, 60] and held_out[60] < 0.8 * held_out[20]
    assert accuracies[60] > 0.3


def test_words_count_alike_however_they_are_cut_into_parts(
    towns: Towns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts: list[tuple[float, int, int]] = []
    learnt: list[tuple[int, int]] = []
    forward = MlmStep.forward

    def watched(step: MlmStep, *given: Any) -> tuple[torch.Tensor, int, int]:
        loss, _, hidden = forward(step, *given)
        right = min(hidden, 3)  # a model that learnt nothing would have none
        if step.encoder.training:
            learnt.append((right, hidden))
        else:
            parts.append((loss.item(), right, hidden))
        return loss, right, hidden

    monkeypatch.setattr(MlmStep, "forward", watched)
    settings = LEARNING | {"steps": 1, "at_once": 3, "checkpoint_every": 1}
    activity_of("mlm", towns.warm_up(tmp_path / "made", settings), run=tmp_path / "run")
    words = [loss for loss, _, hidden in parts for _ in range(hidden)]
    assert len({hidden for *_, hidden in parts}) > 1
    assert metrics(tmp_path / "run", "mlm.held_out.loss")[1] == pytest.approx(sum(words) / len(words))
    rights = sum(right for _, right, _ in parts)
    assert metrics(tmp_path / "run", "mlm.held_out.accuracy")[1] == pytest.approx(rights / len(words))
    assert len({hidden for _, hidden in learnt}) > 1
    share = sum(right for right, _ in learnt) / sum(hidden for _, hidden in learnt)
    assert metrics(tmp_path / "run", "mlm.accuracy")[1] == pytest.approx(share)


def test_the_model_gains_an_encoder_whose_decoder_is_the_word_embeddings(headless: Path, learnt: Path) -> None:
    before, after = load_model(headless), load_model(learnt / "made")
    assert before.encoder is None and isinstance(after.encoder, Encoder)
    for name in ("query", "block", "reader"):
        old, new = before.parts()[name].state_dict(), after.parts()[name].state_dict()
        assert all(torch.equal(old[key], new[key]) for key in old)
    stored = {name for name in load_file(learnt / "made" / "model.safetensors") if name.startswith("encoder.")}
    assert "encoder.bert.encoder.layer.0.attention.self.query.weight" in stored
    # The embeddings stay the base's, and with them the decoder.
    assert not any("embeddings" in name for name in stored)
    assert {name for name in stored if "head" in name} == {
        f"encoder.head.{name}" for name in ("dense.weight", "dense.bias", "norm.weight", "norm.bias", "bias")
    }
    begun = new_encoder(after.config, seed=1).head.state_dict()
    assert all(not torch.equal(begun[name], tensor) for name, tensor in after.encoder.head.state_dict().items())


def test_indexes_built_before_stay_right(towns: Towns, headless: Path, learnt: Path) -> None:
    snapshot, index = Snapshot.open(towns.corpus), Generation.open(towns.index)
    check_manifest_fits(load_model(learnt / "made"), index.manifest, snapshot)


def test_a_model_with_an_encoder_goes_on_with_it(towns: Towns, tmp_path: Path) -> None:
    settings = LEARNING | {"steps": 1, "checkpoint_every": 1, "learning_rate": 1e-9, "holdout": 0.0}
    activity_of("mlm", towns.warm_up(tmp_path / "made", settings), run=tmp_path / "run")
    before, after = load_model(towns.model).encoder, load_model(tmp_path / "made").encoder
    assert before is not None and after is not None
    torch.testing.assert_close(after.head.dense.weight, before.head.dense.weight, rtol=0, atol=1e-6)


def test_the_result_tells_recipe_and_figures(learnt: Path) -> None:
    result = json.loads((learnt / "run" / "result.json").read_text())
    model = load_model(learnt / "made")
    assert (result["path"], result["model_hash"]) == (str(learnt / "made"), model.hash)
    assert result["held_out"].keys() == {"loss", "accuracy"}
    assert result["passages"]["learnt"] > result["passages"]["held_out"] > 0
    assert model.about is not None and "masked-language warm-up from" in model.about["recipe"][-1]
    assert not (learnt / "run" / "mlm").exists()


def test_a_corpus_that_is_all_held_out_is_refused(towns: Towns, tmp_path: Path) -> None:
    corpus = tiny_snapshot(tmp_path, dict(list(TEXTS.items())[:1]))
    words = [*towns.warm_up(tmp_path / "made", LEARNING | {"holdout": 0.9}), "--corpus", corpus]
    with pytest.raises(RealmError, match=f"{corpus} holds no blocks to train on besides those held out"):
        activity_of("mlm", words, run=tmp_path / "run")
