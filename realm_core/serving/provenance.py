"""An answer with its provenance: all figures of the reading, so that sums over blocks are exact.

An `Answer` is plain data: the engine returns it, REST and the command line print it, and the database stores it.
`without` recomputes it in closed form, without running the model, when blocks are removed:

    prior'(z) = prior(z) / Σ_kept prior        (drop z, renormalise)
    p'(y)     = Σ_kept prior'(z) · likelihood(y | z)

Legend: K blocks read, Y candidate answers.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from realm_core.questions.answers import normalise_answer
from realm_core.serving import naming
from realm_core.serving.english.implied import implied
from realm_core.serving.english.kind_names import titles_of_kind

_LEAST_SHARE: Final = 0.01
_WIDEST_MARGIN = 7.0  # e^7 ≈ 1,100: so unlikely a second answer counts as none
_LEAST_PROBABILITY = 1e-12


def least_share(sure: float) -> float:
    """The share against “no answer” below which an answer of this confidence is not given.

    An answer that “no answer” is a hundred times as probable as is not given, whatever its margin over the next answer
    says, of which there may be none; the share of one that is right more often than not may be smaller, in proportion
    to how often such answers are wrong.
    """
    return _LEAST_SHARE * min(1.0, 2.0 * (1.0 - sure))


@dataclass(frozen=True)
class AnswerCandidate:
    """An answer from one block: the sum over the block's spans that match it."""

    key: str  # the normalised answer: equal keys are the same answer in any spelling
    text: str  # in the block's original spelling
    likelihood: float  # p(y | z, x)
    start: int  # character offsets of its most probable span in the block's text
    end: int


@dataclass(frozen=True)
class Evidence:
    """A block that was read. Figures refer to what the answer `explains`."""

    rank: int  # 1 is the highest posterior
    block_id: str
    title: str
    text: str
    section: str
    url: str
    start: int | None  # character offsets in `text` of the best span; None if the block has none
    end: int | None
    prior: float  # the weight of the likelihood: p(z | x), under `joint` the reader's scores within it; sums to one
    likelihood: float  # p(y | z, x)
    posterior: float  # p(z | y, x); sums to one over the blocks read
    support: float  # posterior − prior; positive: the block supports the answer
    retriever_score: float  # (f(x, z) + λ b(x, z)) / T + log of the collection's weight: the prior's logit
    retriever_prior: float  # softmax of it over the blocks read
    no_answer_likelihood: float | None  # p("not here" | z, x), if the normalisation defines it
    candidates: tuple[AnswerCandidate, ...] = field(default=(), repr=False)
    collection: str = ""  # that the block's document is in; empty in answers stored before it was recorded
    opens: bool = True  # whether the block begins its article; not recorded in answers stored before it was asked

    def likelihood_of(self, keys: Collection[str]) -> float:
        """The likelihoods of its candidates with these keys, added up."""
        return math.fsum(one.likelihood for one in self.candidates if one.key in keys)


@dataclass(frozen=True)
class RankedAnswer:
    """One of the answers with its marginal probability Σ_z prior · likelihood.

    also: other wordings of the same name, whose probabilities are included; see `naming.py`.
    likelihood: the highest p(y | z, x) of a block; None in answers stored before it was kept.
    """

    text: str
    probability: float
    also: tuple[str, ...] = ()
    likelihood: float | None = None


