"""Years to come: a block that does not name a year to come, for which a question asks, cannot tell what happens in it.

The reader, which marks who won the last time, does not know that. The logits of all spans of such a block are lowered
by `UNTOLD`, so it says "not here", while the page still shows what came nearest.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Collection
from typing import Final

from realm_core.corpus.records import Block

UNTOLD: Final = 12.0  # odds of 160,000 to one against
_YEAR: Final = re.compile(r"(?<![\d.,])[2-9]\d{3}(?![\d.,]*\d)")
_GROUPED: Final = re.compile(r"(?<=\d),(?=\d{3})")


def coming_years(question: str) -> frozenset[str]:
    """The years after this one that a question names."""
    return frozenset(year for year in _YEAR.findall(question) if int(year) > datetime.datetime.now(datetime.UTC).year)


def names(years: Collection[str], block: Block) -> bool:
    """Whether a block names all of these years, or numbers that look like them."""
    if not years:
        return True
    text = _GROUPED.sub("", f"{block.title} {block.text}")
    return all(year in text for year in years)
