"""Codes of languages, as documents state them."""

from __future__ import annotations

import pytest

from realm_core.text.language_codes import language_code


@pytest.mark.parametrize(
    ("stated", "code"),
    [
        ("en", "en"),
        (" en-GB ", "en"),
        ("eng", "en"),
        ("FRA", "fr"),
        ("fre", "fr"),
        ("zho_Hans", "zh"),
        ("nds", "nds"),
        ("English", ""),
        ("", ""),
    ],
)
def test_two_letters_where_there_are_two(stated: str, code: str) -> None:
    assert language_code(stated) == code
