"""Make a first model of a sentence encoder's weights."""

from __future__ import annotations

from realm_core.training.config import WarmstartConfig
from webapp.models import Job
from workers.kinds.base import given, model_folder, model_kind, overrides, path_of


def command(job: Job) -> list[str]:
    """Corpus and settings; there is no model to start from."""
    parameters = given(job)
    return [
        *("realm_core", "warmstart"),
        f"--corpus={path_of(parameters['corpus'])}",
        f"--output={model_folder(job)}",
        *overrides(parameters.settings[WarmstartConfig]),
    ]


KIND = model_kind(command)
