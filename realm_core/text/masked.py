"""Masked sentences as users write them: `An equilateral triangle … because 3 is a [MASK] prime.`

One `[MASK]`, in upper or lower case, stands for one wordpiece. The web application imports this module, so it must not
load a tokenizer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby

MASK = "[MASK]"
MOST_MASKS = 10  # of a sentence, in pre-training and when it is filled

_MASK = re.compile(re.escape(MASK), re.IGNORECASE)
_WORD = re.compile(r"\w+")


def between_masks(sentence: str) -> list[str]:
    """The texts before, between and after the masks: one more than there are masks."""
    return _MASK.split(sentence)


def fill_masks(sentence: str, words: Sequence[str]) -> list[tuple[str, bool]]:
    """The sentence with a wordpiece in place of each mask, as pairs (text, whether it was filled in).

    A continuation (`##mat`) is joined to the text before it; adjacent masks become one text.

    >>> fill_masks("3 is a [MASK] [MASK] prime.", ["fe", "##rmat"])
    [('3 is a ', False), ('fermat', True), (' prime.', False)]
    """
    first, *following = between_masks(sentence)
    texts = [(first, False)]
    for number, (word, after) in enumerate(zip(words, following, strict=True), start=1):
        if word.startswith("##"):
            before, filled = texts[-1]
            texts[-1] = (before.rstrip(), filled)
        texts += [(word.removeprefix("##"), True), (after, number < len(words) and not after.strip())]
    present = [(text, filled) for text, filled in texts if text]
    return [("".join(text for text, _ in run), filled) for filled, run in groupby(present, key=lambda text: text[1])]


def without_repetition(sentence: str, words: str) -> str:
    """What fills the only gap of the sentence, without the words that already stand beside the gap.

    All of the words if all of them stand there.

    >>> without_repetition("The Nile flows into the [MASK] Sea.", "Mediterranean Sea")
    'Mediterranean'
    """
    before, after = (_WORD.findall(text.casefold()) for text in between_masks(sentence))
    found = list(_WORD.finditer(words))
    said = [word[0].casefold() for word in found]
    first = next((n for n in range(len(said) - 1, 0, -1) if said[:n] == before[-n:]), 0)
    last = next((n for n in range(len(said) - 1, 0, -1) if said[-n:] == after[:n]), 0)
    if first + last >= len(said):
        return words
    return words[found[first].start() if first else 0 : found[-last - 1].end() if last else len(words)]


def filled_words(sentence: str, words: Sequence[str]) -> str:
    """Only the filled-in texts of `fill_masks`.

    >>> filled_words("[MASK] [MASK] wrote [MASK].", ["leo", "tolstoy", "novels"])
    'leo tolstoy … novels'
    """
    return " … ".join(text for text, filled in fill_masks(sentence, words) if filled)
