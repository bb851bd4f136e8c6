"""Store a model small, to be deployed or taken elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from webapp.kinds.settings import OWN, ExportSettings, Naming
from webapp.models import Job
from workers.kinds.base import Kind, given, model_folder, model_made, name_of, path_of, record_made


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
        *([] if settings.min_probability is None else [f"--min-probability={settings.min_probability}"]),
        *([] if settings.normalisation == OWN else [f"--normalisation={settings.normalisation}"]),
    ]


def record(job: Job, result: dict[str, Any]) -> dict[str, Any]:
    """The model, and how small it became."""
    size_bytes = sum(path.stat().st_size for path in Path(result["path"]).iterdir())
    return {**record_made(job, result), "bytes": size_bytes}


KIND = Kind(command=command, record=record, made=model_made)
