"""What is being done here: the request, the answer that was made for it, the job; every line of the log names them.

Context variables: a thread that works for a request or a job inherits nothing and says anew whom it works for.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final

_request_id: ContextVar[str] = ContextVar("request_id", default="")
_answer_id: ContextVar[str] = ContextVar("answer_id", default="")
_job_id: ContextVar[str] = ContextVar("job_id", default="")

_ALL: Final = (_request_id, _answer_id, _job_id)


def get_request_id() -> str:
    """The id of the request that is being served; empty outside of one."""
    return _request_id.get()


def set_request_id(request_id: str) -> None:
    """Say which request is being served, "" for none any more; no answer has been kept for it so far."""
    _request_id.set(request_id)
    _answer_id.set("")


def set_answer_id(answer_id: str) -> None:
    """Say which answer was kept, the latest of several."""
    _answer_id.set(answer_id)


def set_job_id(job_id: str) -> None:
    """Say which job is being worked on, "" for none any more."""
    _job_id.set(job_id)


def known_ids() -> dict[str, str]:
    """Those of request_id, answer_id and job_id that are known."""
    return {variable.name: value for variable in _ALL if (value := variable.get())}
