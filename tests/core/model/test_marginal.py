"""Every formula against an independent one, and the sums that must hold for any scores."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from realm_core.model import marginal
from tests.core.model import formulas

INF = math.inf
NORMALISATIONS = ["block", "joint", "block+null"]
Scores = tuple[list[list[float]], list[float]]


def double(values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def close(tensor: Tensor, values: object) -> bool:
    return torch.allclose(tensor.double(), double(values), rtol=1e-9, atol=1e-12)


@st.composite
def scored(draw: st.DrawFn, *, spans_everywhere: bool = False) -> Scores:
    """(span logits K × S with gaps, relevance scores K)."""
    blocks, spans = draw(st.integers(1, 5)), draw(st.integers(1, 6))
    number = st.floats(-30, 30)
    logits = [draw(st.lists(number | st.just(-INF), min_size=spans, max_size=spans)) for _ in range(blocks)]
    if spans_everywhere:
        logits = [[row[0] if row[0] > -INF else 0.0, *row[1:]] for row in logits]
    return logits, draw(st.lists(number, min_size=blocks, max_size=blocks))


def distributions(blocks: int) -> st.SearchStrategy[list[float]]:
    return st.lists(st.floats(1e-6, 1.0), min_size=blocks, max_size=blocks).map(
        lambda weights: [weight / math.fsum(weights) for weight in weights]
    )


@st.composite
def explained(draw: st.DrawFn) -> tuple[list[float], list[float]]:
    """(relevance scores, likelihoods of one answer), of 2 to 6 blocks."""
    blocks = draw(st.integers(2, 6))
    scores = draw(st.lists(st.floats(-8, 8), min_size=blocks, max_size=blocks))
    return scores, draw(st.lists(st.floats(1e-4, 1.0), min_size=blocks, max_size=blocks))


# ── Reading ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("normalisation", NORMALISATIONS)
@given(case=scored())
def test_reading_is_the_formula(normalisation: marginal.Normalisation, case: Scores) -> None:
    logits, scores = case
    log_weight, log_likelihood, log_null = marginal.log_reading(double([logits]), double([scores]), normalisation)
    weights, likelihoods, nulls = formulas.reading(logits, scores, normalisation)
    assert close(log_weight[0].exp(), weights)
    assert close(log_likelihood[0].exp(), likelihoods)
    if nulls is None:
        assert log_null is None
    else:
        assert log_null is not None and close(log_null[0].exp(), nulls)


@pytest.mark.parametrize("normalisation", NORMALISATIONS)
@given(case=scored(spans_everywhere=True))
def test_weights_sum_to_one_and_so_does_each_block(normalisation: marginal.Normalisation, case: Scores) -> None:
    logits, scores = case
    log_weight, log_likelihood, log_null = marginal.log_reading(double([logits]), double([scores]), normalisation)
    blocks = log_likelihood[0].exp().sum(-1) + (log_null[0].exp() if log_null is not None else 0.0)
    assert close(log_weight[0].exp().sum(), 1.0)
    assert close(blocks, [1.0] * len(scores))


@given(scored(spans_everywhere=True))
def test_joint_is_one_softmax_over_all_spans_with_the_retriever_added(case: Scores) -> None:
    logits, scores = case
    log_weight, log_likelihood, _ = marginal.log_reading(double([logits]), double([scores]), "joint")
    joint = (log_weight.unsqueeze(-1) + log_likelihood).exp().flatten()
    added = [logit + f for row, f in zip(logits, scores, strict=True) for logit in row]
    assert close(joint, formulas.softmax(added))


@pytest.mark.parametrize("normalisation", NORMALISATIONS)
def test_questions_of_a_batch_are_independent(normalisation: marginal.Normalisation) -> None:
    torch.manual_seed(1)
    logits, scores = torch.randn(4, 3, 5, dtype=torch.float64), torch.randn(4, 3, dtype=torch.float64)
    together = marginal.log_reading(logits, scores, normalisation)
    for question in range(4):
        alone = marginal.log_reading(logits[question : question + 1], scores[question : question + 1], normalisation)
        for whole, part in zip(together, alone, strict=True):
            assert (whole is None) == (part is None)
            if whole is not None and part is not None:
                assert torch.allclose(whole[question : question + 1], part)


@given(case=scored(spans_everywhere=True), data=st.data())
def test_an_answers_probability_is_summed_over_all_matching_spans(case: Scores, data: st.DataObject) -> None:
    logits, scores = case
    correct = [[data.draw(st.booleans()) for _ in row] for row in logits]
    for normalisation in NORMALISATIONS:
        log_weight, log_likelihood, _ = marginal.log_reading(double([logits]), double([scores]), normalisation)
        weights, likelihoods, _ = formulas.reading(logits, scores, normalisation)
        wanted = formulas.marginal(
            weights,
            [
                math.fsum(p for p, right in zip(row, flags, strict=True) if right)
                for row, flags in zip(likelihoods, correct, strict=True)
            ],
        )
        assert close(marginal.log_answer_marginal(log_weight, log_likelihood, torch.tensor([correct])).exp()[0], wanted)


def test_an_unknown_normalisation_is_refused() -> None:
    with pytest.raises(ValueError, match=r"joint, block, block\+null"):
        marginal.log_reading(torch.zeros(1, 1, 1), torch.zeros(1, 1), "softmax")  # type: ignore[arg-type]


# ── What is not there ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("normalisation", NORMALISATIONS)
@pytest.mark.parametrize("empty", [[1], [0, 1, 2]], ids=["one block", "every block"])
@pytest.mark.parametrize("anything_correct", [True, False])
def test_missing_spans_and_answers_give_numbers_and_gradients(
    normalisation: marginal.Normalisation, empty: list[int], anything_correct: bool
) -> None:
    torch.manual_seed(2)
    logits = torch.randn(2, 3, 4, dtype=torch.float64)
    logits[0, empty] = -INF
    correct = torch.zeros(2, 3, 4, dtype=torch.bool)
    correct[0, :, 0] = anything_correct
    correct[1, 2, 1] = True
    logits.requires_grad_()
    scores = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    log_weight, log_likelihood, log_null = marginal.log_reading(logits, scores, normalisation)
    for result in (log_weight, log_likelihood, log_null):
        assert result is None or not result.isnan().any()
    assert close(log_weight.exp().sum(-1), [1.0, 1.0])
    log_answer = marginal.log_answer_marginal(log_weight, log_likelihood, correct)
    possible = anything_correct and len(empty) < 3
    assert torch.isfinite(log_answer).tolist() == [possible, True]
    loss, count = marginal.mean_over_possible(log_answer)
    assert int(count) == 1 + possible
    assert close(loss, -log_answer[torch.isfinite(log_answer)].mean().item())
    for gradient in torch.autograd.grad(loss, [logits, scores]):
        assert torch.isfinite(gradient).all()
        assert possible or not gradient[0].any()  # nothing correct: nothing learnt
        assert gradient[1].any()


def test_without_spans_the_joint_weight_is_the_prior() -> None:
    log_weight, _, _ = marginal.log_reading(torch.full((1, 2, 3), -INF), torch.tensor([[1.0, 0.0]]), "joint")
    assert log_weight.exp()[0].tolist() == pytest.approx(formulas.softmax([1.0, 0.0]))


def test_a_missing_block_has_no_weight() -> None:
    log_weight, _, _ = marginal.log_reading(torch.zeros(1, 2, 3), torch.tensor([[1.0, -INF]]), "block+null")
    assert log_weight.exp()[0].tolist() == [1.0, 0.0]


def test_examples_without_a_correct_span_have_no_loss() -> None:
    loss, count = marginal.mean_over_possible(torch.full((3,), -INF))
    assert (loss.item(), int(count)) == (0.0, 0)


# ── Marginal, posterior, support, removal ───────────────────────────────────────────────────────────────────────────


@given(explained())
def test_prior_marginal_posterior_and_support_are_the_formulas(case: tuple[list[float], list[float]]) -> None:
    scores, likelihood = case
    prior = formulas.softmax(scores)
    log_prior, log_likelihood = marginal.log_prior(double([scores])), double([likelihood]).log()
    posterior = formulas.posterior(prior, likelihood)
    assert close(log_prior[0].exp(), prior)
    assert close(marginal.log_marginal(log_prior, log_likelihood)[0].exp(), formulas.marginal(prior, likelihood))
    assert close(marginal.log_posterior(log_prior, log_likelihood)[0].exp(), posterior)
    support = (marginal.log_posterior(log_prior, log_likelihood).exp() - log_prior.exp())[0]
    assert close(support, [after - before for after, before in zip(posterior, prior, strict=True)])
    assert abs(support.sum().item()) < 1e-12


@given(explained())
def test_support_is_the_gradient_of_the_answers_log_probability(case: tuple[list[float], list[float]]) -> None:
    scores, likelihood = case

    def log_probability(changed: list[float]) -> float:
        return math.log(formulas.marginal(formulas.softmax(changed), likelihood))

    f = double([scores]).requires_grad_()
    log_likelihood = double([likelihood]).log()
    log_marginal = marginal.log_marginal(marginal.log_prior(f), log_likelihood)
    (by_autograd,) = torch.autograd.grad(log_marginal.sum(), f)
    log_prior = marginal.log_prior(double([scores]))
    support = (marginal.log_posterior(log_prior, log_likelihood).exp() - log_prior.exp())[0]
    assert close(by_autograd[0], support.tolist())
    step = 1e-5
    for block in range(len(scores)):
        up, down = list(scores), list(scores)
        up[block] += step
        down[block] -= step
        by_difference = (log_probability(up) - log_probability(down)) / (2 * step)
        assert support[block].item() == pytest.approx(by_difference, abs=1e-7)


def test_retrieval_utility_is_what_the_block_adds_to_the_null_block() -> None:
    utility = marginal.retrieval_utility(double([[math.log(0.5), math.log(0.01)]]), double([math.log(0.1)]))
    assert close(utility[0], [math.log(5.0), -math.log(10.0)])


# ── Losses ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@given(data=st.data(), blocks=st.integers(1, 4), masks=st.integers(1, 5), per_token=st.booleans())
def test_masked_language_losses_are_papers_and_releases(
    data: st.DataObject, blocks: int, masks: int, per_token: bool
) -> None:
    questions = data.draw(st.integers(1, 3))
    priors = [data.draw(distributions(blocks)) for _ in range(questions)]
    probability = st.floats(1e-3, 1.0)
    tokens = [
        [data.draw(st.lists(probability, min_size=masks, max_size=masks)) for _ in range(blocks)]
        for _ in range(questions)
    ]
    present = [[True, *(data.draw(st.booleans()) for _ in range(masks - 1))] for _ in range(questions)]
    wanted = formulas.masked_loss(list(zip(priors, tokens, present, strict=True)), per_token=per_token)
    log_tokens = double(tokens).log().masked_fill(~torch.tensor(present).unsqueeze(1), math.nan)  # padding is anything
    loss = marginal.masked_language_loss(double(priors).log(), log_tokens, torch.tensor(present), per_token=per_token)
    assert close(loss, wanted)


def test_in_the_releases_loss_every_mask_has_equal_weight() -> None:
    prior = double([[1.0], [1.0]]).log()
    tokens = double([[[0.5, 1.0, 1.0, 1.0]], [[0.1, 0.2, 0.3, 0.4]]]).log()
    present = torch.tensor([[True, False, False, False], [True, True, True, True]])  # one mask, and four
    loss = marginal.masked_language_loss(prior, tokens, present, per_token=True)
    assert close(loss, -math.log(0.5 * 0.1 * 0.2 * 0.3 * 0.4) / 5)


def test_papers_loss_needs_one_block_for_the_whole_span_and_the_releases_does_not() -> None:
    prior = double([[0.5, 0.5]]).log()
    tokens = double([[[0.9, 0.1], [0.1, 0.9]]]).log()  # each block knows one of the two tokens
    present = torch.tensor([[True, True]])
    assert close(marginal.masked_language_loss(prior, tokens, present), -math.log(0.09))
    assert close(marginal.masked_language_loss(prior, tokens, present, per_token=True), -math.log(0.5))


@given(scores=st.lists(st.floats(-20, 20), min_size=1, max_size=6), data=st.data())
def test_retriever_marginal_sums_the_correct_blocks(scores: list[float], data: st.DataObject) -> None:
    correct = [data.draw(st.booleans()) for _ in scores]
    prior = formulas.softmax(scores)
    wanted = math.fsum(p for p, right in zip(prior, correct, strict=True) if right)
    f = double([scores]).requires_grad_()
    log_probability = marginal.log_retriever_marginal(f, torch.tensor([correct]))
    assert close(log_probability[0].exp(), wanted)
    loss, _ = marginal.mean_over_possible(log_probability)
    (gradient,) = torch.autograd.grad(loss, f)
    assert torch.isfinite(gradient).all()


# ── The same on stored numbers ──────────────────────────────────────────────────────────────────────────────────────


@given(explained())
def test_functions_on_plain_numbers_are_the_formulas(case: tuple[list[float], list[float]]) -> None:
    scores, likelihood = case
    prior = formulas.softmax(scores)
    assert marginal.prior(scores) == pytest.approx(prior, rel=1e-12)
    assert marginal.marginal(prior, likelihood) == pytest.approx(formulas.marginal(prior, likelihood), rel=1e-12)
    assert marginal.posterior(prior, likelihood) == pytest.approx(formulas.posterior(prior, likelihood), rel=1e-12)
    assert marginal.normalise([3 * weight for weight in prior]) == pytest.approx(prior, rel=1e-12)


def test_plain_numbers_without_evidence() -> None:
    assert marginal.normalise([0.0, 0.0]) == [0.5, 0.5]
    assert marginal.marginal([0.3, 0.7], [0.0, 0.0]) == 0.0
    assert marginal.posterior([0.3, 0.7], [0.0, 0.0]) == [0.3, 0.7]
    assert marginal.posterior([0.3, 0.7], [0.0, 0.5]) == [0.0, 1.0]


def test_tiny_probabilities_do_not_vanish() -> None:
    tiny = [1e-200, 3e-200]
    assert marginal.posterior([0.5, 0.5], tiny) == pytest.approx([0.25, 0.75])
    log_likelihood = double([[-2000.0, -2001.0]])
    posterior = marginal.log_posterior(double([[0.5, 0.5]]).log(), log_likelihood).exp()
    assert posterior[0].tolist() == pytest.approx(formulas.softmax([1.0, 0.0]))


@given(st.lists(st.floats(-700, 700), min_size=2, max_size=6))
def test_a_block_with_a_higher_score_never_has_a_lower_prior(scores: list[float]) -> None:
    ordered = [prior for _, prior in sorted(zip(scores, marginal.prior(scores), strict=True))]
    assert all(low <= high for low, high in pairwise(ordered))
