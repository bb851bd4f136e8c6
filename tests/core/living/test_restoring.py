"""The places of segments that return."""

from __future__ import annotations

from realm_core.living.restoring import Step, order_of


def order(*history: Step) -> str:
    return "".join(order_of(history))


def step(segments: str, purges: int = 0, *, restoring: bool = False) -> Step:
    return Step(tuple(segments), purges, restoring)


def test_a_segment_keeps_its_place_among_those_that_stay() -> None:
    assert order(step("AB"), step("ABC"), step("AC"), step("ACD")) == "ABCD"
    assert order(step("ABC"), step("A"), step("AD")) == "ABCD"


def test_a_segment_that_an_equal_edit_brings_back_is_the_last() -> None:
    assert order(step("AB"), step("B"), step("BA")) == "BA"
    assert order(step("ABC"), step("AC"), step("C"), step("CA")) == "BCA"


def test_a_segment_that_was_restored_is_where_it_was() -> None:
    assert order(step("AB"), step("A"), step(""), step("B", restoring=True)) == "AB"
    assert order(step("ABC"), step("AC"), step("A"), step("AC", restoring=True)) == "ABC"


def test_the_copy_that_a_purge_makes_has_the_place_of_its_segment() -> None:
    assert order(step("ABC"), step("AC"), step("AX", 1), step("AXD", 1)) == "ABXD"
    assert order(step("ABC"), step("AC"), step("A", 1)) == "ABC"


def test_where_a_copy_is_of_one_of_two_segments_no_place_beside_it_is_known() -> None:
    assert order(step("ABC"), step("AC"), step("X", 1), step("XD", 1)) == "XD"