@dataclass(frozen=True)
class Answer:
    """A question with its answer and evidence.

    explains: what likelihood, posterior and support of the evidence refer to: "answer" (the given answer), "no_answer"
    (that the blocks contain none) or "candidate" (the best candidate, which was too improbable to be given).
    """

    question: str
    answer: RankedAnswer | None
    no_answer_probability: float | None
    answers: tuple[RankedAnswer, ...]
    evidence: tuple[Evidence, ...]
    explains: str
    normalisation: str
    min_probability: float  # the threshold on `share`, where `min_confidence` is 0
    model: str
    index: str
    corpus: str
    latency_ms: float
    timings_ms: dict[str, float]
    read_as: str = ""  # the question with its spelling corrected, or a topic as a question; empty: as typed
    # The model's calibration, see `confidence`; the defaults are for answers stored before it existed.
    min_confidence: float = 0.0
    confidence_slope: float = 1.0
    confidence_offset: float = 0.0
    confidence_likelihood: float = 0.0
    confidence_margin: float = 0.0

    @property
    def share(self) -> float:
        """The best answer's share against “not here”; 0 without answers."""
        return _share(self.answers[0].probability, self.no_answer_probability) if self.answers else 0.0

    @property
    def is_likely(self) -> bool:
        """Whether the best answer is likely enough to be given."""
        if self.confidence is None:
            return False
        if self.min_confidence:
            return self.confidence >= self.min_confidence and self.share >= least_share(self.confidence)
        return self.share >= self.min_probability

    @property
    def confidence_features(self) -> tuple[float, float, float]:
        """(logit of the share, logit of the likelihood, margin) of the best answer, see `confidence`."""
        best, *others = self.answers
        likelihood = best.likelihood if best.likelihood is not None else 0.5
        second = others[0].probability if others else 0.0
        margin = math.log(best.probability / second) if second > 0.0 else _WIDEST_MARGIN
        return _logit(self.share), _logit(likelihood), min(margin, _WIDEST_MARGIN)

    @property
    def is_calibrated(self) -> bool:
        """Whether the confidence was fitted to questions with known answers."""
        fitted = (self.confidence_slope, self.confidence_offset, self.confidence_likelihood, self.confidence_margin)
        return fitted != (1.0, 0.0, 0.0, 0.0)

    @property
    def confidence(self) -> float | None:
        """The calibrated probability that the best answer is right, or, uncalibrated, its `share`; None without one."""
        if not self.answers:
            return None
        weights = (self.confidence_slope, self.confidence_likelihood, self.confidence_margin)
        return confidence(self.confidence_features, weights, self.confidence_offset)

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON with the fields as keys, and the confidence."""
        # By hand: dataclasses.asdict also copies every number, of a hundred candidates, and takes ten times as long.
        return {
            **vars(self),
            "answer": None if self.answer is None else dict(vars(self.answer)),
            "answers": tuple(dict(vars(answer)) for answer in self.answers),
            "evidence": tuple(
                {**vars(block), "candidates": tuple(dict(vars(candidate)) for candidate in block.candidates)}
                for block in self.evidence
            ),
            "timings_ms": dict(self.timings_ms),
            "confidence": self.confidence,
        }

    @classmethod
    def from_dict(cls, value: dict[str, Any]) -> Answer:
        """The inverse of `as_dict`, also after JSON."""
        value = {name: own for name, own in value.items() if name != "confidence"}
        value["answer"] = None if value["answer"] is None else _ranked(value["answer"])
        value["answers"] = tuple(_ranked(answer) for answer in value["answers"])
        value["evidence"] = tuple(
            Evidence(**{**block, "candidates": tuple(AnswerCandidate(**c) for c in block["candidates"])})
            for block in value["evidence"]
        )
        return cls(**value)

    def without(self, block_ids: Collection[str]) -> Answer:
        """The answer as if the blocks `block_ids` had not been read: exact, without running the model.

        An answer that an earlier version stored keeps the wordings that it was added up of, or it would change by more
        than the blocks.
        """
        kept = tuple(block for block in self.evidence if block.block_id not in block_ids)
        return conclude(replace(self, evidence=kept), None if self._is_named_as_now() else self._names())

    def _is_named_as_now(self) -> bool:
        """Whether the rules of `naming.py` group its wordings today as they did when it was stored."""
        if not self.evidence:
            return not self.answers
        _, _, spellings, probabilities = _added_up(self.evidence)
        named = _named(self, spellings, probabilities)
        now = {(one.text, *sorted(_other_spellings(spellings, one))) for one in named}
        return now == {(one.text, *sorted(one.also)) for one in self.answers}

    def _names(self) -> list[naming.NamedAnswer]:
        """The wordings of each answer, as grouped when it was made."""
        known = {candidate.key for block in self.evidence for candidate in block.candidates}
        named = []
        for answer in self.answers:
            keys = dict.fromkeys(normalise_answer(text) for text in (answer.text, *answer.also))
            named.append(naming.NamedAnswer(tuple(key for key in keys if key in known), answer.text))
        return named


def _ranked(value: dict[str, Any]) -> RankedAnswer:
    return RankedAnswer(value["text"], value["probability"], tuple(value.get("also", ())), value.get("likelihood"))


def conclude(reading: Answer, names: Sequence[naming.NamedAnswer] | None = None) -> Answer:
    """Compute everything that follows from the evidence's priors and candidate likelihoods.

    names: the groups of wordings, some of which may be gone; None: by the rules of `naming.py`.

    Takes an answer whose evidence has prior (on any positive scale), retriever_score, candidates and
    no_answer_likelihood. Returns it with normalised priors, merged and ranked answers, the selected answer, and
    likelihood, posterior, support, span and rank of every block.
    """
    from realm_core.model import marginal  # imported here, because it loads torch

    blocks = reading.evidence
    if not blocks:
        return replace(reading, answer=None, no_answer_probability=None, answers=(), explains="no_answer")
    retriever_prior_K = marginal.prior([block.retriever_score for block in blocks])
    prior_K, likelihoods_YK, spellings, probabilities = _added_up(blocks)
    named = _named(reading, spellings, probabilities) if names is None else _named_as(names, spellings, probabilities)
    rows_YK = [
        [math.fsum(column) for column in zip(*(likelihoods_YK[key] for key in one.keys), strict=True)] for one in named
    ]
    ranked = sorted(
        ((marginal.marginal(prior_K, row_K), one, row_K) for one, row_K in zip(named, rows_YK, strict=True)),
        key=lambda item: (-item[0], item[1].keys),
    )
    answers = tuple(
        RankedAnswer(one.text, probability, _other_spellings(spellings, one), min(1.0, max(row_K)))
        for probability, one, row_K in ranked
    )

    null_K = [block.no_answer_likelihood for block in blocks]
    has_null = all(likelihood is not None for likelihood in null_K)
    no_answer_K = [likelihood or 0.0 for likelihood in null_K]
    no_answer_probability = marginal.marginal(prior_K, no_answer_K) if has_null else None

    ranked_answer = replace(reading, answers=answers, no_answer_probability=no_answer_probability)
    answered = ranked_answer.is_likely
    explains = "answer" if answered else "no_answer" if has_null or not answers else "candidate"
    explained_keys = () if explains == "no_answer" else ranked[0][1].keys
    likelihood_K = ranked[0][2] if explained_keys else no_answer_K
    posterior_K = marginal.posterior(prior_K, likelihood_K)

    evidence = []
    for position, block in enumerate(blocks):
        own = [candidate for candidate in block.candidates if candidate.key in explained_keys]
        span = max(own, key=lambda candidate: candidate.likelihood, default=None)
        evidence.append(
            replace(
                block,
                prior=prior_K[position],
                retriever_prior=retriever_prior_K[position],
                likelihood=likelihood_K[position],
                posterior=posterior_K[position],
                support=posterior_K[position] - prior_K[position],
                start=span.start if span else None,
                end=span.end if span else None,
            )
        )
    evidence.sort(key=lambda block: (-block.posterior, -block.prior, block.block_id))
    return replace(
        ranked_answer,
        answer=answers[0] if answered else None,
        evidence=tuple(replace(block, rank=rank) for rank, block in enumerate(evidence, start=1)),
        explains=explains,
    )


def _added_up(
    blocks: Sequence[Evidence],
) -> tuple[list[float], dict[str, list[float]], dict[str, str], dict[str, float]]:
    """(normalised priors; of each wording by its key: likelihoods, spelling, probability), before any are grouped."""
    from realm_core.model import marginal

    prior_K = marginal.normalise([block.prior for block in blocks])
    likelihoods_YK: dict[str, list[float]] = {}
    for position, block in enumerate(blocks):
        for candidate in block.candidates:
            likelihoods_YK.setdefault(candidate.key, [0.0] * len(blocks))[position] = candidate.likelihood
    probabilities = {key: marginal.marginal(prior_K, row_K) for key, row_K in likelihoods_YK.items()}
    return prior_K, likelihoods_YK, _spellings(blocks, prior_K), probabilities


def _named(
    reading: Answer, spellings: Mapping[str, str], probabilities: Mapping[str, float]
) -> list[naming.NamedAnswer]:
    """The candidates grouped by name."""
    blocks = reading.evidence
    places: dict[str, dict[str, tuple[int, int]]] = {key: {} for key in probabilities}
    for block in blocks:
        for candidate in block.candidates:
            places[candidate.key][block.block_id] = (candidate.start, candidate.end)
    wordings = [
        naming.Wording(key, spellings[key], probability, places[key]) for key, probability in probabilities.items()
    ]
    titles = {block.block_id: block.title for block in blocks if block.opens}
    question = reading.read_as or reading.question
    languages = naming.languages_read(question, (block.title for block in blocks))
    meant = titles_of_kind(question, (block.title for block in blocks), probabilities)
    meant |= implied(question, probabilities)
    return naming.same_names(wordings, {block.block_id: block.text for block in blocks}, titles, languages, meant)


def _named_as(
    names: Sequence[naming.NamedAnswer], spellings: Mapping[str, str], probabilities: Mapping[str, float]
) -> list[naming.NamedAnswer]:
    """The candidates grouped as in `names`, without the wordings that are gone."""
    left, named = dict(probabilities), []
    for name in names:
        keys = sorted((key for key in name.keys if key in left), key=lambda key: (-left[key], key))
        if not keys:
            continue
        shown = normalise_answer(name.text)
        if shown in keys:
            keys = [shown, *(key for key in keys if key != shown)]
        # A title may be displayed that is no wording of the evidence; it is kept as it is.
        text = name.text if shown in keys or shown not in name.keys else spellings[keys[0]]
        named.append(naming.NamedAnswer(tuple(keys), text))
        for key in keys:
            del left[key]
    return [*named, *(naming.NamedAnswer((key,), spellings[key]) for key in left)]


def confidence(features: Sequence[float], weights: Sequence[float], offset: float) -> float:
    """σ(weights · features + offset): Platt scaling with three features (`Answer.confidence_features`).

    logit(share)       the answer against “not here”, over all blocks
    logit(likelihood)  the highest p(y | z, x) of a block
    margin             log(p(y | x) / p(y' | x)), y' the next answer; at most `_WIDEST_MARGIN`

    Platt (1999), "Probabilistic Outputs for Support Vector Machines". Under `block+null` p(y|x) itself is not
    calibrated: a block with a high prior but no answer lowers it, even if another block contains the answer.
    """
    logit = math.fsum((*(weight * feature for weight, feature in zip(weights, features, strict=True)), offset))
    return 1.0 / (1.0 + math.exp(-logit)) if logit > -700.0 else 0.0


def _logit(probability: float) -> float:
    probability = min(max(probability, _LEAST_PROBABILITY), 1.0 - _LEAST_PROBABILITY)
    return math.log(probability / (1.0 - probability))


def _share(probability: float, no_answer_probability: float | None) -> float:
    """The answer's share against "not here", if that is defined, or else its probability.

    "Not here" separates unanswerable questions better than the answer's probability, which is also low if several
    answers are right.
    """
    if no_answer_probability is None:
        return probability
    both = probability + no_answer_probability
    return probability / both if both > 0 else 0.0


def _other_spellings(spellings: Mapping[str, str], named: naming.NamedAnswer) -> tuple[str, ...]:
    """The wordings that an answer includes; the main one only if a title is displayed in its place."""
    first, *others = (spellings[key] for key in named.keys)
    return (*(() if normalise_answer(first) == normalise_answer(named.text) else (first,)), *others)


def _spellings(blocks: Collection[Evidence], prior_K: Sequence[float]) -> dict[str, str]:
    """The spelling of each candidate's key with the highest probability, summed over the blocks."""
    weights: dict[str, dict[str, float]] = {}
    for block, prior in zip(blocks, prior_K, strict=True):
        for candidate in block.candidates:
            own = weights.setdefault(candidate.key, {})
            own[candidate.text] = own.get(candidate.text, 0.0) + prior * candidate.likelihood
    return {key: max(own, key=lambda text: (own[text], text)) for key, own in weights.items()}
