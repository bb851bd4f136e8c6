"""The records: files on disk, deployments, questions, jobs and what was done."""

# ruff: noqa: F401 - they are imported for others

from webapp.models.answer import AskedAnswer, EvidenceBlock
from webapp.models.audit import AuditEntry
from webapp.models.collection import Collection
from webapp.models.corpus import CorpusSnapshot, SpanSet
from webapp.models.deployment import Deployment
from webapp.models.document import (
    BASE_FORMAT,
    GONE,
    PURGED_TITLE,
    ChangeKind,
    CorpusChange,
    CorpusState,
    Document,
    DocumentStatus,
    Fetch,
    FetchState,
    Purge,
)
from webapp.models.evaluation import Evaluation
from webapp.models.feedback import Feedback, Review
from webapp.models.gone_block import GoneBlock
from webapp.models.idempotency import IdempotencyKey
from webapp.models.index import IndexGeneration
from webapp.models.job import Job
from webapp.models.job_metric import JobMetric
from webapp.models.job_states import FETCH_QUEUE, JobKind, JobState, Queue
from webapp.models.model_version import ModelVersion
from webapp.models.process import Scheduler, WebProcess
from webapp.models.questions import Purpose, QuestionSet
from webapp.models.schedule import RetentionRule, Schedule, ScheduleRun, Trigger
from webapp.models.token import ApiToken
from webapp.models.worker import DeviceLease, Worker
