"""What the server tells askers, as frozen dataclasses. Fields that a newer server adds are left aside."""

from __future__ import annotations

import datetime as dates
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Literal

from realm_client._errors import ApiError
from realm_client._ledger import GoneEvidence


@dataclass(frozen=True)
class DocumentFilter:
    """Which documents a question is looked in. Each field that is given must hold; of its values, any will do.

    titles: as they are written. since, until: the first and the last day; documents without a date are left out.
    """

    languages: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    titles: tuple[str, ...] = ()
    since: dates.date | None = None
    until: dates.date | None = None

    def body(self) -> dict[str, Any]:
        """What is given of it, as it is sent."""
        given = {one.name: value for one in fields(self) if (value := getattr(self, one.name))}
        return {name: list(value) if isinstance(value, tuple) else value.isoformat() for name, value in given.items()}


@dataclass(frozen=True)
class Question:
    """A question of a batch. k: how many blocks to read. exclude: ids of blocks that must not be read.

    collections: names of those to look in; none: all that one may read. as_typed: do not correct the spelling.
    """

    question: str
    k: int | None = None
    exclude: tuple[str, ...] = ()
    collections: tuple[str, ...] = ()
    filters: DocumentFilter | None = None
    as_typed: bool = False


@dataclass(frozen=True)
class RankedAnswer:
    """A candidate with its probability, the sum over the blocks read of prior × likelihood.

    also: other wordings in the evidence that name the same thing; their probability is in the sum.
    likelihood: p(answer | block, question) of the block where it is highest.
    """

    text: str
    probability: float
    also: tuple[str, ...] = ()
    likelihood: float | None = None


@dataclass(frozen=True)
class Candidate:
    """An answer that one block offers. start, end: its best reading, in characters of the block's text."""

    key: str
    text: str
    likelihood: float
    start: int
    end: int


@dataclass(frozen=True)
class Evidence:
    """A block that was read. start, end: where it says the answer; None where it does not.

    licence, attribution: of its document; empty: not stated.
    """

    rank: int
    block_id: str
    title: str
    text: str
    section: str
    url: str
    start: int | None
    end: int | None
    prior: float
    likelihood: float
    posterior: float
    support: float
    retriever_score: float
    retriever_prior: float
    no_answer_likelihood: float | None
    candidates: tuple[Candidate, ...]
    collection: str = ""
    opens: bool = True
    licence: str = ""
    attribution: str = ""

    @property
    def quote(self) -> str | None:
        """The words that say the answer."""
        return None if self.start is None else self.text[self.start : self.end]


@dataclass(frozen=True)
class Answer:
    """A kept answer with everything that it was made from.

    answer: None where the blocks hold none. serving_ms: what keeping it took, {} where that is not known.
    confidence: how often answers like the best one are right. collections, filters: where it was looked for.
    read_as: its spelling corrected, or a topic as a question; empty: as typed. evidence_gone: what is not searched any
    more. purged_at: when blocks were last purged; the others say which. question_language,
    passage_language: of the question and of the passage with the answer, where not the models' own.
    """

    id: str
    created_at: datetime
    without: tuple[str, ...]
    question: str
    answer: RankedAnswer | None
    no_answer_probability: float | None
    answers: tuple[RankedAnswer, ...]
    evidence: tuple[Evidence, ...]
    explains: str
    normalisation: str
    min_probability: float
    model: str
    index: str
    corpus: str
    latency_ms: float
    timings_ms: dict[str, float]
    serving_ms: dict[str, float] = field(default_factory=dict)
    collections: tuple[str, ...] = ()
    filters: DocumentFilter = field(default_factory=DocumentFilter)
    confidence: float | None = None
    min_confidence: float = 0.0
    confidence_slope: float = 1.0
    confidence_offset: float = 0.0
    confidence_likelihood: float = 0.0
    confidence_margin: float = 0.0
    read_as: str = ""
    evidence_gone: tuple[GoneEvidence, ...] = ()
    purged_at: datetime | None = None
    corpus_share: float = 1.0
    question_language: str | None = None
    passage_language: str | None = None

    @property
    def text(self) -> str | None:
        """The answer's words; None where none was found."""
        return self.answer.text if self.answer else None

    @property
    def probability(self) -> float | None:
        """Of the answer."""
        return self.answer.probability if self.answer else None


@dataclass(frozen=True)
class Contender:
    """An answer, and the block that speaks for it most. text: None for “not here”, or where no span is right."""

    text: str | None
    probability: float
    block_id: str
    title: str


@dataclass(frozen=True)
class Why:
    """Why an answer is wrong.

    cause: right, withheld, outweighed, misread, not_retrieved, not_in_corpus, or not_read where the corpus is gone.
    detail: the same in plain sentences. chosen, right: with their probabilities over all blocks, under misread with
    those in the right block, as no_answer_probability is. rank: of the best block that holds the right answer, under
    not_retrieved; looked_at: in how many ranks it was looked for.
    """

    cause: str
    detail: str
    chosen: Contender | None
    right: Contender | None
    no_answer_probability: float | None
    rank: int | None
    looked_at: int | None


@dataclass(frozen=True)
class ListedAnswer:
    """A kept answer in a list."""

    id: str
    question: str
    answer: str | None
    probability: float | None
    no_answer_probability: float | None
    k: int
    deployment: int
    latency_ms: float
    created_at: datetime
    evidence_changed: bool = False


@dataclass(frozen=True)
class Result:
    """What came of one question of a batch: `answer` or `error`. index: which of the questions, from 0."""

    index: int
    answer: Answer | None
    error: ApiError | None


