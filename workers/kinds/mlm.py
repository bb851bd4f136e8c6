"""Warm the encoder up: masked language without retrieval."""

from __future__ import annotations

from realm_core.training.config import MlmConfig
from webapp.models import Job
from workers.kinds.base import model_kind, training


def command(job: Job) -> list[str]:
    """Model and corpus, and the settings."""
    return training("mlm", job, MlmConfig)


KIND = model_kind(command, distributed=True)
