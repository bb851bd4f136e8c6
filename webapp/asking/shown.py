"""A kept answer prepared for the page, with figures that add up.

Percentages have one decimal. Rounded separately, a column of them could miss its sum by a tenth, so the columns of a
sum are rounded together (`rounding.py`); a support is the difference of the two figures beside it. Exact values are in
the page's `data` elements.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from webapp.asking.rounding import TENTHS, RoundedSum, add_up, rounded_sum

if TYPE_CHECKING:
    from realm_core.serving.provenance import Answer, Evidence, RankedAnswer
    from webapp.models import CorpusChange
    from webapp.serving.pdf_places import InOriginal
    from webapp.serving.rights import Rights

_OTHERS_SHOWN = 8  # further alternatives are very improbable and summed up
_LEAST_SHOWN = 0.001  # as are alternatives less probable than that
_LEAST_TENTH = 0.0005  # is rounded to 0.1 %
_WAYS: Final[Mapping[str, str]] = {  # by normalisation
    "block": "each by itself, and each had to offer an answer",
    "block+null": "each by itself, and each could say “not here”",
    "joint": "and their answers weighed against each other all at once",
}


@dataclass(frozen=True)
class Passage:
    """A text split at its marked part; `marked` is empty if there is none."""

    before: str
    marked: str
    after: str

    @classmethod
    def cut(cls, text: str, start: int | None, end: int | None) -> Passage:
        if start is None or end is None:
            return cls(text, "", "")
        return cls(text[:start], text[start:end], text[end:])


@dataclass(frozen=True)
class BlockView:
    """One block that was read. Figures named `…_tenths` are tenths of a percent, rounded so that they add up."""

    evidence: Evidence
    place: int  # position on the page, from 1: the rank among all blocks read
    removed: bool
    passage: Passage
    contribution: float  # prior · likelihood
    prior_tenths: int
    posterior_tenths: int
    added: tuple[int, int, int]  # prior, likelihood and their product as the sum shows them, in its units
    gone: CorpusChange | None  # the change that removed it from the search
    original: InOriginal | None  # its place in the kept PDF that it is from
    rights: Rights | None  # its document's own; None: those of the corpus
    private: str  # what its collection is called, if not everybody reads it

    @property
    def support_tenths(self) -> int:
        return self.posterior_tenths - self.prior_tenths


@dataclass(frozen=True)
class AnswerOutcome:
    """A possible outcome of the question, with its probability."""

    text: str
    kind: str  # "answer", "no_answer" or "rest"
    probability: float
    also: tuple[str, ...]  # other wordings of the answer, whose probabilities are included
    tenths: int | None  # None: shown as "< 0.1 %", and left out of sums


@dataclass(frozen=True)
class ShownAnswer:
    """All that the page shows of one answer, with or without some of its blocks."""

    answer: Answer  # recomputed when blocks are removed
    full: Answer  # as it was given first
    blocks: tuple[BlockView, ...]  # all blocks read, in the order of the full answer
    probability: float  # of the outcome that the figures refer to
    sum: RoundedSum  # prior · likelihood of each block that is kept
    explained: str  # the answer that they refer to; empty: no answer
    outcomes: tuple[AnswerOutcome, ...]

    @property
    def kept(self) -> tuple[BlockView, ...]:
        return tuple(block for block in self.blocks if not block.removed)

    @property
    def marked(self) -> tuple[BlockView, ...]:
        """The blocks in which the answer, or the best candidate, is marked."""
        return tuple(block for block in self.kept if block.passage.marked)

    @property
    def further_sources(self) -> int:
        """The number of marked blocks after the first that the answer owes at least 0.1 % to."""
        return sum(block.posterior_tenths > 0 for block in self.marked[1:])

    @property
    def removed_ids(self) -> list[str]:
        return [block.evidence.block_id for block in self.blocks if block.removed]

    @property
    def gone(self) -> int:
        """The number of blocks that are no longer searched."""
        return sum(block.gone is not None for block in self.blocks)

    @property
    def probability_tenths(self) -> int:
        return round(self.probability * TENTHS)

    @property
    def joint(self) -> bool:
        """Whether the prior depends on the blocks' text, so that the retriever's own prior is another number."""
        return self.answer.normalisation == "joint"

    @property
    def way(self) -> str:
        """How the passages were read, in words."""
        return _WAYS[self.full.normalisation]

    @property
    def weight_name(self) -> str:
        """What the factor of the likelihood is called: under `joint` it is no prior (docs/how-it-computes.md)."""
        return "weight" if self.joint else "prior"


def shown_answer(
    payload: dict[str, Any],
    without: Collection[str] = (),
    gone: Mapping[str, CorpusChange] | None = None,
    originals: Mapping[str, InOriginal] | None = None,
    rights: Mapping[str, Rights] | None = None,
    private: Mapping[str, str] | None = None,
) -> ShownAnswer:
    """A kept answer for its page, without some of its blocks; unknown ids of blocks are ignored.

    gone: blocks that are no longer searched, each with the change that removed it.
    originals: where blocks stand in kept PDFs. rights: of blocks whose document has its own.
    private: collections that not everybody reads, and what they are called.
    """
    from realm_core.serving.provenance import Answer

    full = Answer.from_dict(payload)
    removed = {block.block_id for block in full.evidence} & set(without)
    answer = full.without(removed) if removed else full

    probability, explained = _outcome_explained(answer)
    kept = {block.block_id: block for block in answer.evidence}
    ids = list(kept)
    summed = rounded_sum([kept[i].prior for i in ids], [kept[i].likelihood for i in ids], probability)
    added = dict(zip(ids, zip(summed.priors, summed.likelihoods, summed.products, strict=True), strict=True))
    # Those of the sum, unless it takes more decimals than the blocks show.
    tenths = summed.priors if summed.decimals == 1 else add_up([kept[i].prior for i in ids], 1.0)
    priors = dict(zip(ids, tenths, strict=True))
    posteriors = dict(zip(ids, add_up([kept[i].posterior for i in ids], 1.0), strict=True))
    blocks = []
    for place, original in enumerate(full.evidence, start=1):
        is_removed = original.block_id in removed
        block = original if is_removed else kept[original.block_id]
        blocks.append(
            BlockView(
                evidence=block,
                place=place,
                removed=is_removed,
                passage=Passage.cut(block.text, None if is_removed else block.start, None if is_removed else block.end),
                contribution=block.prior * block.likelihood,
                prior_tenths=priors.get(block.block_id, 0),
                posterior_tenths=posteriors.get(block.block_id, 0),
                added=added.get(block.block_id, (0, 0, 0)),
                gone=gone.get(block.block_id) if gone else None,
                original=originals.get(block.block_id) if originals else None,
                rights=rights.get(block.block_id) if rights else None,
                private=private.get(block.collection, "") if private else "",
            )
        )
    return ShownAnswer(
        answer=answer,
        full=full,
        blocks=tuple(blocks),
        probability=probability,
        sum=summed,
        explained=explained,
        outcomes=_outcomes(answer),
    )


def _outcome_explained(answer: Answer) -> tuple[float, str]:
    if answer.explains == "no_answer" or not answer.answers:
        return answer.no_answer_probability or 0.0, ""
    return answer.answers[0].probability, answer.answers[0].text


def _outcomes(answer: Answer) -> tuple[AnswerOutcome, ...]:
    """All outcomes: the answers, "not here" and, summed up, everything that was not stored by name.

    Without "not here" if that is the outcome which the page explains.
    """
    others: Sequence[RankedAnswer] = answer.answers[1:] if answer.explains != "no_answer" else answer.answers
    nearest = others[:1] if answer.explains == "no_answer" else []  # which the headline names, however improbable
    shown = [*nearest, *(other for other in others[len(nearest) :] if other.probability >= _LEAST_SHOWN)]
    rows = [(other.text, "answer", other.probability, other.also) for other in shown[:_OTHERS_SHOWN]]
    if answer.no_answer_probability is not None and answer.explains != "no_answer":
        rows.append(("", "no_answer", answer.no_answer_probability, ()))
    top = _outcome_explained(answer)[0]
    rest = 1.0 - top - sum(probability for _, _, probability, _ in rows)
    if answer.evidence and rest > _LEAST_TENTH:
        rows.append(("", "rest", rest, ()))
    rows.sort(key=lambda row: (row[1] != "answer", row[1] == "rest"))
    rounded = [row for row in rows if row[2] >= _LEAST_TENTH]
    probabilities = [probability for _, _, probability, _ in rounded]
    tenths = dict(zip(rounded, add_up(probabilities, sum(probabilities)), strict=True))
    first: tuple[AnswerOutcome, ...] = ()
    if answer.explains != "no_answer" and answer.answers:
        best = answer.answers[0]
        first = (AnswerOutcome(best.text, "answer", best.probability, best.also, round(best.probability * TENTHS)),)
    return (*first, *(AnswerOutcome(*row, tenths.get(row)) for row in rows))
