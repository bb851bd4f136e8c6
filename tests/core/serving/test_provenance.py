"""An answer's numbers: conclusions from the evidence, removal of blocks, and JSON."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from realm_core.serving.provenance import Answer, AnswerCandidate, Evidence, RankedAnswer, conclude

KEYS = ["nile", "mars", "1869", "berlin", "ada"]


def block(
    name: str, prior: float, candidates: dict[str, float], *, null: float | None = None, spelling: str = "{}"
) -> Evidence:
    """Evidence before `conclude`, with its candidates' likelihoods by key."""
    offered = tuple(
        AnswerCandidate(key, spelling.format(key), likelihood, 10 * i, 10 * i + len(spelling.format(key)))
        for i, (key, likelihood) in enumerate(candidates.items())
    )
    return Evidence(
        rank=0,
        block_id=name,
        title=name.title(),
        text="…",
        section="",
        url="",
        start=None,
        end=None,
        prior=prior,
        likelihood=0.0,
        posterior=0.0,
        support=0.0,
        retriever_score=math.log(prior),
        retriever_prior=0.0,
        no_answer_likelihood=null,
        candidates=offered,
    )


def reading(blocks: Sequence[Evidence], *, min_probability: float = 0.0, min_confidence: float = 0.0) -> Answer:
    return conclude(
        Answer(
            question="Which?",
            answer=None,
            no_answer_probability=None,
            answers=(),
            evidence=tuple(blocks),
            explains="",
            normalisation="block+null",
            min_probability=min_probability,
            min_confidence=min_confidence,
            model="m",
            index="i",
            corpus="c",
            latency_ms=1.5,
            timings_ms={"read": 1.0},
        )
    )


@st.composite
def readings(draw: st.DrawFn) -> Answer:
    """Possible readings of up to six blocks."""
    has_null = draw(st.booleans())
    share = st.floats(1e-6, 1.0)
    blocks = []
    for number in range(draw(st.integers(1, 6))):
        keys = draw(st.lists(st.sampled_from(KEYS), unique=True, max_size=4))
        weights = draw(st.lists(share, min_size=len(keys) + 1, max_size=len(keys) + 1))
        likelihoods = [weight / math.fsum(weights) for weight in weights]
        blocks.append(
            block(
                f"block{number}",
                draw(share),
                dict(zip(keys, likelihoods, strict=False)),
                null=likelihoods[-1] if has_null else None,
                spelling=draw(st.sampled_from(["{}", "The {}"])),
            )
        )
    thresholds = st.sampled_from([0.0, 0.0, 0.3, 0.9])
    return reading(blocks, min_probability=draw(thresholds), min_confidence=draw(thresholds))


