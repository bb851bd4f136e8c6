"""What the server tells those who run it, as frozen dataclasses. Records name one another by ids."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True)
class Said:
    """One asker's feedback on an answer, for operators. teaches: whether it can be trained on.

    answered: what was answered, None where no answer was found. by, reviewed_by: names; None for nobody in particular.
    """

    id: int
    answer: str
    question: str
    answered: str | None
    deployment: int
    right: bool | None
    better_answer: str
    block_id: str
    teaches: bool
    review: str
    by: str | None
    changed_at: datetime
    reviewed_by: str | None
    reviewed_at: datetime | None


@dataclass(frozen=True)
class Limit:
    """What a setting may be. says: in words, behind "must be". choices: empty where it is no list of words."""

    says: str
    low: float | None
    high: float | None
    choices: tuple[str, ...]


@dataclass(frozen=True)
class SourceFile:
    """A file that may be ingested, in the data folder's `sources/`."""

    name: str
    size_bytes: int


@dataclass(frozen=True)
class Setting:
    """A setting of a kind of job. type: integer, number, string, boolean, object or array.

    unit: of a number, such as blocks; help continues it: "read for a question". "": it has none.
    files: those that it may name; None: it names no file.
    """

    name: str
    type: str
    default: Any
    help: str
    limit: Limit
    files: tuple[SourceFile, ...] | None = None
    unit: str = ""


@dataclass(frozen=True)
class Input:
    """Records that a kind of job works on. list: which. many: a list of ids instead of one."""

    name: str
    list: str
    help: str
    many: bool
    required: bool
    limit_to: dict[str, str]


@dataclass(frozen=True)
class Kind:
    """A kind of job. schema: inputs and settings as JSON Schema."""

    kind: str
    title: str
    about: str
    queue: str
    inputs: tuple[Input, ...]
    settings: tuple[Setting, ...]
    schema: dict[str, Any]


@dataclass(frozen=True)
class StartingSchedule:
    """The schedule that started a job. name: its corpus, and when it runs, in words."""

    id: int
    name: str


@dataclass(frozen=True)
class Job:
    """A job of the server. result: what came of it; error: why it failed, in a sentence.

    schedule: what started it, by itself or because a person ran it; None: no schedule did, or it was removed.
    """

    id: str
    kind: str
    state: str
    queue: str
    parameters: dict[str, Any]
    progress: dict[str, Any]
    created_at: datetime
    result: dict[str, Any] | None = None
    error: str = ""
    schedule: StartingSchedule | None = None

    @property
    def is_over(self) -> bool:
        """Whether it has ended, well or not. (One that is interrupted resumes by itself.)"""
        return self.state in {"succeeded", "failed", "stopped"}


@dataclass(frozen=True)
class Log:
    """A piece of a job's log. next_offset: where the following one begins; size: of the whole; both in bytes.

    active: whether more may follow.
    """

    text: str
    next_offset: int
    size: int
    active: bool


@dataclass(frozen=True)
class Metric:
    """What a job measured at one step, by name; None where it was no finite number."""

    id: int
    step: int
    time: datetime
    values: dict[str, float | None]


@dataclass(frozen=True)
class Metrics:
    """Rows of metrics. cursor: where to go on. more: whether there are more already."""

    rows: tuple[Metric, ...]
    cursor: int
    more: bool


@dataclass(frozen=True)
class Corpus:
    """A corpus snapshot."""

    id: int
    name: str
    snapshot_id: str
    source: str
    language: str
    articles: int
    blocks: int
    licence: str
    attribution: str
    created_at: datetime


@dataclass(frozen=True)
class QuestionSet:
    """A file of questions with answers. purpose: learn or measure. questions: how many."""

    id: int
    name: str
    purpose: str
    sha256: str
    questions: int
    origin: str
    created_by: str | None
    created_at: datetime


@dataclass(frozen=True)
class SpanSet:
    """The salient spans of a corpus."""

    id: int
    corpus: int
    tagger: str
    spans: int
    blocks: int
    created_at: datetime


