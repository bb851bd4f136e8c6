"""Log lines as JSON (LOG_FORMAT=json), one object per line: time, level, logger, message, request."""

from __future__ import annotations

import json
import logging
import re
from datetime import UTC, datetime
from typing import Final

from webapp.request_id import known_ids

_CONTROL_CHARACTERS: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


class JSONLines(logging.Formatter):
    """Formats a record as one line of JSON; `extra={"fields": {…}}` adds members."""

    def format(self, record: logging.LogRecord) -> str:
        """time, level, logger, message; request_id, answer_id and job_id if known; an error's traceback."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **known_ids(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)  # in ASCII, because lone surrogates cannot be encoded


class TextLines(logging.Formatter):
    """Formats a record as readable text; the known ids are at its end.

    A message is one line, whatever user text is in it: line breaks, and characters that control a terminal or change
    the reading direction, are escaped.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:
        """As in `logging.Formatter`; a traceback follows."""
        line = _CONTROL_CHARACTERS.sub(_escaped, super().formatMessage(record))
        ids = " ".join(f"{name}={value}" for name, value in known_ids().items())
        return f"{line} [{ids}]" if ids else line


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")
