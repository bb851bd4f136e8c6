"""One step of pre-training, written out by hand: what is read, the loss, its gradients, and its figures."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from realm_core.corpus.tokens import text_hash
from realm_core.errors import RealmError
from realm_core.index.generation import Generation
from realm_core.model.embedder import Embedder
from realm_core.model.encoding import BertModule
from realm_core.model.packed import Packed
from realm_core.text.joins import join_block
from realm_core.training import pretrain_step
from realm_core.training.live_index import LiveIndex
from realm_core.training.masking import MaskedSentences
from realm_core.training.pretrain_step import NULL, Filled, reported
from tests.core.model import formulas
from tests.core.model.plain import PlainEmbedder
from tests.core.training.scene import BLOCK_LIMIT, CPU, WORDPIECES, K, Scene, by_hand, joined, live, make_scene
from tests.core.training.towns import TEXTS, Towns
from tests.tiny import tiny_snapshot

MakeScene = Callable[..., Scene]


@pytest.fixture
def scene(towns: Towns, monkeypatch: pytest.MonkeyPatch) -> MakeScene:
    """Makes a scene; in float32, so that it can be compared with what is computed otherwise."""
    monkeypatch.setattr(pretrain_step, "fast_dtype", lambda device: torch.float32)
    return partial(make_scene, towns)


def watched(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> list[Filled]:
    """What the step fills from now on; gradients of the scores are kept."""
    seen: list[Filled] = []
    fill = scene.step.fill

    def watching(batch: MaskedSentences, index: LiveIndex) -> Filled:
        filled = fill(batch, index)
        filled.scores_BK.retain_grad()
        seen.append(filled)
        return filled

    monkeypatch.setattr(scene.step, "fill", watching)
    return seen


# ── The loss and its figures ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("title", [False, True])
@pytest.mark.parametrize("per_token", [False, True])
def test_the_loss_is_that_of_paper_or_release(
    scene: MakeScene, monkeypatch: pytest.MonkeyPatch, per_token: bool, title: bool
) -> None:
    made = scene(per_token=per_token, title=title)
    seen = watched(made, monkeypatch)
    loss = made.step(made.batch, made.index)[0]
    hand = by_hand(made, seen[0].rows_BK, title=title)
    assert {len(one.token_KJ[0]) for one in hand} == {1, 2}
    sentences = [(one.prior_K, one.token_KJ, [True] * len(one.token_KJ[0])) for one in hand]
    assert loss.item() == pytest.approx(formulas.masked_loss(sentences, per_token=per_token), rel=1e-4)
    priors = torch.tensor([one.prior_K for one in hand])
    torch.testing.assert_close(seen[0].scores_BK.detach().softmax(1), priors, rtol=1e-3, atol=1e-5)
    assert 0.01 < priors[:, 0].mean() < 0.95 and priors[:, 1:].std() > 0.01  # not all the same


def test_the_two_losses_differ(scene: MakeScene) -> None:
    paper, release = (scene(per_token=per_token) for per_token in (False, True))
    assert paper.step(paper.batch, paper.index)[0] > 1.1 * release.step(release.batch, release.index)[0]


def test_figures_are_what_they_are_called(scene: MakeScene, monkeypatch: pytest.MonkeyPatch) -> None:
    made = scene()
    with torch.no_grad():  # so that some words are guessed right, and some of them by other blocks alone
        for targets in made.batch.targets[:3]:
            made.encoder.head.bias[targets] += 6.0
    seen = watched(made, monkeypatch)
    loss, figures = made.step(made.batch, made.index)
    hand = by_hand(made, seen[0].rows_BK)
    truth = list(chain.from_iterable(made.batch.targets))
    guesses = chain.from_iterable(one.words_J for one in hand)
    null_guesses = chain.from_iterable(one.null_words_J for one in hand)
    accuracies = [
        np.mean([guess == word for guess, word in zip(own, truth, strict=True)]) for own in (guesses, null_guesses)
    ]
    assert min(accuracies) > 0 and max(accuracies) < 1
    utilities = [[math.log(likelihood / one.likelihood_K[0]) for likelihood in one.likelihood_K[1:]] for one in hand]
    null_tokens = [math.log(probability) for one in hand for probability in one.token_KJ[0]]
    assert reported(figures) == {
        "accuracy": pytest.approx(accuracies[0]),
        "accuracy_without": pytest.approx(accuracies[1]),
        "utility": pytest.approx(np.mean(utilities), abs=1e-3),
        "utility_best": pytest.approx(np.mean([max(own) for own in utilities]), abs=1e-3),
        "null_share": pytest.approx(np.mean([one.prior_K[0] for one in hand]), rel=1e-3),
        "prior_entropy": pytest.approx(np.mean([-sum(p * math.log(p) for p in one.prior_K) for one in hand]), rel=1e-3),
        "log_likelihood": pytest.approx(-loss.item(), rel=1e-4),
        "log_likelihood_without": pytest.approx(sum(null_tokens) / 6, rel=1e-3),
        "perplexity": pytest.approx(math.exp(-np.mean(null_tokens)), rel=1e-3),
    }


def test_a_word_is_guessed_by_all_blocks_together_each_with_its_weight(
    scene: MakeScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = scene()
    with torch.no_grad():
        made.embedder.norm.weight.fill_(0.25)  # no block decides alone
    seen = watched(made, monkeypatch)
    counts_B = [len(targets) for targets in made.batch.targets]
    # In the order of sentences, blocks and masks, half of the blocks are sure of the truth, half of another word.
    truth_M = torch.tensor([target for targets in made.batch.targets for _ in range(K) for target in targets])
    says_M = torch.rand(len(truth_M), generator=torch.Generator().manual_seed(4)) < 0.5
    guess_M = torch.where(says_M, truth_M, truth_M + 1)
    sure_MV = 30.0 * torch.nn.functional.one_hot(guess_M, WORDPIECES.vocabulary_size).float()
    monkeypatch.setattr(made.encoder, "word_logits", lambda hidden_MW: sure_MV)
    figures = made.step(made.batch, made.index)[1]
    weighed, counted, without = [], [], []
    for prior_K, says_KJ in zip(
        seen[0].scores_BK.detach().softmax(1), says_M.split([K * count for count in counts_B]), strict=True
    ):
        for says_K in says_KJ.view(K, -1).T:
            weighed.append(float(prior_K[says_K].sum()) > 0.5)
            counted.append(float(says_K.float().mean()) > 0.5)
            without.append(bool(says_K[0]))
    shown = reported(figures)
    assert shown["accuracy"] == pytest.approx(np.mean(weighed))
    assert shown["accuracy_without"] == pytest.approx(np.mean(without))
    assert len({np.mean(weighed), np.mean(without), np.mean(counted)}) == 3  # the draw tells the three apart


@pytest.mark.parametrize("per_token", [False, True])
def test_a_batch_worked_off_in_parts_has_the_same_loss(scene: MakeScene, per_token: bool) -> None:
    made = scene(per_token=per_token)
    parts = [made.batch.part(slice(0, 4)), made.batch.part(slice(4, 6))]
    masks = [sum(len(own) for own in part.masks) for part in parts]
    assert masks[0] != 2 * masks[1]
    weights = masks if per_token else [4, 2]
    assert [made.step.weight(part) for part in parts] == weights
    losses = [made.step(part, made.index)[0].item() for part in parts]
    whole = made.step(made.batch, made.index)[0].item()
    assert np.average(losses, weights=weights) == pytest.approx(whole, rel=1e-5)


# ── Gradients ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_retrievers_gradient_is_posterior_minus_prior(scene: MakeScene, monkeypatch: pytest.MonkeyPatch) -> None:
    made = scene()
    seen = watched(made, monkeypatch)
    made.step(made.batch, made.index)[0].backward()
    gradient_BK = seen[0].scores_BK.grad
    assert gradient_BK is not None
    support_BK = torch.tensor([one.support_K for one in by_hand(made, seen[0].rows_BK)])
    assert (support_BK.abs().amax(1) > 1e-3).all()
    # The loss is −log p(y|x), averaged over six sentences.
    torch.testing.assert_close(-6 * gradient_BK, support_BK, rtol=1e-2, atol=1e-5)


def test_finite_differences_of_the_scores_agree(scene: MakeScene, monkeypatch: pytest.MonkeyPatch) -> None:
    made = scene()
    with torch.no_grad():
        filled = made.step.fill(made.batch, made.index)

    def loss(shift_BK: Tensor) -> float:
        scores_BK = filled.scores_BK.double() + shift_BK
        moved = replace(filled, scores_BK=scores_BK, log_token_BKJ=filled.log_token_BKJ.double())
        monkeypatch.setattr(made.step, "fill", lambda batch, index: moved)
        return float(made.step(made.batch, made.index)[0])

    for sentence, one in enumerate(by_hand(made, filled.rows_BK)):
        for rank, support in enumerate(one.support_K):
            shift_BK = torch.zeros(6, K, dtype=torch.float64)
            shift_BK[sentence, rank] = 1e-4
            slope = 6 * (loss(shift_BK) - loss(-shift_BK)) / 2e-4
            assert -slope == pytest.approx(support, rel=1e-2, abs=1e-5)


def test_finite_differences_of_the_parameters_agree(scene: MakeScene, monkeypatch: pytest.MonkeyPatch) -> None:
    made = scene()
    with torch.no_grad():
        rows_BK = made.step.fill(made.batch, made.index).rows_BK
    monkeypatch.setattr(pretrain_step, "nearest_others", lambda *_: rows_BK[:, 1:])  # the search has no gradient
    made.step(made.batch, made.index)[0].backward()
    for part in (made.embedder, made.encoder.bert, made.encoder.head):
        gradients = [(parameter, parameter.grad) for parameter in part.parameters() if parameter.grad is not None]
        norm = math.sqrt(sum(float(gradient.square().sum()) for _, gradient in gradients))

        def loss_at(
            distance: float, gradients: list[tuple[nn.Parameter, Tensor]] = gradients, norm: float = norm
        ) -> float:
            """The loss that far along the gradient."""
            with torch.no_grad():
                for parameter, gradient in gradients:
                    parameter.add_(gradient, alpha=distance / norm)
                loss = float(made.step(made.batch, made.index)[0])
                for parameter, gradient in gradients:
                    parameter.sub_(gradient, alpha=distance / norm)
            return loss

        assert (loss_at(5e-4) - loss_at(-5e-4)) / 1e-3 == pytest.approx(norm, rel=0.05)


class Detached(nn.Module):
    """An embedder without gradient through one of its two calls, of sentences (0) and of blocks (1)."""

    def __init__(self, embedder: Embedder, side: int | None) -> None:
        super().__init__()
        self.embedder, self.side, self.calls = embedder, side, 0

    def forward(self, batch: Packed) -> Tensor:
        vectors_BD: Tensor = self.embedder(batch)
        self.calls += 1
        return vectors_BD.detach() if self.calls - 1 == self.side else vectors_BD


def test_gradients_reach_the_embedder_through_sentences_and_through_blocks(scene: MakeScene) -> None:
    def gradient(side: int | None) -> Tensor:
        made = scene()
        detached = Detached(made.embedder, side)
        made.step.embedder = detached  # type: ignore[assignment]
        made.step(made.batch, made.index)[0].backward()
        assert detached.calls == 2
        gradients = (parameter.grad for parameter in detached.parameters())
        return torch.cat([gradient.flatten() for gradient in gradients if gradient is not None])

    through_blocks, through_sentences, through_both = gradient(0), gradient(1), gradient(None)
    for one in (through_blocks, through_sentences):
        assert one.norm() > 0.01 * through_both.norm()
    torch.testing.assert_close(through_blocks + through_sentences, through_both, rtol=1e-3, atol=1e-5)


def test_gradients_reach_every_layer_of_embedder_and_encoder(scene: MakeScene) -> None:
    made = scene()
    made.step(made.batch, made.index)[0].backward()
    for part in (made.embedder, made.encoder):
        without = {name for name, p in part.named_parameters() if p.grad is None or not p.grad.any()}
        assert {name for name in without if not name.endswith("key.bias")} == set()


# ── What is read ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_null_block_comes_first_and_is_nothing_but_special_tokens(
    scene: MakeScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = scene()
    read: list[Packed] = []
    encode = BertModule.encode

    def watching(self: BertModule, packed: Packed) -> Tensor:
        read.append(packed)
        return encode(self, packed)

    monkeypatch.setattr(BertModule, "encode", watching)
    filled = made.step.fill(made.batch, made.index)
    assert (filled.rows_BK[:, 0] == NULL).all() and (filled.rows_BK[:, 1:] >= 0).all()
    sentences, blocks, pairs = ([ids.tolist() for ids in one.ids_T.split(one.lengths)] for one in read)
    cls, sep = WORDPIECES.cls_id, WORDPIECES.sep_id
    assert sentences == [[cls, *query, sep] for query in made.batch.queries]
    assert blocks[0] == [cls, sep, sep]
    assert len(blocks) == len(np.unique(filled.rows_BK))  # a block that several sentences retrieved is embedded once
    assert pairs[::K] == [[cls, *query, sep, sep] for query in made.batch.queries]
    assert [cls, sep, sep] not in blocks[1:] and all(len(pair) == 40 for i, pair in enumerate(pairs) if i % K)


def test_scores_are_of_the_present_parameters(scene: MakeScene) -> None:
    made = scene()
    with torch.no_grad():
        made.embedder.dense.weight.add_(torch.randn(16, 32, generator=torch.Generator().manual_seed(2)), alpha=0.2)
        filled = made.step.fill(made.batch, made.index)
    embed = PlainEmbedder(made.embedder)
    for query, rows, scores in zip(made.batch.queries, filled.rows_BK.tolist(), filled.scores_BK.tolist(), strict=True):
        query_D = embed(joined(query))
        for row, score in zip(rows[1:], scores[1:], strict=True):
            block = made.snapshot.block(row)
            join_z = join_block(WORDPIECES, [block.title], [block.text], BLOCK_LIMIT)[0]
            assert score == pytest.approx(float(query_D @ embed(join_z.ids, join_z.segments)), rel=1e-3, abs=1e-3)
            assert abs(score - float(query_D @ made.vectors_ND[row])) > 1e-2  # what the index says


def queries_of(made: Scene) -> Tensor:
    embed = PlainEmbedder(made.embedder)
    return torch.stack([embed(joined(query)) for query in made.batch.queries])


def found(made: Scene) -> list[list[int]]:
    with torch.no_grad():
        rows: list[list[int]] = made.step.fill(made.batch, made.index).rows_BK[:, 1:].tolist()
    return rows


def own_rows(made: Scene) -> list[list[int]]:
    """For each sentence, the blocks that have its passage's text."""
    hashes = [text_hash(text) for text in made.snapshot.titles_texts(0, len(made.snapshot))[1]]
    return [[row for row, one in enumerate(hashes) if one == own] for own in made.batch.passage_hashes_B.tolist()]


