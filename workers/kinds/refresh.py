"""Rebuild the index of a running pre-training, as long as that runs."""

from __future__ import annotations

from typing import Any

from realm_core.errors import RealmError
from webapp.models import Job
from workers.kinds.base import Kind, given, path_of


def command(job: Job) -> list[str]:
    """It works in the run folder of the pre-training that it is a part of."""
    if job.parent is None:
        raise RealmError("A builder is a part of a pre-training, and this one belongs to none.")
    corpus = given(job.parent)["corpus"]
    return ["realm_core", "refresh", f"--trainer-run={job.parent.run_dir}", f"--corpus={path_of(corpus)}"]


def record(_job: Job, _result: dict[str, Any]) -> dict[str, Any]:
    """What it builds is the pre-training's, and gone when that ends."""
    return {}


KIND = Kind(command=command, record=record, yields=9)  # to its trainer above all
