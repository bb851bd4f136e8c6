"""Warm the embedder up: the Inverse Cloze Task."""

from __future__ import annotations

from realm_core.training.config import IctConfig
from webapp.models import Job
from workers.kinds.base import model_kind, training


def command(job: Job) -> list[str]:
    """Model and corpus, and the settings."""
    return training("ict", job, IctConfig)


KIND = model_kind(command, distributed=True)
