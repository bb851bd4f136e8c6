"""Lowers the logits of blocks and spans that cannot answer a question, by `PENALTY`, or hardly can, by `DOUBT`.

Then another span wins, or the block says "not here"; the page still shows the best span.

The reader marks a place in the right province beside the right adjective, whatever ordinal stands before it. So to a
question for the second-largest city a block that has its superlative with its noun, but always with another ordinal,
says "not here". A narrower superlative ("the most abundant noble gas") says nothing of it. Superlatives that may tell
of other ranks, too, are left to the reader: several things ("one of the largest cities", "the largest groups are …"),
and a thing after another ("the second-largest city after Karachi"). A block that states the requested rank of its
subject ("Jupiter: the largest planet") has its spans raised: to the question "largest planet" the reader says of it
"not here", with nine to one.

Legend: L wordpieces of a block, M longest span.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from torch import Tensor

from realm_core.corpus.records import Block
from realm_core.serving.english.choices import Choices
from realm_core.serving.english.follow_ups import is_follow_up
from realm_core.serving.english.numbered_names import NumberedNames
from realm_core.serving.english.told_words import ToldWords
from realm_core.serving.english.unknown_words import DOUBT, UnknownWords
from realm_core.serving.english.wrong_kinds import WrongKind, spans_of, wrong_kind
from realm_core.serving.english.years import names_all, years_to_name
from realm_core.text.superlatives import AskedRank, Standing
from realm_core.text.wordpieces import Encoded

PENALTY: Final = 12.0  # odds of 160,000 to one against
SAID: Final = 2.0  # odds of seven to one for a block that states the requested rank


@dataclass(frozen=True)
class Rules:
    """The rules for one question."""

    years: frozenset[str]
    unknown: UnknownWords
    told: ToldWords
    numbered: NumberedNames
    is_follow_up: bool
    wrong_kind: WrongKind | None
    ranked: AskedRank | None
    choices: Choices

    @classmethod
    def of(cls, question: str) -> Rules:
        return cls(
            years_to_name(question),
            UnknownWords.of(question),
            ToldWords.of(question),
            NumberedNames.of(question),
            is_follow_up(question),
            wrong_kind(question),
            AskedRank.of(question),
            Choices.of(question),
        )

    def applied(self, logits_LM: Tensor, block: Block, body: Encoded) -> Tensor:
        """A block's span logits [L, M], lowered for spans that cannot be the answer."""
        standing = self.ranked.standing_in(block.text) if self.ranked else Standing.UNSAID
        if self.is_follow_up or not names_all(self.years, block) or standing is Standing.OTHER:
            return logits_LM - PENALTY
        doubts = (not self.told.are_in(block.title, block.text)) + self.numbered.differ_from(block.title)
        doubts += standing is Standing.NARROWER
        logits_LM = logits_LM - self.unknown.against(block, PENALTY) - DOUBT * doubts
        logits_LM = logits_LM + SAID * (standing is Standing.SAME)
        if self.choices.options:
            logits_LM = logits_LM - PENALTY * self.choices.spans_without(body, block.text, logits_LM.shape[1])
        if self.wrong_kind is not None:
            # A text in another language may count in its own words.
            amount = DOUBT if self.wrong_kind is WrongKind.UNCOUNTED else PENALTY
            return logits_LM - amount * spans_of(self.wrong_kind, body, block.text, logits_LM.shape[1])
        return logits_LM