def test_the_best_blocks_of_the_index_are_read_in_order(scene: MakeScene) -> None:
    made = scene()
    scores_BN = queries_of(made) @ made.vectors_ND.T
    read = found(made)
    for scores_N, own, rows in zip(scores_BN, own_rows(made), read, strict=True):
        scores_N[own] = -math.inf
        assert rows == scores_N.argsort(descending=True)[: K - 1].tolist()
    assert len({tuple(rows) for rows in read}) > 1


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_sentence_never_reads_its_own_passage(scene: MakeScene, tmp_path: Path, elsewhere: bool) -> None:
    """X = Z; and another corpus that holds each passage twice, under other titles."""
    copies = {f"{copy} {title}": text for title, text in TEXTS.items() for copy in ("The old", "The new")}
    made = scene(tiny_snapshot(tmp_path, copies) if elsewhere else None)
    own = own_rows(made)
    assert {len(rows) for rows in own} == ({2} if elsewhere else {1})
    vectors_ND = torch.randn(len(made.snapshot), 16, generator=torch.Generator().manual_seed(0))
    queries_BD = queries_of(made)
    for rows, query_D in zip(own, queries_BD, strict=True):
        vectors_ND[rows] = 50 * query_D  # nothing else comes near
    made = replace(made, index=live(vectors_ND))
    best = made.index.search(queries_BD, 1)[0].flatten().tolist()
    assert set(best) <= set(chain.from_iterable(own))
    for rows, read in zip(own, found(made), strict=True):
        assert len(set(read)) == K - 1 and not set(rows) & set(read)