@dataclass(frozen=True)
class Model:
    """A model version. card: in Markdown; None in a list."""

    id: int
    name: str
    version: str
    model_hash: str
    block_hash: str
    parent: int | None
    corpus: int | None
    created_at: datetime
    card: str | None = None


@dataclass(frozen=True)
class Index:
    """An index generation: the vectors of a corpus by a model."""

    id: int
    generation: str
    model: int
    corpus: int
    rows: int
    dim: int
    created_at: datetime


@dataclass(frozen=True)
class Evaluation:
    """A measurement. figures: the rest; None in a list.

    exact_match: share of the questions; of one without an answer, silence counts as right. recall_at_5: share of the
    questions with an answer.

    sample: how many questions were drawn; 0: all. state_id: of the corpus with what was edited in it; empty: nothing
    was. Measurements of different samples or states are not comparable.
    """

    id: int
    model: int
    corpus: int
    index: int | None
    questions: int
    retriever: str
    k: int
    normalisation: str
    asked: int
    exact_match: float
    recall_at_5: float
    created_at: datetime
    figures: dict[str, Any] | None = None
    sample: int = 0
    state_id: str = ""


@dataclass(frozen=True)
class Prediction:
    """A question of a measurement. answers: what is right; empty: it has no answer. prediction: the best candidate.

    outcome: right, wrong, or withheld (right, but too unlikely to be given; exact match counts it as right). given:
    whether the best candidate was given as the answer. answer_rank: of the first block that holds a right answer; None:
    none does. blocks: titles of those read. cause: why it is right or wrong; None: that was not looked for.
    """

    number: int
    outcome: str
    question: str
    answers: tuple[str, ...]
    prediction: str
    given: bool
    probability: float
    blocks: tuple[str, ...]
    no_answer_probability: float | None = None
    confidence: float | None = None
    answer_rank: int | None = None
    cause: str | None = None


@dataclass(frozen=True)
class ScheduleRun:
    """A run of a schedule, or one that was not started because the run before was under way. at: when it began.

    outcome: what came of it, in a sentence; failed: whether it failed, or its index was to be deployed and was not;
    job: its latest.
    """

    at: datetime
    outcome: str
    failed: bool
    job: str | None


@dataclass(frozen=True)
class Schedule:
    """An automatic rebuild. when: in words. stage: of the run that is under way; empty: none is.

    last_outcome: what came of the last run, in a sentence; last_failed: whether it failed, or its index was to be
    deployed and was not; last_job: its latest job. runs: the latest, the newest first.
    """

    id: int
    corpus_name: str
    model: int | None
    trigger: str
    when: str
    hours: int | None
    at: str | None
    weekday: int | None
    ingest: bool
    questions: int | None
    deploy: bool
    enabled: bool
    stage: str
    due_at: datetime | None
    last_run_at: datetime | None
    last_outcome: str
    last_failed: bool
    last_job: str | None
    created_by: str | None
    created_at: datetime
    runs: tuple[ScheduleRun, ...] = ()


@dataclass(frozen=True)
class RetentionRule:
    """What is kept of old work. enabled: it is removed by itself. generations: indexes kept of each corpus.

    run_days: that run folders of ended jobs are kept. answer_days: that questions asked without an account are kept,
    whether it is enabled or not; 0: for ever.
    """

    enabled: bool
    generations: int
    run_days: int
    answer_days: int
    changed_at: datetime


@dataclass(frozen=True)
class AuditEntry:
    """What a person, or something by itself, did: `name` is who. details: settings, and what a person confirmed."""

    id: int
    at: datetime
    name: str
    action: str
    target: str
    details: dict[str, Any]
    job: str | None


@dataclass(frozen=True)
class Deployment:
    """A pair of model and index that answers questions, or did."""

    id: int
    model: int
    index: int
    is_active: bool
    activated_at: datetime
    deactivated_at: datetime | None
    activated_by: str | None
    note: str
