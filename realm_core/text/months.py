"""The months as English texts name them, for regular expressions."""

from __future__ import annotations

FULL_MONTH = r"(?:January|February|March|April|May|June|July|August|September|October|November|December)"