def test_many_copies_of_the_own_passage_leave_other_blocks_to_read(scene: MakeScene, tmp_path: Path) -> None:
    text = TEXTS["Town 0"]
    others = {f"Town {i}": TEXTS[f"Town {i}"] for i in range(1, K)}
    made = scene(tiny_snapshot(tmp_path, {f"Copy {i}": text for i in range(30)} | others))
    ids = WORDPIECES.ids(["Another bridge stood there in 1500."])[0]
    made = replace(made, batch=MaskedSentences([ids], [[5]], [[ids[5]]], np.array([text_hash(text)], np.uint64)))
    vectors_ND = torch.zeros(len(made.snapshot), 16)
    vectors_ND[:30] = 50 * queries_of(made)[0]
    assert sorted(found(replace(made, index=live(vectors_ND)))[0]) == [30, 31, 32]


def test_too_small_a_corpus_is_refused(scene: MakeScene) -> None:
    assert all(len(set(rows)) == 39 for rows in found(scene(k=40)))  # the null block and the 39 other towns
    made = scene(k=41)
    with pytest.raises(RealmError, match=r"too few different blocks: it must have 40 besides .* Lower k"):
        made.step(made.batch, made.index)


class Remembering(LiveIndex):
    """An index that remembers what it was asked and what it said."""

    def __init__(self, vectors_ND: Tensor) -> None:
        super().__init__(Generation("made up", {}, vectors_ND), 0, 0.0, CPU)
        self.asked_BD = self.said_BK = torch.empty(0)

    def search(self, queries_BD: Tensor, k: int) -> tuple[Tensor, Tensor]:
        rows_BK, self.said_BK = super().search(queries_BD, k)
        self.asked_BD = queries_BD
        return rows_BK, self.said_BK


def test_the_search_is_exact_where_the_model_computes_in_bfloat16(
    scene: MakeScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pretrain_step, "fast_dtype", lambda device: torch.bfloat16)
    made = scene()
    index = Remembering(made.vectors_ND)
    made.step(made.batch, index)
    exact_BN = index.asked_BD.double() @ made.vectors_ND.double().T
    best_BK = exact_BN.topk(index.said_BK.shape[1]).values
    torch.testing.assert_close(index.said_BK.double(), best_BK, rtol=1e-5, atol=1e-5)
