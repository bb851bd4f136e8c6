"""Sentences with gaps as people write them: `An equilateral triangle … because 3 is a [MASK] prime.`

One `[MASK]`, in any case, stands for one wordpiece. Nothing is loaded here: the web looks at sentences with it, too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby

MASK = "[MASK]"
MOST_MASKS = 10  # as many as pre-training hides in a sentence

_MASK = re.compile(re.escape(MASK), re.IGNORECASE)


def between_masks(sentence: str) -> list[str]:
    """The texts before, between and behind the masks: one more than there are masks."""
    return _MASK.split(sentence)


def written(sentence: str, words: Sequence[str]) -> list[tuple[str, bool]]:
    """The sentence with a wordpiece in place of each mask: texts in order, each with whether it was filled in.

    A wordpiece that goes on with a word (`##mat`) is put to what stands before it; masks that follow one another make
    one text.

    >>> written("3 is a [MASK] [MASK] prime.", ["fe", "##rmat"])
    [('3 is a ', False), ('fermat', True), (' prime.', False)]
    """
    first, *following = between_masks(sentence)
    texts = [(first, False)]
    for number, (word, behind) in enumerate(zip(words, following, strict=True), start=1):
        if word.startswith("##"):
            before, filled = texts[-1]
            texts[-1] = (before.rstrip(), filled)
        texts += [(word.removeprefix("##"), True), (behind, number < len(words) and not behind.strip())]
    present = [(text, filled) for text, filled in texts if text]
    return [("".join(text for text, _ in run), filled) for filled, run in groupby(present, key=lambda text: text[1])]


def wording(sentence: str, words: Sequence[str]) -> str:
    """What is filled in, alone.

    >>> wording("[MASK] [MASK] wrote [MASK].", ["leo", "tolstoy", "novels"])
    'leo tolstoy … novels'
    """
    return " … ".join(text for text, filled in written(sentence, words) if filled)
