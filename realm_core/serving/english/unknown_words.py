"""Words that no English reader knows ("asdf", "brandonium"): a block without those of a question does not answer it.

The nearest block of "asdf" is near by its letters only ("ASD", autism spectrum disorder), and that of "Who discovered
brandonium?" tells of another element. Where such a word stands among others, it may be a misspelt or a rare form that
the block words otherwise, so that counts against the block (`DOUBT`) and does not forbid it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from realm_core.corpus.records import Block
from realm_core.text.folding import folded
from realm_core.text.language import foreign_language
from realm_core.text.spelling import english, words_of

DOUBT: Final = 4.0  # odds of 55 to one against
_SHORTEST: Final = 5  # letters of an unknown word among known ones; shorter are abbreviations and slang
_TWO_ERRORS_FROM: Final = 7  # letters; as for the correction of misspelt words
_ENDING: Final = 4  # letters by which two forms of a word may differ: "New Zealander"
_SHORTEST_STEM: Final = 5


@dataclass(frozen=True)
class UnknownWords:
    """The unknown words of a question, folded. alone: it has no others."""

    words: frozenset[str] = frozenset()
    alone: bool = False

    @classmethod
    def of(cls, question: str) -> UnknownWords:
        """Empty in other languages than English and in other scripts, some of which do not divide words."""
        words = words_of(question)
        if not any(english().count(word) or not word.isascii() for word in words):
            return cls(frozenset(words), alone=True)
        unknown = frozenset(word for word in words if len(word) >= _SHORTEST and word.isascii() and _is_unknown(word))
        return cls() if unknown and foreign_language(question) else cls(unknown)

    def against(self, block: Block, most: float) -> float:
        """The amount by which a block's span logits are lowered: 0, `DOUBT`, or `most` if `alone`."""
        if not self.words:
            return 0.0
        text = folded(f"{block.title} {block.text}")
        if any(word in text for word in self.words):
            return 0.0
        if self.alone:
            return most
        others = words_of(text)
        joined = re.sub(r"[\W_]+", "", text)  # "lightbulb", "light bulb"
        named = any(word in joined or any(_alike(word, other) for other in others) for word in self.words)
        return 0.0 if named else DOUBT


@lru_cache(maxsize=10_000)
def _is_unknown(word: str) -> bool:
    """Whether a word is not English, not even misspelt."""
    return not (english().count(word) or english().count(word.removesuffix("s")) or english().near(word, errors=1))


def _alike(word: str, other: str) -> bool:
    """Whether two words may be one, misspelt ("sejuk", "seljuk") or with another ending ("utilitarism")."""
    from rapidfuzz.distance import OSA

    if other.startswith(word[: max(_SHORTEST_STEM, len(word) - _ENDING)]):
        return True
    errors = 2 if len(word) >= _TWO_ERRORS_FROM else 1
    return abs(len(word) - len(other)) <= errors and OSA.distance(word, other, score_cutoff=errors) <= errors
