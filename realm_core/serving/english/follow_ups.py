"""Questions that only an earlier one explains: "And when did he die?", "Who was his wife?", "Why?".

The reader would mark anybody's death or wife. So no block answers them.
"""

from __future__ import annotations

import re

_COPULA = r"(?:['’]?s| (?:is|are|am|was|were|does|do|did|has|have|had|will|would|can|could|should))"
_FOLLOW_UP = re.compile(
    r"(?:(?:and|but|so|then|ok|okay)\b[\s,]*)*"
    r"(?:who|when|where|why|(?:how|what|which)(?: (?!who|what|when|where|why|how)[\w-]+){0,2}?)"
    rf"{_COPULA} (?:he|she|it|his|her|its)\b"
    r"(?: [\w'’-]+){0,2}\W*"
    rf"|(?:who|when|where|why|how|what|which){_COPULA}?\W*",
    re.IGNORECASE,
)


def is_follow_up(question: str) -> bool:
    """Whether a question names its subject only by a pronoun, or not at all."""
    return _FOLLOW_UP.fullmatch(" ".join(question.split())) is not None
