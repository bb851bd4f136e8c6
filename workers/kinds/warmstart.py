"""Make a first model of a sentence encoder's weights."""

from __future__ import annotations

from webapp.kinds.settings import WarmstartSettings
from webapp.models import Job
from workers.kinds.base import given, model_folder, model_kind, path_of


def command(job: Job) -> list[str]:
    """Options, not --set: `warmstart` has no file of settings."""
    parameters = given(job)
    settings: WarmstartSettings = parameters.settings[WarmstartSettings]
    return [
        *("realm_core", "warmstart"),
        f"--corpus={path_of(parameters['corpus'])}",
        f"--output={model_folder(job)}",
        f"--dimension={settings.dimension}",
        f"--sample={settings.sample}",
        f"--scale={settings.scale}",
        f"--seed={settings.seed}",
    ]


KIND = model_kind(command)
