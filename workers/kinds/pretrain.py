"""Pre-train, with the builder of the index as a part that another worker may run."""

from __future__ import annotations

from collections.abc import Sequence

from realm_core.training.config import PretrainConfig
from webapp.jobs.parts import Part
from webapp.models import Job, JobKind
from workers.kinds.base import given, model_kind, path_of, training

_BESIDE = "process"  # the setting under which somebody must rebuild the index


def command(job: Job) -> list[str]:
    """The builder is a job of its own, so the trainer is told that somebody else starts it."""
    parameters = given(job)
    settings: PretrainConfig = parameters.settings[PretrainConfig]
    refresh = "elsewhere" if settings.refresh == _BESIDE else settings.refresh
    sentences = parameters["sentences"]
    return [
        *training("pretrain", job, PretrainConfig, refresh=refresh),
        f"--index={path_of(parameters['index'])}",
        f"--spans={path_of(parameters['spans'])}",
        *([f"--sentences={path_of(sentences)}"] if sentences else []),
    ]


def builder(job: Job) -> Sequence[Part]:
    """The part that rebuilds the index, where the settings want one."""
    settings: PretrainConfig = given(job).settings[PretrainConfig]
    return [Part(JobKind.REFRESH, {})] if settings.refresh == _BESIDE else []


KIND = model_kind(command, beside=builder, distributed=True)
