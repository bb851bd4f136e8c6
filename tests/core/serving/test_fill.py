"""Filling masked sentences: against a computation by hand, and with arbitrary input."""

from __future__ import annotations

import gc
import itertools
import json
import math
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import realm_core.serving.engine
from realm_core.__main__ import main
from realm_core.corpus.store import Snapshot
from realm_core.corpus.tokens import open_tokens
from realm_core.errors import RealmError
from realm_core.model.checkpoint import Model, load_model
from realm_core.model.joiner import Joiner, Pieces
from realm_core.model.packed import Packed
from realm_core.runs.activity import Activity
from realm_core.serving.engine import Engine
from realm_core.serving.filled import Filling
from realm_core.serving.mask_reading import best_guesses, likeliest, masked_sentence
from realm_core.settings import MAX_K
from realm_core.text.masked import MOST_MASKS
from realm_core.text.wordpieces import Wordpieces
from tests.core.by_hand import ByHand
from tests.core.conftest import Deployment
from tests.core.engines import engine_of
from tests.tiny import ARTICLES, tiny_filler

SENTENCES = [
    "Mars is the [MASK] planet from the Sun, and it has two moons.",
    "Marie Curie was born in [MASK] and discovered [MASK], a chemical element.",
    "[MASK]",
    "The Nile flows through [MASK] [MASK] [MASK] into the Mediterranean Sea.",
]


