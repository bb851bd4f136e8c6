"""What a kind of job must say of itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from webapp.models import Job


@dataclass(frozen=True)
class Kind:
    """One kind of job.

    command: what stands behind `python` on the command line for a job; --run is added. The same job gives
             the same command at every attempt, so that the process finds what it had finished. RealmError
             when the parameters make no sense any more.
    record:  given what the process left in result.json, make the records and return what the job's row
             shall keep as its result. Runs in a transaction, and may run again with the same result.
    """

    command: Callable[[Job], list[str]]
    record: Callable[[Job, dict[str, Any]], dict[str, Any]]
