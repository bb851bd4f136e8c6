"""Questions about a future year: a block that does not name the year does not answer them.

The reader would mark the last winner.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Collection
from typing import Final

from realm_core.corpus.records import Block

_YEAR: Final = re.compile(r"(?<![\d.,])[2-9]\d{3}(?![\d.,]*\d)")
_GROUPED: Final = re.compile(r"(?<=\d),(?=\d{3})")


def future_years(question: str) -> frozenset[str]:
    """The years after this one that a question names."""
    return frozenset(year for year in _YEAR.findall(question) if int(year) > datetime.datetime.now(datetime.UTC).year)


def names_all(years: Collection[str], block: Block) -> bool:
    """Whether a block names all of these years, or numbers that look like them."""
    if not years:
        return True
    text = _GROUPED.sub("", f"{block.title} {block.text}")
    return all(year in text for year in years)
