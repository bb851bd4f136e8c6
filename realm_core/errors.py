"""The two exceptions that end an activity early.

Everything that a person can cause (bad input, a missing or damaged file, a full disk) is a `RealmError` whose text is
one sentence that says what is wrong and where. Command lines print it and exit with `EXIT_REFUSED`, the API responds
with it, a job stores it. Any other exception is a bug.
"""

from __future__ import annotations

import re
from typing import Any

# Databases refuse NUL in JSON, and UTF-8 cannot encode lone surrogates.
_UNFIT = re.compile("[\x00\ud800-\udfff]")
_QUOTED = 80  # characters of a wrong value shown in a message
EXIT_REFUSED, EXIT_STOPPED = 2, 3  # exit statuses of an activity that ended with RealmError, with Stopped


class RealmError(Exception):
    """An error and its place, in a sentence for the person who caused it."""


class CannotStore(RealmError):
    """A disk is full, or takes no files; the message names the place, for the operator."""


class EngineUnavailable(RealmError):
    """No engine can answer at the moment: the message says why, `retry_after_s` alone when to try again (seconds):
    a page tries again by itself, and programs have a field for it."""

    def __init__(self, reason: str, *, retry_after_s: int = 3) -> None:
        super().__init__(reason)
        self.retry_after_s = retry_after_s


class Stopped(Exception):
    """The activity was asked to stop and did so at a safe point; finished work is kept."""


def quoted(value: Any) -> str:
    """A value in an error message: as Python's repr, with the middle of long values left out."""
    try:
        text = repr(value)
    except RecursionError:
        return "what is nested that deeply"
    return text if len(text) <= _QUOTED else f"{text[: _QUOTED // 2]} … {text[-_QUOTED // 4 :]}"


def unfit_character(text: str) -> str | None:
    """The first character of a text that cannot be displayed or stored, if there is one."""
    found = _UNFIT.search(text)
    return found[0] if found else None


def printable(text: str) -> str:
    """The text with a replacement for characters that cannot be displayed or stored."""
    return _UNFIT.sub("\N{REPLACEMENT CHARACTER}", text)