def check(answer: Answer, blocks: Sequence[Evidence]) -> None:
    """Everything in `answer` follows from priors and likelihoods of `blocks`, by sums written out here."""
    total = math.fsum(b.prior for b in blocks)
    prior = {b.block_id: b.prior / total for b in blocks}
    retrieved = math.fsum(math.exp(b.retriever_score) for b in blocks)
    probability: dict[str, float] = {}
    for b in blocks:
        for candidate in b.candidates:
            probability[candidate.key] = probability.get(candidate.key, 0.0) + prior[b.block_id] * candidate.likelihood
    spelt = {c.text: c.key for b in blocks for c in b.candidates}
    assert {spelt[a.text]: a.probability for a in answer.answers} == pytest.approx(probability, abs=1e-12)
    shown = [a.probability for a in answer.answers]
    assert shown == sorted(shown, reverse=True)
    has_null = blocks[0].no_answer_likelihood is not None
    if has_null:
        nothing = math.fsum(prior[b.block_id] * (b.no_answer_likelihood or 0.0) for b in blocks)
        assert answer.no_answer_probability == pytest.approx(nothing, abs=1e-12)
    else:
        assert answer.no_answer_probability is None
    against = answer.no_answer_probability
    surety = 0.0 if not shown else shown[0] if against is None else shown[0] / (shown[0] + against)
    # Not calibrated, the confidence is the surety, but for rounding.
    least = max(answer.min_confidence, 0.01) if answer.min_confidence else answer.min_probability
    given_answer = bool(shown) and surety >= least
    assert answer.answer == (answer.answers[0] if given_answer else None)
    assert answer.explains == ("answer" if given_answer else "no_answer" if has_null or not shown else "candidate")
    about = None if answer.explains == "no_answer" else spelt[answer.answers[0].text]

    assert {e.block_id for e in answer.evidence} == set(prior)
    own = {b.block_id: b for b in blocks}
    for evidence in answer.evidence:
        offered = {c.key: c for c in own[evidence.block_id].candidates}.get(about or "")
        null = own[evidence.block_id].no_answer_likelihood or 0.0
        likelihood = null if about is None else offered.likelihood if offered else 0.0
        assert evidence.prior == pytest.approx(prior[evidence.block_id], abs=1e-12)
        assert evidence.retriever_prior == pytest.approx(math.exp(evidence.retriever_score) / retrieved, abs=1e-12)
        assert evidence.likelihood == likelihood
        assert (evidence.start, evidence.end) == ((offered.start, offered.end) if offered else (None, None))
    marginal = math.fsum(e.prior * e.likelihood for e in answer.evidence)
    for evidence in answer.evidence:
        posterior = evidence.prior * evidence.likelihood / marginal if marginal else evidence.prior
        assert evidence.posterior == pytest.approx(posterior, abs=1e-12)
        assert evidence.support == pytest.approx(posterior - evidence.prior, abs=1e-12)
    posteriors = [e.posterior for e in answer.evidence]
    assert posteriors == sorted(posteriors, reverse=True)
    assert math.fsum(posteriors) == pytest.approx(1.0, abs=1e-9)
    assert [e.rank for e in answer.evidence] == list(range(1, len(blocks) + 1))


@settings(max_examples=150)
@given(readings())
def test_everything_follows_from_priors_and_likelihoods(answer: Answer) -> None:
    check(answer, answer.evidence)


@settings(max_examples=150)
@given(answer=readings(), data=st.data())
def test_without_blocks_everything_follows_from_the_remaining_ones(answer: Answer, data: st.DataObject) -> None:
    ids = [e.block_id for e in answer.evidence]
    removed = data.draw(st.sets(st.sampled_from(ids), max_size=len(ids) - 1))
    check(answer.without(removed), [e for e in answer.evidence if e.block_id not in removed])


@settings(max_examples=50)
@given(readings())
def test_removing_nothing_changes_nothing(answer: Answer) -> None:
    same = answer.without(set())
    assert (same.question, same.explains, same.timings_ms) == (answer.question, answer.explains, answer.timings_ms)
    check(same, answer.evidence)


@settings(max_examples=50)
@given(readings())
def test_removing_one_by_one_equals_removing_both(answer: Answer) -> None:
    ids = [e.block_id for e in answer.evidence]
    one_by_one, at_once = answer.without({ids[0]}).without(ids[1:2]), answer.without(ids[:2])
    left = [e for e in answer.evidence if e.block_id not in ids[:2]]
    for result in (one_by_one, at_once):
        if left:
            check(result, left)
        else:
            assert result.evidence == ()


def test_without_all_blocks_there_is_no_answer() -> None:
    answer = reading([block("a", 1.0, {"nile": 0.9}, null=0.1)])
    nothing = answer.without({"a"})
    assert (nothing.answer, nothing.answers, nothing.evidence) == (None, (), ())
    assert (nothing.no_answer_probability, nothing.explains) == (None, "no_answer")


def test_removing_unknown_blocks_is_allowed() -> None:
    answer = reading([block("a", 1.0, {"nile": 0.9}, null=0.1)])
    assert answer.without({"b", "c"}) == answer