@pytest.fixture(scope="module")
def filler(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    root = tmp_path_factory.mktemp("filler")
    return Deployment(*tiny_filler(root), root)


@pytest.fixture(scope="module")
def precise(filler: Deployment) -> Iterator[Engine]:
    engine = engine_of(filler)
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def by_hand(filler: Deployment) -> ByHand:
    return ByHand(filler)


# ── The numbers ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("sentence", SENTENCES)
def test_the_numbers_equal_a_computation_by_hand(precise: Engine, by_hand: ByHand, sentence: str) -> None:
    filling = precise.fill(sentence, k=5)
    ids, prior_K, log_tokens_KJV = by_hand.fill(sentence, 5)
    assert {e.block_id: e.prior for e in filling.evidence} == pytest.approx(
        dict(zip(ids, prior_K, strict=True)), abs=1e-5
    )

    marginal_JV = np.einsum("k,kjv->jv", prior_K, np.exp(log_tokens_KJV))
    best = ids.index(filling.best_block_id)
    for j, mask in enumerate(filling.masks):
        for words, probability_V in (
            (mask.without_retrieval, np.exp(log_tokens_KJV[0, j])),
            (mask.best_block, np.exp(log_tokens_KJV[best, j])),
            (mask.marginal, marginal_JV[j]),
        ):
            highest = sorted(probability_V, reverse=True)[:5]
            assert [word.probability for word in words] == pytest.approx(highest, rel=1e-3)
            for word in words:
                own = probability_V[by_hand.tokenizer.token_to_id(word.text)]
                assert word.probability == pytest.approx(own, rel=1e-3)

    for guess in filling.guesses:
        token_J = [by_hand.tokenizer.token_to_id(word) for word in guess.words]
        likelihood_K = [math.exp(sum(log_JV[j, token] for j, token in enumerate(token_J))) for log_JV in log_tokens_KJV]
        assert guess.without_retrieval == pytest.approx(likelihood_K[0], rel=1e-3)
        assert guess.best_block == pytest.approx(likelihood_K[best], rel=1e-3)
        expected = sum(prior * likelihood for prior, likelihood in zip(prior_K, likelihood_K, strict=True))
        assert guess.marginal == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("truth", [None, "fourth"])
def test_the_numbers_add_up(precise: Engine, truth: str | None) -> None:
    filling = precise.fill(SENTENCES[0], k=6, truth=truth)
    check(filling, blocks=6)
    assert filling.explains == ("guess" if truth is None else "truth")
    assert filling.explained == (filling.guesses[0] if truth is None else filling.truth)
    again = precise.fill(SENTENCES[0], k=6)
    assert [g.text for g in filling.guesses] == [g.text for g in again.guesses]  # the truth is not told to the model


def check(filling: Filling, *, blocks: int) -> None:
    evidence, explained = filling.evidence, filling.explained
    assert len(evidence) == blocks and [e.rank for e in evidence] == list(range(1, blocks + 1))
    assert sum(e.prior for e in evidence) == pytest.approx(1, abs=1e-9)
    assert sum(e.posterior for e in evidence) == pytest.approx(1, abs=1e-9)
    assert sum(e.prior * e.likelihood for e in evidence) == pytest.approx(explained.marginal, rel=1e-9)
    assert [e.posterior for e in evidence] == sorted((e.posterior for e in evidence), reverse=True)
    (null,) = [e for e in evidence if e.block_id is None]
    assert (null.title, null.text, null.url, null.utility) == ("", "", "", 0.0)
    assert null.likelihood == pytest.approx(explained.without_retrieval)
    for e in evidence:
        assert e.posterior == pytest.approx(e.prior * e.likelihood / explained.marginal, rel=1e-9)
        assert e.utility == pytest.approx(math.log(e.likelihood) - math.log(null.likelihood), abs=1e-9)
    found = [e for e in evidence if e.block_id is not None]
    assert filling.best_block_id == (found[0].block_id if found else None)
    assert explained.best_block == (pytest.approx(found[0].likelihood) if found else None)
    assert [g.marginal for g in filling.guesses] == sorted((g.marginal for g in filling.guesses), reverse=True)
    assert len({g.words for g in filling.guesses}) == len(filling.guesses) == 5
    for mask in filling.masks:
        for words in (mask.without_retrieval, mask.best_block, mask.marginal):
            assert sum(word.probability for word in words) <= 1 + 1e-9
    if len(filling.masks) == 1:  # then a guess is a word
        assert [(g.words[0], g.marginal) for g in filling.guesses] == [
            (word.text, pytest.approx(word.probability)) for word in filling.masks[0].marginal
        ]
    json.dumps(filling.as_dict(), allow_nan=False)


@settings(max_examples=40)
@given(st.integers(1, 3), st.integers(2, 9), st.integers(0, 2**32 - 1))
def test_the_most_probable_fillings_of_a_block_are_exact(masks: int, count: int, seed: int) -> None:
    words = 10
    log_token_JV = torch.log_softmax(3 * torch.randn(masks, words, generator=_generator(seed)).double(), -1)
    every = {
        chosen: sum(log_token_JV[j, word].item() for j, word in enumerate(chosen))
        for chosen in itertools.product(range(words), repeat=masks)
    }
    found = [tuple(chosen) for chosen in likeliest(log_token_JV, count).tolist()]
    assert [every[chosen] for chosen in found] == pytest.approx(sorted(every.values(), reverse=True)[:count])


@settings(max_examples=25)
@given(st.integers(1, 2), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_the_first_guess_is_optimal_for_a_small_vocabulary(masks: int, blocks: int, seed: int) -> None:
    """Twenty words, one or two masks: few enough to try all."""
    draw = _generator(seed)
    log_prior_K = torch.log_softmax(torch.randn(blocks, generator=draw).double(), -1)
    log_token_KJV = torch.log_softmax(4 * torch.randn(blocks, masks, 20, generator=draw).double(), -1)
    marginal_JV = torch.logsumexp(log_prior_K.view(-1, 1, 1) + log_token_KJV, 0)
    guesses = [tuple(words) for words in best_guesses(log_prior_K, log_token_KJV, marginal_JV).tolist()]

    def probability(words: tuple[int, ...]) -> float:
        return sum(
            math.exp(log_prior_K[k].item() + sum(log_token_KJV[k, j, word].item() for j, word in enumerate(words)))
            for k in range(blocks)
        )

    found = [probability(words) for words in guesses]
    assert found == sorted(found, reverse=True)
    every = sorted((probability(words) for words in itertools.product(range(20), repeat=masks)), reverse=True)
    assert found[0] == pytest.approx(every[0])
    if masks == 1:
        assert found == pytest.approx(every[:5])


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


# ── What is read ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_encoders_input_is_that_of_pre_training(
    filler: Deployment, precise: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Packed] = []
    assert precise._masks is not None
    encoder = precise._masks._encoder
    encode = encoder.encode
    monkeypatch.setattr(encoder, "encode", lambda packed: read.append(packed) or encode(packed))
    filling = precise.fill(SENTENCES[1], k=4)

    snapshot = Snapshot.open(filler.corpus)
    joiner = Joiner(open_tokens(snapshot, Activity(quiet=True)), torch.device("cpu"))
    wordpieces = Wordpieces.default()
    between = wordpieces.ids(SENTENCES[1].split("[MASK]"))
    query = [*between[0], wordpieces.mask_id, *between[1], wordpieces.mask_id, *between[2]]
    ranked = sorted(filling.evidence, key=lambda e: (e.block_id is not None, -e.retriever_score))
    rows = np.array([-1 if e.block_id is None else snapshot.row_of(e.block_id) for e in ranked])
    expected = joiner.pairs(Pieces.of([query], joiner.device).repeated(4), rows, 384, title=False)
    (packed,) = read
    assert packed.lengths == expected.lengths
    for name in ("ids_T", "segments_T", "positions_T"):
        assert torch.equal(getattr(packed, name), getattr(expected, name))


def test_excluded_blocks_are_not_read(precise: Engine) -> None:
    first = [e.block_id for e in precise.fill(SENTENCES[0], k=4).evidence if e.block_id]
    filling = precise.fill(SENTENCES[0], k=4, exclude=[*first, "0" * 32, "nonsense"])
    check(filling, blocks=4)
    assert not set(first) & {e.block_id for e in filling.evidence}


def test_with_everything_excluded_only_the_null_block_is_read(precise: Engine) -> None:
    everything = [e.block_id for e in precise.fill("[MASK]", k=13).evidence if e.block_id]
    assert len(everything) == len(ARTICLES)
    filling = precise.fill(SENTENCES[1], k=4, exclude=everything)
    check(filling, blocks=1)
    assert filling.best_block_id is None and all(mask.best_block == () for mask in filling.masks)
    assert filling.guesses[0].marginal == pytest.approx(filling.guesses[0].without_retrieval)


def test_there_may_be_fewer_blocks_than_k(precise: Engine) -> None:
    check(precise.fill("[MASK]", k=MAX_K), blocks=len(ARTICLES) + 1)


@pytest.mark.parametrize(
    ("sentence", "k", "said"),
    [
        ("", 8, "The sentence is empty."),
        (" \n", 8, "The sentence is empty."),
        ("Nothing is hidden here.", 8, "The sentence has no [MASK]: write [MASK] where a word is missing."),
        ("[MASK] " * 11, 8, "At most 10 [MASK] can be filled; this sentence has 11."),
        ("long " * 94 + "[MASK]", 8, "The sentence is too long: it has 95 wordpieces, and at most 94 are allowed."),
        ("\ud800 [MASK]", 8, "not valid text"),
        ("[MASK]", 1, "k must be from 2 (a block besides the null block) to 50, not 1."),
        ("[MASK]", MAX_K + 1, "not 51."),
    ],
)
def test_errors_are_reported(precise: Engine, sentence: str, k: int, said: str) -> None:
    with pytest.raises(RealmError) as refused:
        precise.fill(sentence, k=k)
    assert said in str(refused.value)


def test_the_maximum_number_of_masks(precise: Engine) -> None:
    check(precise.fill("[MASK] " * MOST_MASKS, k=3), blocks=3)
    check(precise.fill("long " * 93 + "[MASK]", k=3), blocks=3)


@settings(max_examples=20)
@given(before=st.text(max_size=40), after=st.text(max_size=40))
def test_any_text_around_a_mask(precise: Engine, before: str, after: str) -> None:
    sentence = f"{before}[mask]{after}"
    try:
        sentence.encode()
    except UnicodeEncodeError:
        with pytest.raises(RealmError, match="not valid text"):
            precise.fill(sentence)
        return
    filling = precise.fill(sentence, k=3)
    check(filling, blocks=3)
    assert filling.sentence == sentence.strip()


# ── The truth ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_mask_is_repeated_for_each_wordpiece_of_the_truth(precise: Engine) -> None:
    filling = precise.fill("It was directed by Stanley [MASK].", truth=" Kubrick ")
    assert filling.sentence == "It was directed by Stanley [MASK] [MASK]."
    assert filling.truth is not None
    assert (filling.truth.words, filling.truth.text) == (("ku", "##brick"), "kubrick")
    same = precise.fill("It was directed by Stanley [MASK] [MASK].", truth="Kubrick")
    assert same.truth is not None and same.truth.words == filling.truth.words
    assert same.truth.marginal == pytest.approx(filling.truth.marginal, rel=1e-6)
    apart = precise.fill(SENTENCES[1], truth="Warsaw 1867")
    assert apart.truth is not None and apart.truth.text == "warsaw … 1867"


@pytest.mark.parametrize(
    ("sentence", "truth", "said"),
    [
        (SENTENCES[1], "Warsaw", "“Warsaw” and the 2 [MASK] do not match: it has 1 wordpieces (warsaw)"),
        (SENTENCES[0], "🪐", "the vocabulary has no wordpieces for it"),
        (SENTENCES[0], "\u200b", "the vocabulary has no wordpieces for it"),
        (SENTENCES[0], "  ", "The truth is empty."),
        (SENTENCES[0], "one two three four five six seven eight nine ten eleven", "this sentence has 11"),
    ],
)
def test_an_impossible_truth_is_refused(precise: Engine, sentence: str, truth: str, said: str) -> None:
    with pytest.raises(RealmError) as refused:
        precise.fill(sentence, truth=truth)
    assert said in str(refused.value)


def test_special_tokens_in_a_sentence_are_text() -> None:
    """Text that looks like another special token is tokenised as characters."""
    sentence = masked_sentence("[SEP] [MASK] [CLS]")
    wordpieces = Wordpieces.default()
    assert not {wordpieces.sep_id, wordpieces.cls_id} & set(sentence.ids)
    assert [i for i, one in enumerate(sentence.ids) if one == wordpieces.mask_id] == sentence.masks


# ── Models that cannot, and engines that can do both ────────────────────────────────────────────────────────────────


def test_without_an_encoder_the_reader_fills_the_gap(engine: Engine) -> None:
    """The answer to the sentence with “what” in place of the gap, with the same figures."""
    assert not engine.has_encoder
    filling = engine.fill("The largest planet is [MASK] [MASK].", k=4)
    answer = engine.ask("The largest planet is what.", k=3)
    assert filling.sentence == "The largest planet is [MASK]." and filling.filled_by == "reader"
    assert [(guess.text, guess.marginal) for guess in filling.guesses] == [
        (one.text, pytest.approx(one.probability, abs=1e-5)) for one in answer.answers[:5]
    ]
    assert len(filling.evidence) == 3
    assert math.fsum(block.prior for block in filling.evidence) == pytest.approx(1.0)
    assert math.fsum(block.posterior for block in filling.evidence) == pytest.approx(1.0)
    adds = math.fsum(block.prior * block.likelihood for block in filling.evidence)
    assert adds == pytest.approx(filling.guesses[0].marginal)
    assert filling.guesses[0].best_block == filling.evidence[0].likelihood


def test_the_readers_figures_of_a_truth(engine: Engine) -> None:
    second = engine.fill("The largest planet is [MASK].", k=4).guesses[1]
    filling = engine.fill("The largest planet is [MASK].", k=4, truth=second.text.upper())
    assert filling.explains == "truth" and filling.truth is not None and filling.explained is filling.truth
    assert filling.truth.marginal == pytest.approx(second.marginal, abs=1e-5)
    adds = math.fsum(block.prior * block.likelihood for block in filling.evidence)
    assert adds == pytest.approx(second.marginal, abs=1e-5)
    unsaid = engine.fill("The largest planet is [MASK].", k=4, truth="Xanadu")
    assert unsaid.truth is not None and unsaid.truth.marginal == 0.0
    assert unsaid.explains == "guess" and unsaid.explained is unsaid.guesses[0]


@pytest.mark.parametrize(
    ("sentence", "said"), [("No gap.", "has no"), ("In [MASK] to the [MASK].", "one gap at a time")]
)
def test_what_a_reader_cannot_fill(engine: Engine, sentence: str, said: str) -> None:
    with pytest.raises(RealmError, match=said):
        engine.fill(sentence)


def test_parts_that_only_filling_needs_are_kept_only_for_it(
    deployment: Deployment, filler: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[weakref.ref[Any]] = []

    def watched(folder: Path, *, frozen: torch.dtype) -> Model:
        model = load_model(folder, frozen=frozen)
        loaded.append(weakref.ref(model.block))
        return model

    monkeypatch.setattr(realm_core.serving.engine, "load_model", watched)
    asking, filling = engine_of(deployment), engine_of(filler)
    gc.collect()
    assert loaded[0]() is None and loaded[1]() is not None
    assert filling._masks is not None  # and the words, which no training changes, are in memory once
    parts = (filling._query, filling._masks._embedder, filling._masks._encoder)
    assert len({part.bert.embeddings.word_embeddings.weight.data_ptr() for part in parts}) == 1
    for one in (asking, filling):
        one.warm_up()
        one.close()


def test_questions_and_sentences_at_once(precise: Engine) -> None:
    alone = [precise.fill(sentence, k=3).guesses for sentence in SENTENCES]
    answer = precise.ask("How many moons has Mars?")
    with ThreadPoolExecutor(16) as pool:
        filled = [pool.submit(precise.fill, sentence, k=3) for sentence in SENTENCES * 3]
        asked = [pool.submit(precise.ask, "How many moons has Mars?") for _ in range(6)]
        for number, future in enumerate(filled):
            expected = alone[number % len(SENTENCES)]
            assert [g.marginal for g in future.result(60).guesses] == pytest.approx([g.marginal for g in expected])
        for other in asked:
            assert other.result(60).answers[0].text == answer.answers[0].text


def test_a_sentence_that_fails_fails_alone(precise: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert precise._masks is not None
    read = precise._masks.read

    def failing(sentence: Any, blocks: Any) -> Any:
        if "bad" in sentence.text:
            raise MemoryError("no room for this one")
        return read(sentence, blocks)

    monkeypatch.setattr(precise._masks, "read", failing)
    with ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(precise.fill, f"{word} [MASK]") for word in ("one", "bad", "two")]
        assert [futures[i].result(60).sentence for i in (0, 2)] == ["one [MASK]", "two [MASK]"]
        with pytest.raises(MemoryError, match="no room"):
            futures[1].result(60)


# ── On the command line ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def no_signals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Signal handlers of this process belong to pytest."""
    monkeypatch.setattr(Activity, "stop_on_signals", lambda self: None)


@pytest.mark.usefixtures("no_signals")
def test_the_command_line_prints_the_engines_result(
    filler: Deployment, precise: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fill", SENTENCES[0], *filler.arguments(), "--k", "4", "--truth", "fourth"]) == 0
    printed = json.loads(capsys.readouterr().out)
    expected = precise.fill(SENTENCES[0], k=4, truth="fourth").as_dict()
    assert printed.keys() == expected.keys() and printed["sentence"] == SENTENCES[0]
    assert printed["truth"]["words"] == ["fourth"] and len(printed["evidence"]) == 4


@pytest.mark.usefixtures("no_signals")
def test_the_command_line_reports_errors(deployment: Deployment, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fill", "In [MASK] to the [MASK].", *deployment.arguments(), "--quiet"]) == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith("error: The model fills one gap at a time")
