"""Why an answer was wrong: one cause each, from evidence made by hand and from evidence made by chance."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from realm_core.evaluation.why import CAUSES, Contender, Place, Why, explain
from realm_core.questions.answers import holds_answer, is_correct
from realm_core.serving.provenance import Answer
from tests.core.serving.test_provenance import block, reading

Block = tuple[str, float, dict[str, float], float]  # name, prior, likelihoods, p("not here")


def answer(blocks: Sequence[Block], *, texts: Mapping[str, str] | None = None, withheld: bool = False) -> Answer:
    """What follows from such blocks; a block's text is made of its candidates unless `texts` has another."""
    evidence = []
    for name, prior, candidates, null in blocks:
        text = (texts or {}).get(name, " – ".join(candidates))
        evidence.append(replace(block(name, prior, candidates, null=null), text=text))
    return reading(evidence, min_probability=1.1 if withheld else 0.0)


NILE = ["Nile", "the River Nile"]


def test_right() -> None:
    why = explain(answer([("a", 0.7, {"nile": 0.6, "mars": 0.2}, 0.1), ("b", 0.3, {"mars": 0.5}, 0.5)]), NILE)
    assert why == Why("right", right=Contender("nile", pytest.approx(0.42), "a", "A"))  # type: ignore[arg-type]


def test_withheld() -> None:
    why = explain(answer([("a", 0.7, {"nile": 0.6}, 0.3), ("b", 0.3, {}, 1.0)], withheld=True), NILE)
    assert why.cause == "withheld" and why.right is not None
    assert why.right.probability == pytest.approx(0.42)
    assert why.no_answer_probability == pytest.approx(0.51)


def test_outweighed_by_two_blocks_together() -> None:
    blocks: list[Block] = [
        ("a", 0.4, {"nile": 0.6, "mars": 0.1}, 0.2),
        ("b", 0.25, {"mars": 0.6}, 0.1),
        ("c", 0.35, {"mars": 0.9}, 0.05),
    ]
    why = explain(answer(blocks), NILE)
    assert why.cause == "outweighed"
    assert why.chosen == Contender("mars", pytest.approx(0.04 + 0.15 + 0.315), "c", "C")  # type: ignore[arg-type]
    assert why.right == Contender("nile", pytest.approx(0.24), "a", "A")  # type: ignore[arg-type]


def test_outweighed_by_another_wording_of_itself() -> None:
    """Also where no block has it as its likeliest."""
    given = answer([("a", 0.6, {"1999": 0.7, "1999 to 2007": 0.1}, 0.2), ("b", 0.4, {"1999": 0.5}, 0.5)])
    (best, *_) = given.answers
    merged = replace(given, answers=(replace(best, text="1999", also=("1999 to 2007",)),))
    why = explain(merged, ["1999 to 2007"])
    assert why.cause == "outweighed" and why.chosen is not None and why.chosen.text == "1999"
    assert why.right == Contender("1999 to 2007", pytest.approx(0.06), "a", "A")  # type: ignore[arg-type]


def test_misread_as_something_else() -> None:
    # The retriever thinks best of "a", though "b" has the right span as a likelier one.
    blocks: list[Block] = [("b", 0.4, {"mars": 0.5, "nile": 0.4}, 0.1), ("a", 0.6, {"mars": 0.7, "nile": 0.05}, 0.2)]
    why = explain(answer(blocks), NILE)
    assert (why.cause, why.no_answer_probability) == ("misread", 0.2)
    assert (why.chosen, why.right) == (Contender("mars", 0.7, "a", "A"), Contender("nile", 0.05, "a", "A"))


def test_misread_as_not_here() -> None:
    blocks: list[Block] = [("a", 0.6, {}, 0.9), ("b", 0.4, {"mars": 0.8}, 0.1)]
    why = explain(answer(blocks, texts={"a": "Along the Nile."}), NILE)
    assert (why.cause, why.chosen) == ("misread", Contender(None, 0.9, "a", "A"))
    assert why.right == Contender(None, 0.0, "a", "A")  # it offers no span that is right
    # A right span that is likelier than other spans, and less likely than "not here", is no reading of it.
    assert explain(answer([("a", 0.6, {"nile": 0.2}, 0.7), ("b", 0.4, {"mars": 0.8}, 0.1)]), NILE).cause == "misread"