@settings(max_examples=50)
@given(readings())
def test_json_round_trip(answer: Answer) -> None:
    assert Answer.from_dict(json.loads(json.dumps(answer.as_dict()))) == answer


def test_spellings_are_merged_under_the_most_probable_one() -> None:
    answer = reading(
        [
            block("a", 0.2, {"nile": 0.5}, spelling="the {}"),
            block("b", 0.5, {"nile": 0.4, "mars": 0.6}, spelling="THE {}"),
            block("c", 0.3, {"nile": 0.3}, spelling="the {}"),
        ]
    )
    assert (
        answer.answers
        == (
            RankedAnswer("THE mars", pytest.approx(0.3), likelihood=0.6),  # type: ignore[arg-type]
            RankedAnswer("THE nile", pytest.approx(0.39), likelihood=0.5),  # type: ignore[arg-type]
        )[::-1]
    )
    lighter = reading([replace(e, prior=0.1) if e.block_id == "b" else e for e in answer.evidence])
    assert next(a.text for a in lighter.answers if a.text.endswith("nile")) == "the nile"


def test_an_answer_below_the_threshold_is_not_given_but_listed() -> None:
    blocks = [block("a", 0.5, {"nile": 0.3}, null=0.7), block("b", 0.5, {"mars": 0.2}, null=0.8)]
    answer = reading(blocks, min_probability=0.2)
    assert answer.answer is None and answer.answers[0] == RankedAnswer("nile", pytest.approx(0.15), (), 0.3)  # type: ignore[arg-type]
    assert answer.explains == "no_answer"
    assert [e.block_id for e in answer.evidence] == ["b", "a"]  # b says louder that it is not here
    assert [(e.start, e.end) for e in answer.evidence] == [(None, None), (None, None)]


def test_the_confidence_decides_where_it_was_fitted() -> None:
    """The likelihood of one block raises the confidence, which the share alone would not pass, and the other way."""
    answer = reading([block("a", 0.5, {"nile": 0.9}, null=0.1), block("b", 0.5, {}, null=1.0)], min_probability=0.9)
    assert answer.answer is None and answer.confidence == pytest.approx(answer.share) == pytest.approx(0.45)
    fitted = replace(answer, min_confidence=0.6, confidence_likelihood=1.0)
    assert fitted.confidence == pytest.approx(0.45 * 9 / (0.45 * 9 + 0.55))
    assert conclude(fitted).answer == answer.answers[0]
    assert conclude(replace(fitted, min_confidence=0.9, min_probability=0.0)).answer is None
    assert conclude(fitted).without({"a"}).answer is None
    faint = reading([block("a", 1.0, {"nile": 0.003}, null=0.997)], min_confidence=0.2)
    sure = replace(faint, confidence_offset=7.0)
    assert sure.confidence is not None and 0.75 < sure.confidence < 0.8
    assert conclude(sure).answer is None  # hundreds of times as probable: no answer
    surer = replace(faint, confidence_offset=8.0)
    assert surer.confidence is not None and 0.85 < surer.confidence < 0.9
    assert (
        conclude(surer).answer == faint.answers[0]
    )  # an eighth of such answers are wrong, so a quarter of 1 % will do
    kept = fitted.as_dict()
    del kept["min_confidence"]  # as kept before there was one
    assert conclude(Answer.from_dict(kept)).answer is None


def test_without_candidates_there_is_no_answer() -> None:
    answer = reading([block("a", 0.5, {}), block("b", 0.5, {})])
    assert (answer.answer, answer.explains) == (None, "no_answer")
    assert [e.posterior for e in answer.evidence] == [0.5, 0.5]  # nothing was learnt


