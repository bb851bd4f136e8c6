"""Which questions ask for yes or no."""

from __future__ import annotations

import pytest

from realm_core.text.yes_or_no import asks_yes_or_no


@pytest.mark.parametrize(
    ("question", "asks"),
    [
        ("Is a tomato a fruit?", True),
        ("did einstein win a nobel prize", True),
        (" Can't penguins fly?", True),
        ("Is Jupiter or Saturn larger?", False),
        ("Do you know who wrote Hamlet?", False),
        ("Who is it?", False),
        ("island of elba", False),
        ("Will Smith birthplace city", False),
        ("Is it?", False),
        ("", False),
    ],
)
def test_what_asks_for_yes_or_no(question: str, asks: bool) -> None:
    assert asks_yes_or_no(question) is asks
