"""Questions for the second-largest city: a block that only tells of the largest does not answer them, nor the reverse.

The reader marks a place in the right province beside the right adjective, whatever ordinal stands before it. So a
block that has the question's superlative with its noun, but always with another ordinal, says "not here". What is of
something narrower ("the most abundant noble gas") says nothing of it, and what may tell of other ranks, too, is left to
the reader: several things ("one of the largest cities", "the largest groups are …"), and what comes after another ("the
second-largest city after Karachi").
"""

from __future__ import annotations

from realm_core.corpus.records import Block
from realm_core.text.superlatives import Ranked, ranked_in


def ranked_of(question: str) -> Ranked | None:
    """What a question asks for by a superlative with a noun; None where it has none, or several."""
    found = [one for one in ranked_in(question) if one.nouns]
    return found[0] if len(found) == 1 and found[0].alone else None


def names_other_places(asked: Ranked | None, block: Block) -> bool:
    """Whether a block has the superlative of a question with its noun, but in other places alone."""
    if asked is None:
        return False
    same = (one for one in ranked_in(block.text) if one.superlative == asked.superlative)
    own = [one for one in same if one.nouns and one.nouns <= asked.nouns]
    return bool(own) and all(one.alone and one.place != asked.place for one in own)
