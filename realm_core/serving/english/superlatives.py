"""Questions for the second-largest city: a block that only tells of the largest does not answer them, nor the reverse.

The reader marks a place in the right province beside the right adjective, whatever ordinal stands before it. So a
block that has the question's superlative with its noun, but always with another ordinal, says "not here". What is of
something narrower ("the most abundant noble gas") says nothing of it, and what may tell of other ranks, too, is left to
the reader: several things ("one of the largest cities", "the largest groups are …"), and what comes after another ("the
second-largest city after Karachi").
"""

from __future__ import annotations

from realm_core.corpus.records import Block
from realm_core.text.superlatives import AskedRank, Standing


def names_other_places(asked: AskedRank | None, block: Block) -> bool:
    """Whether a block has the superlative of a question with its noun, but in other places alone."""
    return asked is not None and asked.standing_in(block.text) is Standing.OTHER
