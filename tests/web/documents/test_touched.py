"""What a removal touches, against answers that are worked out anew from the blocks that are left."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pytest

from realm_core.serving.provenance import Answer
from tests.web.pages import stored
from tests.web.pages.stored import ODYSSEY, Read
from webapp.ledger import touched as touched_module
from webapp.ledger.touched import Outcome, Summary, Touched, TouchedAnswer, WorkedOut
from webapp.models import AskedAnswer, Purge

pytestmark = pytest.mark.django_db


def _id(title: str) -> str:
    return next(block.block_id for block in ODYSSEY if block.title == title)


def _touched(*block_ids: str) -> list[TouchedAnswer]:
    touched = Touched(block_ids)
    return touched.recomputed(touched.rows)


def test_every_set_of_blocks_gives_what_the_definition_gives() -> None:
    stored.store()
    titles = [block.title for block in ODYSSEY]
    for subset in range(1, 2 ** len(titles) - 1):
        gone = [title for number, title in enumerate(titles) if subset >> number & 1]
        (one,) = _touched(*map(_id, gone))
        left = stored.without(ODYSSEY, *gone)
        marginals = stored.marginals(left)
        best, probability = next(iter(marginals.items()))
        assert one.without.answer is not None
        assert one.without.answer.text == best
        assert one.without.answer.probability == pytest.approx(probability)
        explains = max(left, key=lambda block: block.prior * block.offers.get(best, 0.0))
        assert one.explained_by == explains.title
        expected = (
            Outcome.OTHER_ANSWER
            if best != "Stanley Kubrick"
            else Outcome.OTHER_BLOCK
            if explains.title != ODYSSEY[0].title
            else Outcome.SAME
        )
        assert one.outcome == expected, gone
        total = sum(e["posterior"] for e in one.asked.payload["evidence"] if e["title"] in gone)
        assert one.posterior == pytest.approx(total)


def test_without_all_of_its_blocks_there_is_no_answer() -> None:
    stored.store()
    (one,) = _touched(*(block.block_id for block in ODYSSEY))
    assert one.outcome == Outcome.NONE
    assert one.posterior == pytest.approx(1.0)
    assert one.explained_by == ""


def test_an_answer_may_be_given_only_without_a_block() -> None:
    sure = Read("Sure", "It was Ada.", 0.1, {"Ada": 0.9}, 0.05)
    unsure = Read("Unsure", "Nothing to the point.", 0.9, {"point": 0.01}, 0.99)
    stored.store(stored.payload((sure, unsure), "Who was it?", min_probability=0.5, explains="no_answer"))
    (given,) = _touched(unsure.block_id)
    assert given.outcome == Outcome.GIVEN
    (still_none,) = _touched(sure.block_id)
    assert still_none.outcome == Outcome.SAME


def test_answers_that_did_not_read_the_blocks_are_not_touched() -> None:
    stored.store()
    assert _touched("f" * 32) == []
    assert Touched(["f" * 32]).worked_out() == Touched([]).worked_out() == WorkedOut(Summary(0, 0))


def test_the_highest_posterior_comes_first() -> None:
    little = Read(ODYSSEY[0].title, ODYSSEY[0].text, 0.1, {"Stanley Kubrick": 0.2}, 0.05)
    other = Read("Another", "Stanley Kubrick it was.", 0.9, {"Stanley Kubrick": 0.9}, 0.05)
    second = stored.store(stored.payload((little, other), "Who directed the film?"))
    first = stored.store()
    assert [one.asked for one in _touched(ODYSSEY[0].block_id)] == [first, second]


def _kept(number: int) -> list[AskedAnswer]:
    """Answers that turn out differently without Kubrick's two blocks, and, every third, in the same way."""
    sure = tuple(replace(one, offers={"Stanley Kubrick": 0.9}) for one in ODYSSEY)
    return [stored.store(stored.payload(sure) if one % 3 == 2 else None) for one in range(number)]


KUBRICK = [ODYSSEY[0].block_id, ODYSSEY[1].block_id]


def test_all_are_counted_and_those_that_differ_are_listed_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(touched_module, "_SLICE", 4)
    _kept(11)
    touched = Touched(KUBRICK)
    worked_out = touched.worked_out()
    outcomes = Counter(one.outcome.value for one in _touched(*KUBRICK))
    assert len(outcomes) > 1 and worked_out.summary == Summary(11, 11, outcomes)
    assert worked_out.summary.left == 0
    differing = [one.asked.pk for one in _touched(*KUBRICK) if one.outcome != Outcome.SAME]
    assert [row["answer"] for row in worked_out.differing] == differing
    assert worked_out.summary.differing == len(differing)
    assert Touched([_id("HAL 9000")]).worked_out().summary.differing == 0


def test_the_next_request_goes_on_where_the_time_ran_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(touched_module, "_SLICE", 4)
    _kept(11)
    recomputed: list[int] = []
    known_before = Touched._outcomes
    monkeypatch.setattr(Touched, "_outcomes", lambda own, ids: recomputed.append(len(ids)) or known_before(own, ids))
    clock = iter(range(0, 100_000, 100))
    monkeypatch.setattr(touched_module, "time", SimpleNamespace(monotonic=lambda: float(next(clock))))
    first = Touched(KUBRICK).worked_out().summary
    assert (first.reading, first.looked_at, first.left) == (11, 4, 7) and sum(first.outcomes.values()) == 4
    glance = Touched(KUBRICK).worked_out(most=2).summary
    assert (glance.looked_at, recomputed) == (4, [4]), "what is known costs nothing"
    assert Touched(KUBRICK).worked_out().summary.looked_at == 8
    assert Touched(KUBRICK).worked_out().summary.left == 0
    assert recomputed == [4, 4, 3]
    Touched(KUBRICK).worked_out()
    assert recomputed == [4, 4, 3]


def test_at_a_glance_the_highest_posteriors_are_worked_out() -> None:
    _kept(7)
    some = Touched(KUBRICK).worked_out(most=5)
    expected = _touched(*KUBRICK)[:5]
    assert (some.summary.reading, some.summary.looked_at) == (7, 5)
    assert some.summary.outcomes == Counter(one.outcome.value for one in expected)


def test_a_purge_ends_what_is_remembered() -> None:
    kept = stored.store()
    before = Touched([ODYSSEY[0].block_id]).worked_out().summary
    assert before.outcomes == {"other_answer": 1}
    kept.tell(Answer.from_dict(kept.payload).without({ODYSSEY[2].block_id}))
    kept.save()
    Purge.objects.create(index=kept.deployment.index, document_ids=["d"], blocks=1, files=[], remaining=[], answers=1)
    assert Touched([ODYSSEY[0].block_id]).worked_out().summary.outcomes == {"other_block": 1}
