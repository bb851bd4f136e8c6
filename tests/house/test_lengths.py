"""Documents that are to be read in a few minutes stay short."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MOST_WORDS = {"docs/your-documents.md": 1500}  # some five minutes; what is for few readers has a page of its own


@pytest.mark.parametrize("document", MOST_WORDS)
def test_a_guide_is_short(document: str) -> None:
    assert len((ROOT / document).read_text(encoding="utf-8").split()) < MOST_WORDS[document]