@dataclass(frozen=True)
class RetrievedBlock:
    """A block that was found and not read. prior: softmax of the scores over the blocks found.

    licence, attribution: of its document; empty: not stated.
    """

    rank: int
    block_id: str
    title: str
    text: str
    section: str
    url: str
    score: float
    prior: float
    collection: str = ""
    licence: str = ""
    attribution: str = ""


@dataclass(frozen=True)
class Retrieval:
    """The best blocks for a question."""

    question: str
    blocks: tuple[RetrievedBlock, ...]
    model: str
    index: str
    corpus: str
    read_as: str = ""


@dataclass(frozen=True)
class Block:
    """A block of a corpus. previous, next: ids of its neighbours in the article.

    licence, attribution: of the article; empty where they are not stated. collection: that the article is in.
    """

    block_id: str
    title: str
    text: str
    section: str
    url: str
    start: int
    end: int
    previous: str | None
    next: str | None
    corpus: str
    licence: str = ""
    attribution: str = ""
    collection: str = ""


@dataclass(frozen=True)
class Place:
    """Where a block stands in its article."""

    block_id: str
    section: str
    start: int
    end: int


@dataclass(frozen=True)
class Article:
    """The article of a block."""

    title: str
    text: str
    url: str
    licence: str
    attribution: str
    blocks: tuple[Place, ...]
    corpus: str


@dataclass(frozen=True)
class Feedback:
    """One's own feedback on an answer. review: waiting, accepted or refused."""

    answer: str
    right: bool | None
    block_id: str
    better_answer: str
    review: str
    changed_at: datetime


@dataclass(frozen=True)
class NewDocument:
    """A document to be added, or what one is to be: a text or an address, or neither where a file is sent.

    id: of a new one; made up if empty. What is None stays as it is in the document that is changed. Of a new one,
    licence and attribution are not stated then, the collection is the corpus's own, which is called as the corpus is,
    url is what its source says, and language, too, or what its text tells. Empty: there is none. new_collection: a
    collection that is not there may be made, which everybody reads. more_readers: it may leave a private collection for
    one that more may read. Without them, such an edit is a Conflict (a new collection only where some are private).
    """

    text: str = ""
    address: str = ""
    title: str = ""
    id: str = ""
    url: str | None = None
    licence: str | None = None
    attribution: str | None = None
    language: str | None = None
    date: dates.date | Literal[""] | None = None
    tags: tuple[str, ...] | None = None
    collection: str | None = None
    new_collection: bool = False
    more_readers: bool = False

    def body(self) -> dict[str, Any]:
        """What is sent of it: whatever is not left as it is by default."""
        told: dict[str, Any] = {
            one.name: value for one in fields(self) if (value := getattr(self, one.name)) != one.default
        }
        if isinstance(self.date, dates.date):
            told["date"] = self.date.isoformat()
        return told | ({} if self.tags is None else {"tags": list(self.tags)})


@dataclass(frozen=True)
class ListedDocument:
    """A document of the corpus that answers. status: current, changed, removed or purged. blocks: that are searched.

    format: what it was read from; base: it came with the corpus. added_at: None where no edit has touched it.
    warnings: sentences about what was guessed or not read of what it was read from, and about its language.
    """

    id: str
    title: str
    url: str
    blocks: int
    status: str
    format: str
    warnings: tuple[str, ...]
    added_at: datetime | None
    changed_at: datetime | None


@dataclass(frozen=True)
class EditedDocument(ListedDocument):
    """A document that an edit named, as it is now. version: that this edit left, for `if_match`; None: not known."""

    version: str | None = None


@dataclass(frozen=True)
class Passage:
    """A block of a document as it is searched."""

    block_id: str
    section: str
    text: str


@dataclass(frozen=True)
class Document(ListedDocument):
    """A document with its text; without text and passages once it is removed. corpus: the state that this is of.

    licence, attribution: empty: not stated.
    original: the address of the PDF that it was read from (`document_original` gets it); None: none is kept.
    version: of text and metadata, for `if_match`; None: it was removed.
    """

    licence: str
    attribution: str
    language: str
    date: dates.date | None
    tags: tuple[str, ...]
    collection: str
    text: str
    passages: tuple[Passage, ...]
    corpus: str
    original: str | None = None
    version: str | None = None


@dataclass(frozen=True)
class Edit:
    """What an edit did. corpus: the state since, as answers name it. changes: documents that are not as they were.

    new_collections: names of those that it made, which everybody reads.
    """

    corpus: str
    documents: tuple[EditedDocument, ...]
    changes: int
    timings_ms: dict[str, float]
    new_collections: tuple[str, ...] = ()


@dataclass(frozen=True)
class PurgedFile:
    """A file that is no more, and the one that took its place, if one did."""

    path: str
    sha256: str
    successor: str | None
    successor_sha256: str | None


@dataclass(frozen=True)
class HeldFolder:
    """A folder that held documents when they were purged, an index's or a corpus's.

    stage: answers (fold it), removable, used (by something else) or removed.
    """

    path: str
    stage: str
    index: int | None
    corpus: int | None


@dataclass(frozen=True)
class Purge:
    """The receipt of a purge. blocks: of all versions. answers: kept ones from which passages were taken, by their ids.

    remaining: folders that still hold documents, those of the corpus that they came with. holding: what they are now.
    """

    id: str
    at: datetime
    documents: tuple[str, ...]
    blocks: int
    answers: int
    files: tuple[PurgedFile, ...]
    remaining: tuple[str, ...]
    holding: tuple[HeldFolder, ...]
    answer_ids: tuple[str, ...] = ()
