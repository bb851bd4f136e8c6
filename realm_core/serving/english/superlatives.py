"""Questions for the second-largest city: a block that only tells of the largest does not answer them, nor the reverse.

The reader marks a place in the right province beside the right adjective, whatever ordinal stands before it. So a
block that has the question's superlative with its noun, but always with another ordinal, says "not here". A narrower
superlative ("the most abundant noble gas") says nothing of it. Superlatives that may tell of other ranks, too, are left
to the reader: several things ("one of the largest cities", "the largest groups are …"), and a thing after another ("the
second-largest city after Karachi").

A block that states the requested rank of its subject ("Jupiter: the largest planet") has its spans raised: to the
question "largest planet" the reader says of it "not here", with nine to one.
"""

from __future__ import annotations

from realm_core.corpus.records import Block
from realm_core.text.superlatives import AskedRank, Standing


def standing_in(block: Block, asked: AskedRank | None) -> Standing:
    """What a block states about the question's rank; nothing if it has none."""
    return Standing.UNSAID if asked is None else asked.standing_in(block.text)
