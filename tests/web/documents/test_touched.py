"""What a removal touches, against answers that are worked out anew from the blocks that are left."""

from __future__ import annotations

import pytest

from tests.web.pages import stored
from tests.web.pages.stored import ODYSSEY, Read
from webapp.ledger.touched import Outcome, Summary, Touched, TouchedAnswer

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
    assert Touched(["f" * 32]).summary() == Summary(0, 0)


def test_the_highest_posterior_comes_first() -> None:
    little = Read(ODYSSEY[0].title, ODYSSEY[0].text, 0.1, {"Stanley Kubrick": 0.2}, 0.05)
    other = Read("Another", "Stanley Kubrick it was.", 0.9, {"Stanley Kubrick": 0.9}, 0.05)
    second = stored.store(stored.payload((little, other), "Who directed the film?"))
    first = stored.store()
    assert [one.asked for one in _touched(ODYSSEY[0].block_id)] == [first, second]


def test_the_summary_counts_all_and_says_how_many_it_looked_at() -> None:
    for _ in range(3):
        stored.store()
    removed = [ODYSSEY[0].block_id, ODYSSEY[1].block_id]
    assert Touched(removed).summary() == Summary(3, 3, {Outcome.OTHER_ANSWER: 3})
    assert Touched(removed).summary().differing == 3 and Touched(removed).summary().complete
    some = Touched(removed).summary(most=2)
    assert some == Summary(3, 2, {Outcome.OTHER_ANSWER: 2})
    assert not some.complete
    one_block = Touched([_id("HAL 9000")]).summary()
    assert one_block == Summary(3, 3, {Outcome.SAME: 3}) and one_block.differing == 0
