"""What a kind of job must say of itself, and what many kinds share."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.db import models

from realm_core.errors import RealmError
from realm_core.files import write_json
from realm_core.settings import Settings, in_toml
from webapp.artefacts.registering import record_model
from webapp.jobs.parts import Part
from webapp.kinds import Given, kind_of
from webapp.kinds.settings import Naming
from webapp.models import CorpusSnapshot, Job, ModelVersion
from webapp.questions import service as questions
from webapp.schedules import service as scheduling
from webapp.storage.places import models_dir, resolve

_UNFIT = re.compile(r"[^\w.]+", re.ASCII)  # for the name of a folder


def _nothing(_job: Job) -> None:
    return None


def _no_parts(_job: Job) -> Sequence[Part]:
    return ()


@dataclass(frozen=True)
class Kind:
    """One kind of job.

    command: what stands behind `python -m` on the command line for a job; --run is added. The same job gives the same
             command at every attempt, so that the process finds what it had finished. RealmError when the parameters
             make no sense any more.
    record:  given what the process left in result.json, make the records and return what the job's row shall keep as
             its result. Runs in a transaction, and may run again with the same result.
    made:    the result where an earlier attempt finished and died before it could say so; None: there is none.
    before:  parts that must be done before the process is started.
    beside:  parts that run as long as it does.
    distributed: whether it takes all devices that are free, and runs under torchrun where these are several GPUs.
    devices: how many it takes at most, where it is not distributed.
    yields: by how much it yields to other jobs on the same machine.
    """

    command: Callable[[Job], list[str]]
    record: Callable[[Job, dict[str, Any]], dict[str, Any]]
    made: Callable[[Job], dict[str, Any] | None] = _nothing
    before: Callable[[Job], Sequence[Part]] = _no_parts
    beside: Callable[[Job], Sequence[Part]] = _no_parts
    distributed: bool = False
    devices: int = 1
    yields: int = 0


def given(job: Job) -> Given:
    """The parameters of a job; RealmError where a record has gone."""
    return kind_of(job).of(job)


def path_of(record: Any) -> str:
    """Where the files of a record lie, for a command line."""
    return str(resolve(record.path))


def name_of(name: str, job: Job) -> str:
    """What a job's work is called: as somebody named it, or after the kind of job and the day."""
    return name.strip() or f"{job.kind} {job.created_at:%Y-%m-%d}"


def folder_name(name: str, job: Job) -> str:
    """A folder's name that no other job uses, the same at every attempt."""
    return f"{_UNFIT.sub('-', name).strip('-.')[:80] or job.kind}-{job.pk.hex[:8]}"


def overrides(settings: Settings, **changed: Any) -> list[str]:
    """Settings as `--set` takes them, some of them changed."""
    values = {**dataclasses.asdict(settings), **changed}
    return [f"--set={name}={in_toml(value)}" for name, value in values.items()]


def excluded_titles(job: Job) -> Path:
    """A file of the articles that are measured by; written at the first attempt, for all must learn from the same."""
    path = job.run_dir / "excluded-titles.json"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, questions.measured_titles())
    return path


# ---- kinds that make a model


def model_folder(job: Job) -> Path:
    """The folder of the model that a job makes."""
    return models_dir() / folder_name(_name(job), job)


def model_made(job: Job) -> dict[str, Any] | None:
    """A model folder appears whole and is this job's alone: if it is there, the job is done."""
    folder = model_folder(job)
    return {"path": str(folder)} if (folder / "config.json").exists() else None


def record_made(job: Job, result: dict[str, Any]) -> dict[str, Any]:
    """Record the model, what it was made from, and tell the schedules that wait for one."""
    first = not ModelVersion.objects.filter(job=job).exists()
    model = record_model(
        Path(result["path"]),
        name=_name(job),
        parent=_given_record(job, "model", ModelVersion),
        corpus=_given_record(job, "corpus", CorpusSnapshot),
        job=job,
    )
    if first and model.job_id == job.pk:
        scheduling.model_made(model)
    return {"model": model.pk, "name": str(model), "held_out": result.get("held_out", {})}


def model_kind(command: Callable[[Job], list[str]], **about: Any) -> Kind:
    """A kind that makes a model."""
    return Kind(command=command, record=record_made, made=model_made, **about)


def training(activity: str, job: Job, settings: type[Settings], **changed: Any) -> list[str]:
    """What every training is told: the model to start from, the corpus, where the new model goes, its settings."""
    parameters = given(job)
    return [
        *("realm_core", activity),
        f"--model={path_of(parameters['model'])}",
        f"--corpus={path_of(parameters['corpus'])}",
        f"--output={model_folder(job)}",
        *overrides(parameters.settings[settings], **changed),
    ]


def _name(job: Job) -> str:
    naming: Naming = given(job).settings[Naming]
    return name_of(naming.name, job)


def _given_record(job: Job, name: str, record: type[models.Model]) -> Any:
    """A record among the parameters, None where there is none: what was made is recorded in any case."""
    key = job.parameters.get(name)
    return None if key is None else record._default_manager.filter(pk=key).first()


def missing(path: Path, what: str) -> RealmError:
    """A file that a job needs is not there."""
    return RealmError(f"{what} is not there: {path} does not exist.")