def test_what_was_not_read_depends_on_where_it_stands() -> None:
    wrong = answer([("a", 1.0, {"mars": 0.8}, 0.1)])
    assert explain(wrong, NILE).cause == "not_read"
    assert explain(wrong, NILE, place=Place(True, 17)) == Why("not_retrieved", rank=17, looked_at=1000)
    assert explain(wrong, NILE, place=Place(True, None)) == Why("not_retrieved", looked_at=1000)
    assert explain(wrong, NILE, place=Place(False)) == Why("not_in_corpus")
    nothing = answer([])
    assert explain(nothing, NILE, place=Place(False)).cause == "not_in_corpus"


def test_expressions_are_matched() -> None:
    blocks: list[Block] = [("a", 0.5, {"1869": 0.4}, 0.1), ("b", 0.5, {"mars": 0.8}, 0.1)]
    assert explain(answer(blocks), [r"18\d\d"], "regex").cause == "outweighed"


def test_without_a_known_answer_no_answer_is_right() -> None:
    given = answer([("a", 1.0, {"mars": 0.8}, 0.1)])
    assert given.answer is not None
    assert explain(given, []) == Why("unanswerable", Contender("mars", 0.8, "a", given.evidence[0].title))
    assert explain(answer([]), []) == Why("right")


KEYS = ("nile", "mars", "berlin", "1869")


@st.composite
def answers(draw: st.DrawFn) -> Answer:
    blocks: list[Block] = []
    for number in range(draw(st.integers(0, 4))):
        shares = draw(st.lists(st.floats(0.01, 1.0), min_size=5, max_size=5))
        offered = draw(st.sets(st.sampled_from(KEYS)))
        likelihoods = {key: share / sum(shares) for key, share in zip(KEYS, shares, strict=False) if key in offered}
        blocks.append((f"b{number}", draw(st.floats(0.05, 1.0)), likelihoods, shares[4] / sum(shares)))
    texts = {one[0]: f"{' – '.join(one[2])} {draw(st.sampled_from(['', 'Along the Nile.']))}" for one in blocks}
    return answer(blocks, texts=texts, withheld=draw(st.booleans()))


@given(answers(), st.sampled_from([Place(True, 9), Place(True), Place(False)]))
def test_each_answer_has_one_cause_that_can_be_told_by_looking(given_answer: Answer, place: Place) -> None:
    """Against the definitions, written out one by one."""
    best = given_answer.answers[0].text if given_answer.answers else ""
    right = is_correct(best, NILE)
    holding = [one for one in given_answer.evidence if holds_answer(one.text, NILE)]

    def reads(index: int) -> str:
        own = holding[index]
        options = [(candidate.likelihood, candidate.text) for candidate in own.candidates]
        return max([*options, (own.no_answer_likelihood or 0.0, "")])[1]

    read = any(is_correct(reads(index), NILE) for index in range(len(holding)))
    holds = {
        "right": right and given_answer.answer is not None,
        "withheld": right and given_answer.answer is None,
        "outweighed": not right and read,
        "misread": not right and bool(holding) and not read,
        "not_retrieved": not right and not holding and place.in_corpus,
        "not_in_corpus": not right and not holding and not place.in_corpus,
    }
    assert holds.keys() == set(CAUSES) and sum(holds.values()) == 1
    why = explain(given_answer, NILE, place=place)
    assert holds[why.cause]
    if why.cause == "outweighed":
        assert why.chosen is not None and why.right is not None
        assert why.chosen.probability >= why.right.probability - 1e-12
    assert Why.from_dict(json.loads(json.dumps(asdict(why)))) == why


def test_it_loads_no_torch() -> None:
    import subprocess
    import sys

    program = "import sys, realm_core.evaluation.why; print({'torch', 'faiss', 'pyarrow'} & set(sys.modules))"
    assert (
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "set()\n"
    )
