"""Questions of unknown words alone, as "asdf": a block that has none of them does not answer them.

The nearest block of such a question is near by its letters only ("ASD", autism spectrum disorder).
"""

from __future__ import annotations

from collections.abc import Collection

from realm_core.corpus.records import Block
from realm_core.text.spelling import english, folded, words_of


def unknown_words(question: str) -> frozenset[str]:
    """The words of a question, folded, if none of them is an English one; otherwise none.

    None either in other scripts than the Latin one, of which some do not divide words.
    """
    words = words_of(question)
    known = any(english().count(word) or not word.isascii() for word in words)
    return frozenset() if known else frozenset(words)


def names_one(words: Collection[str], block: Block) -> bool:
    """Whether a block has one of these words, in a longer one as well; True if there are none."""
    if not words:
        return True
    text = folded(f"{block.title} {block.text}")
    return any(word in text for word in words)
