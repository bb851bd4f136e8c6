"""Questions that ask for yes or no, which no span of a passage says. English alone."""

from __future__ import annotations

import re

# Not "will" and "may", with which names and keywords begin.
_ASKS = re.compile(r"(?:is|are|was|were|do|does|did|has|have|had|can|could|should|would)(?:n?['’]?t)? ", re.IGNORECASE)
_ASKS_MORE = re.compile(r"\b(?:or|who|whom|whose|what|which|when|where|why|how)\b", re.IGNORECASE)


def asks_yes_or_no(question: str) -> bool:
    """Whether the answer would be yes or no: "Is a tomato a fruit?", but not "Is it red or green?"."""
    return (
        _ASKS.match(question.strip()) is not None and _ASKS_MORE.search(question) is None and len(question.split()) > 2
    )
