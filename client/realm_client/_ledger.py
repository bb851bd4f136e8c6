"""The ledger of documents: what edits did, and what that means for kept answers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class DocumentChange:
    """What one edit did to one document. kind: added, changed, removed, restored or purged. document: its id.

    blocks_gone, blocks_new: how many are searched no more, and since. state: of the corpus, that it led to. collection:
    that which it was put into; empty: it stayed. readers: who could read the document then. moved_from: its former one.
    """

    id: int
    kind: str
    document: str
    title: str
    at: datetime
    by: str | None
    blocks_gone: int
    blocks_new: int
    state: str
    moved_from: str = ""
    collection: str = ""
    readers: str = ""


@dataclass(frozen=True)
class GoneEvidence:
    """A block of the evidence that is not searched any more. kind: what was done to its document."""

    block_id: str
    kind: str
    at: datetime


@dataclass(frozen=True)
class WithoutBlocks:
    """What becomes of an answer. explained_by: the id of the block with the highest posterior."""

    text: str
    probability: float
    explained_by: str


@dataclass(frozen=True)
class TouchedAnswer:
    """A kept answer that read some of the blocks. answer: its id. text: None: no answer was found.

    posterior: of the blocks together. outcome: same, other_block, other_answer, no_answer or answer_given. without:
    None: there is no answer without them. asked_again: the id of the latest answer to its question asked again.
    """

    answer: str
    question: str
    text: str | None
    posterior: float
    outcome: str
    without: WithoutBlocks | None
    asked_again: str | None


@dataclass(frozen=True)
class TouchedSummary:
    """What becomes of answers without some blocks. answers: all that read them. outcomes: of those looked_at.

    looked_at: all, or as many as there was time for; then a later call goes on.
    """

    answers: int
    looked_at: int
    outcomes: dict[str, int]


@dataclass(frozen=True)
class Touched:
    """The kept answers that read some blocks: all in numbers, and those that were asked for one by one."""

    summary: TouchedSummary
    results: tuple[TouchedAnswer, ...]


@dataclass(frozen=True)
class ChangeAnswers(Touched):
    """Those that a change touched. purge: id of the purge after which none shows what it removed; None: none did."""

    purge: str | None = None  # servers before it did not say
