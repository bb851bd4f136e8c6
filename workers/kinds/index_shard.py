"""Embed one shard of an index, a part of its build."""

from __future__ import annotations

from typing import Any

from realm_core.errors import RealmError
from webapp.kinds.settings import ShardSettings
from webapp.models import Job
from workers.kinds import index
from workers.kinds.base import Kind, given


def command(job: Job) -> list[str]:
    """The build's own command, for one shard."""
    if job.parent is None:
        raise RealmError("A shard is a part of an index build, and this one belongs to none.")
    settings: ShardSettings = given(job).settings[ShardSettings]
    return [*index.command(job.parent), f"--shard={settings.shard}"]


def record(_job: Job, result: dict[str, Any]) -> dict[str, Any]:
    """Nothing is recorded before the whole is published."""
    return {"shard": result["shard"], "rows": result["rows"]}


KIND = Kind(command=command, record=record)