def test_stored_answers_are_read_without_torch() -> None:
    stored = json.dumps(reading([block("a", 1.0, {"nile": 0.9})]).as_dict())
    program = (
        "import json, sys\nfrom realm_core.serving.provenance import Answer\n"
        "print(Answer.from_dict(json.load(sys.stdin)).answer.text, 'torch' in sys.modules)"
    )
    top = Path(__file__).resolve().parents[3]
    done = subprocess.run([sys.executable, "-c", program], cwd=top, input=stored, capture_output=True, text=True)
    assert done.stdout.split() == ["nile", "False"], done.stderr


def test_an_answer_stored_under_other_rules_of_names_keeps_its_wordings_without_a_block() -> None:
    texts = {"Picasso": 0.5, "Pablo Picasso": 0.4, "Dalí": 0.05}
    offered = tuple(AnswerCandidate(text.lower(), text, weight, 0, 1) for text, weight in texts.items())
    painted = replace(block("guernica", 0.5, {}), text="Pablo Picasso painted it.", candidates=offered)
    other = block("madrid", 0.5, {"goya": 0.1})
    now = reading([painted, other])
    assert now.answer is not None and now.answer.also == ("Picasso",)
    assert now.without({"madrid"}).answers[0].text == "Pablo Picasso"

    apart = tuple(RankedAnswer(text, weight / 2) for text, weight in texts.items())
    stored = Answer.from_dict(json.loads(json.dumps(replace(now, answers=apart, answer=apart[0]).as_dict())))
    left = stored.without({"madrid"})
    assert [(one.text, one.also, pytest.approx(one.probability)) for one in left.answers] == [
        (text, (), weight) for text, weight in texts.items()
    ]
    assert stored.without({"guernica"}).answers == (RankedAnswer("goya", 0.1, (), 0.1),)


def test_a_stored_name_is_displayed_as_what_is_left_of_it() -> None:
    blocks = [block("one", 0.5, {"cat": 0.6}), block("two", 0.3, {"feline": 0.5}), block("three", 0.2, {"dog": 0.1})]
    kinds = (RankedAnswer("cat", 0.45, ("feline",)), RankedAnswer("dog", 0.02))
    stored = replace(reading(blocks), answers=kinds, answer=kinds[0])
    assert [(one.text, one.also) for one in stored.without({"three"}).answers] == [("cat", ("feline",))]
    assert [one.text for one in stored.without({"one"}).answers] == ["feline", "dog"]
    titled = (RankedAnswer("Felis catus", 0.45, ("cat", "feline")), RankedAnswer("dog", 0.02))
    stored = replace(stored, answers=titled, answer=titled[0])
    assert [(one.text, one.also) for one in stored.without({"three"}).answers] == [("Felis catus", ("cat", "feline"))]
    left = stored.without({"one"}).answers[0]
    assert (left.text, left.also) == ("Felis catus", ("feline",))


def test_a_language_has_the_title_of_its_article_while_that_is_read() -> None:
    blocks = [
        block("iran", 0.6, {"persian": 0.8}, null=0.2),
        block("Persian language", 0.4, {"persian": 0.5}, null=0.5),
    ]
    answer = replace(reading(blocks), question="What do they speak in Iran?")
    named = conclude(answer)
    assert named.answer is not None and (named.answer.text, named.answer.also) == ("Persian Language", ("persian",))
    alone = named.without(["Persian language"])
    assert alone.answer is not None and alone.answer.text == "persian"


def test_an_adjective_is_displayed_as_the_country_that_is_asked_for() -> None:
    blocks = [
        block("sushi", 0.6, {"japanese": 0.8}, null=0.2),
        block("japan", 0.4, {"japan": 0.5}, null=0.5),
    ]
    named = conclude(replace(reading(blocks), question="Which country does sushi come from?"))
    assert named.answer is not None and (named.answer.text, named.answer.also) == ("japan", ("japanese",))
    assert named.answer.probability == pytest.approx(0.6 * 0.8 + 0.4 * 0.5)
    other = conclude(replace(reading(blocks), question="What cuisine is sushi of?"))
    assert other.answer is not None and other.answer.text == "japanese"
