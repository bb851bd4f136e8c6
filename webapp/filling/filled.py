"""A filling prepared for the page, as `asking.shown` does for answers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from realm_core.text.masked import fill_masks
from webapp.asking.rounding import add_up
from webapp.asking.shown import Passage

if TYPE_CHECKING:
    from realm_core.serving.filled import Filling, FillingEvidence, Guess, Word
    from webapp.serving.rights import Rights

_LEAST_SCALE = 1.0  # of a utility's bar, so that negligible differences look small


@dataclass(frozen=True)
class WordView:
    """One of the most probable wordpieces. looked_for: it is the one that the page's figures refer to."""

    word: Word
    looked_for: bool


@dataclass(frozen=True)
class WayView:
    """One of the ways: its probability of the filling, and its most probable words for each mask."""

    name: str  # also the bar's colour
    probability: float | None  # None: there is no such block
    block: FillingEvidence | None  # that this way reads
    masks: tuple[tuple[WordView, ...], ...]


@dataclass(frozen=True)
class FilledBlockView:
    """A block that was read. Figures named `…_tenths` are tenths of a percent, rounded so that they add up."""

    evidence: FillingEvidence
    anchor: str  # its id in the page
    best: bool
    passage: Passage
    prior_tenths: int
    posterior_tenths: int
    contribution: float  # prior · likelihood
    utility_share: float  # of the largest of all blocks, −1 to 1
    rights: Rights | None  # its document's own; None: those of the corpus


@dataclass(frozen=True)
class FillingView:
    """All that the page shows of one filling."""

    filling: Filling
    sentence: list[tuple[str, bool]]  # with the best guess: texts, and whether they were filled in
    best: Guess
    looked_for: Guess  # the truth if it was given, else the best guess
    found: bool  # false: more probably than not, no passage says it
    ways: tuple[WayView, ...]
    blocks: tuple[FilledBlockView, ...]


def look_at(filling: Filling, rights: Mapping[str, Rights] | None = None) -> FillingView:
    """Prepare a filling for the page. rights: by block id, where its document has its own."""
    best, looked_for = filling.guesses[0], filling.explained
    best_block = next((e for e in filling.evidence if e.block_id and e.block_id == filling.best_block_id), None)
    without = _marked([mask.without_retrieval for mask in filling.masks], looked_for)
    from_best = _marked([mask.best_block for mask in filling.masks], looked_for)
    marginal = _marked([mask.marginal for mask in filling.masks], looked_for)
    return FillingView(
        filling=filling,
        sentence=fill_masks(filling.sentence, best.words),
        best=best,
        looked_for=looked_for,
        found=(filling.no_answer_probability or 0.0) <= 0.5,
        ways=(
            *([WayView("without", looked_for.without_retrieval, None, without)] if filling.masks else []),
            WayView("best", looked_for.best_block, best_block, from_best),
            WayView("marginal", looked_for.marginal, None, marginal),
        ),
        blocks=_blocks(filling, looked_for, rights or {}),
    )


def _marked(masks: Sequence[Sequence[Word]], looked_for: Guess) -> tuple[tuple[WordView, ...], ...]:
    return tuple(
        tuple(WordView(word, word.text == wanted) for word in words)
        for words, wanted in zip(masks, looked_for.words, strict=bool(masks))
    )


def _blocks(filling: Filling, looked_for: Guess, rights: Mapping[str, Rights]) -> tuple[FilledBlockView, ...]:
    evidence = filling.evidence
    priors = add_up([block.prior for block in evidence], 1.0)
    posteriors = add_up([block.posterior for block in evidence], 1.0)
    scale = max(_LEAST_SCALE, *(abs(block.utility or 0.0) for block in evidence))
    return tuple(
        FilledBlockView(
            evidence=block,
            anchor=block.block_id or "null",
            best=block.block_id is not None and block.block_id == filling.best_block_id,
            passage=_passage(block.text, looked_for.text),
            prior_tenths=prior,
            posterior_tenths=posterior,
            contribution=block.prior * block.likelihood,
            utility_share=(block.utility or 0.0) / scale,
            rights=rights.get(block.block_id or ""),
        )
        for block, prior, posterior in zip(evidence, priors, posteriors, strict=True)
    )


def _passage(text: str, wording: str) -> Passage:
    """The text, split where it first contains one of the words."""
    for words in wording.split(" … "):
        found = re.search(rf"(?<!\w){re.escape(words)}(?!\w)", text, re.IGNORECASE)
        if found:
            return Passage.cut(text, *found.span())
    return Passage.cut(text, None, None)
