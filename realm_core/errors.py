"""The two ways in which an activity ends other than well.

Everything that a person can cause (bad input, a file that is missing or damaged, a full disk) is a
`RealmError` whose text is one sentence that says what is wrong and where. Command lines print it and
exit with `EXIT_REFUSED`, the API answers with it, a job keeps it. Anything else that is raised is a bug.
"""

from __future__ import annotations

import re
from typing import Any

# No database keeps zero characters in JSON, and half a surrogate pair is no character: UTF-8 cannot write it.
_UNFIT = re.compile("[\x00\ud800-\udfff]")
_QUOTED = 80  # characters of a wrong value that are shown
EXIT_REFUSED, EXIT_STOPPED = 2, 3  # exit statuses of an activity that ended with RealmError, with Stopped


class RealmError(Exception):
    """What went wrong and where, in a sentence for the person who caused it."""


class CannotFill(RealmError):
    """Masked sentences were to be filled by a model that has no encoder for them: it answers questions only."""


class EngineUnavailable(RealmError):
    """No engine can answer at the moment: the sentence says why, `retry_after_s` when to come back (seconds)."""

    def __init__(self, reason: str, *, retry_after_s: int = 3) -> None:
        super().__init__(reason)
        self.retry_after_s = retry_after_s


class Stopped(Exception):
    """The activity was asked to stop and did so at a safe point; what it had finished is kept."""


def quoted(value: Any) -> str:
    """A value as an error names it: as Python writes it, the middle of what is long left out."""
    try:
        text = repr(value)
    except RecursionError:
        return "what is nested that deeply"
    return text if len(text) <= _QUOTED else f"{text[: _QUOTED // 2]} … {text[-_QUOTED // 4 :]}"


def unfit_character(text: str) -> str | None:
    """The first character of a text that no page can show and no database keeps, if it has one."""
    found = _UNFIT.search(text)
    return found[0] if found else None


def printable(text: str) -> str:
    """The text with a replacement for characters that no page can show and no database keeps."""
    return _UNFIT.sub("\N{REPLACEMENT CHARACTER}", text)
