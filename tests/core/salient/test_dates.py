"""What the pattern matches as a date, and what it must not match."""

from __future__ import annotations

import time

import pytest

from realm_core.salient.dates import dates, holds_date


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("It was opened on 17 November 1869.", ["17 November 1869"]),
        ("On November 17, 1869, it was opened.", ["November 17, 1869"]),
        ("On the 3rd of May it rained.", ["3rd of May"]),
        ("From 15–17 March 1990 and March 15–17.", ["15–17 March 1990", "March 15–17"]),
        ("In May 1920 and Nov. 1869, and on 1 Sept 1939.", ["May 1920", "Nov. 1869", "1 Sept 1939"]),
        ("published 2005-11-17", ["2005-11-17"]),
        ("In 1999, 2000. 2001: (2002) and 2003's", ["1999", "2000", "2001", "2002", "2003"]),
        ("Years run from 1000 to 2099, not 999 or 2100.", ["1000", "2099"]),
        ("the war of 1914–1918, of 1939-45, the season 2001/02", ["1914–1918", "1939-45", "2001/02"]),
        ("(born 1975; since 1980–)", ["1975", "1980"]),
        ("the 1990s, the mid-1990s, the '90s and post-1945", ["1990s", "1990s", "'90s", "1945"]),
        ("the 19th century and the nineteenth-century novel", ["19th century", "nineteenth-century"]),
        ("in the 19th and 20th centuries", ["19th and 20th centuries"]),
        ("5th century BC, 44 BC, AD 79, 300–200 BCE", ["5th century BC", "44 BC", "AD 79", "300–200 BCE"]),
        ("Every December, by April, mid-July", ["December", "April", "July"]),
    ],
)
def test_dates(text: str, found: list[str]) -> None:
    spans = dates(text)
    assert [text[span.start : span.end] for span in spans] == found
    assert {span.label for span in spans} == {"DATE"}
    assert holds_date(text)


@pytest.mark.parametrize(
    "text",
    [
        "It cost $1900 or £1,500.",
        "1500.5 and 11999 and 19990",
        "It is 1999 km long, 1200 people live there, 1000 kbit/s.",
        "No. 1999, Route 1066, A1999, 1999x, 1999-style",
        "12:1500, 10.1999/1234",
        "May said that March Field was there. Theresa May left.",
        "In May Sarton's novel",
        "the second, the third of five",
        "",
    ],
)
def test_no_dates(text: str) -> None:
    assert [text[span.start : span.end] for span in dates(text)] == []
    assert not holds_date(text)


@pytest.mark.parametrize("text", ["1999-" * 20_000, "1" * 100_000, "May " * 25_000, "3rd and " * 12_000, " " * 100_000])
def test_no_text_takes_superlinear_time(text: str) -> None:
    started = time.process_time()
    dates(text)
    assert time.process_time() - started < 2
