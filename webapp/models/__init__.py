"""The records: what exists on disk, what serves, what was asked and what was done."""

from webapp.models.answer import AskedAnswer, EvidenceBlock
from webapp.models.corpus import CorpusSnapshot
from webapp.models.deployment import Deployment
from webapp.models.index import IndexGeneration
from webapp.models.job import Job, JobKind, JobMetric, JobState
from webapp.models.model_version import ModelVersion

__all__ = [
    "AskedAnswer",
    "CorpusSnapshot",
    "Deployment",
    "EvidenceBlock",
    "IndexGeneration",
    "Job",
    "JobKind",
    "JobMetric",
    "JobState",
    "ModelVersion",
]
