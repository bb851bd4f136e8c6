"""Store a model small, to be deployed or taken elsewhere."""

from __future__ import annotations

from webapp.kinds.settings import OWN, ExportSettings, Naming
from webapp.models import Job
from workers.kinds.base import given, model_folder, model_kind, name_of, path_of


def command(job: Job) -> list[str]:
    """`pack`. The block embedder stays as it is, so that indexes fit the new model, too."""
    parameters = given(job)
    settings: ExportSettings = parameters.settings[ExportSettings]
    return [
        *("realm_core", "pack"),
        f"--model={path_of(parameters['model'])}",
        f"--output={model_folder(job)}",
        f"--name={name_of(parameters.settings[Naming].name, job)}",
        f"--query={settings.query}",
        f"--reader={settings.reader}",
        f"--min-probability={settings.min_probability}",
        *([] if settings.normalisation == OWN else [f"--normalisation={settings.normalisation}"]),
    ]


KIND = model_kind(command)
