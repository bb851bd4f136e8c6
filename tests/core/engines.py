"""What tests of the engine share: engines in single precision, and what must hold of every answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch

from realm_core.corpus.records import Block
from realm_core.model.config import Normalisation
from realm_core.questions.answers import normalise_answer
from realm_core.serving.engine import Engine
from realm_core.serving.provenance import Answer

if TYPE_CHECKING:
    from tests.core.conftest import Deployment

NORMALISATIONS: list[Normalisation] = ["block", "joint", "block+null"]
QUESTIONS = [
    "When was the Suez Canal opened?",
    "Which metal melts at 3,422 °C?",
    "Who directed 2001: A Space Odyssey?",
    "capital of Bhutan",
    "x",
]


def block_of(engine: Engine, block_id: str) -> Block:
    """A block of an engine's corpus."""
    return engine._corpus.index.corpus.blocks_with(block_id)[0]


def engine_of(deployment: Deployment, **options: Any) -> Engine:
    """An engine in single precision: with whom a question is read then changes next to nothing."""
    with pytest.MonkeyPatch.context() as patch:
        for loads in ("serving.engine", "model.encoding"):
            patch.setattr(f"realm_core.{loads}.fast_dtype", lambda device: torch.float32)
        patch.setattr("realm_core.model.encoding.int8_is_faster", lambda: False)
        return Engine.load(deployment.model, deployment.index, deployment.corpus, device="cpu", **options)


def figures(answer: Answer) -> dict[str, Any]:
    """The numbers of an answer by what they are of, whatever the order."""
    return {
        "answers": {normalise_answer(a.text): a.probability for a in answer.answers},
        "prior": {e.block_id: e.prior for e in answer.evidence},
        "null": {e.block_id: e.no_answer_likelihood or 0.0 for e in answer.evidence},
        "score": {e.block_id: e.retriever_score for e in answer.evidence},
    }


def assert_alike(one: Answer, other: Answer) -> None:
    assert one.question == other.question
    for (name, left), right in zip(figures(one).items(), figures(other).values(), strict=True):
        common = left.keys() & right.keys() if name == "answers" else left.keys() | right.keys()
        assert len(common) >= 0.9 * len(left)  # of nearly equal spans, others may be among the best
        assert {k: left[k] for k in common} == pytest.approx({k: right[k] for k in common}, abs=1e-4)


def check_sums(answer: Answer) -> None:
    evidence = answer.evidence
    assert sum(e.prior for e in evidence) == pytest.approx(1.0, abs=1e-9)
    assert sum(e.retriever_prior for e in evidence) == pytest.approx(1.0, abs=1e-9)
    assert sum(e.posterior for e in evidence) == pytest.approx(1.0, abs=1e-9)
    assert sum(e.support for e in evidence) == pytest.approx(0.0, abs=1e-9)
    assert [e.rank for e in evidence] == list(range(1, len(evidence) + 1))
    assert [e.posterior for e in evidence] == sorted((e.posterior for e in evidence), reverse=True)
    said = answer.answer.probability if answer.answer else answer.no_answer_probability
    assert said == pytest.approx(sum(e.prior * e.likelihood for e in evidence), abs=1e-9)
    for e in evidence:
        assert sum(c.likelihood for c in e.candidates) + (e.no_answer_likelihood or 0.0) <= 1 + 1e-9
        assert len({c.key for c in e.candidates}) == len(e.candidates)
        for c in e.candidates:
            assert e.text[c.start : c.end] == c.text  # as the block has it
            assert c.key == (normalise_answer(c.text) or c.text.casefold())
        span = next((c for c in e.candidates if (c.start, c.end) == (e.start, e.end)), None)
        assert (span is None) == (e.start is None)
        assert span is None or (
            answer.answer is not None and normalise_answer(span.text) == normalise_answer(answer.answer.text)
        )
    assert (answer.no_answer_probability is None) == (answer.normalisation != "block+null")
    total = sum(a.probability for a in answer.answers) + (answer.no_answer_probability or 0.0)
    assert total <= 1 + 1e-9
