"""The current request, its answer and the current job; every line of the log names them.

Context variables are not inherited by threads: a thread that works for a request or a job sets them itself.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final

_request_id: ContextVar[str] = ContextVar("request_id", default="")
_answer_id: ContextVar[str] = ContextVar("answer_id", default="")
_job_id: ContextVar[str] = ContextVar("job_id", default="")

_ALL: Final = (_request_id, _answer_id, _job_id)


def get_request_id() -> str:
    """The id of the current request; empty outside of one."""
    return _request_id.get()


def set_request_id(request_id: str) -> None:
    """Set the current request, "" for none; it has no kept answer yet."""
    _request_id.set(request_id)
    _answer_id.set("")


def set_answer_id(answer_id: str) -> None:
    """Set the kept answer, the latest of several."""
    _answer_id.set(answer_id)


def set_job_id(job_id: str) -> None:
    """Set the current job, "" for none."""
    _job_id.set(job_id)


def known_ids() -> dict[str, str]:
    """The known ones of request_id, answer_id and job_id."""
    return {variable.name: value for variable in _ALL if (value := variable.get())}
