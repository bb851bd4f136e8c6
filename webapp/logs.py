"""Log lines as JSON (LOG_FORMAT=json), one object a line: when, how grave, who says what, for which request."""

from __future__ import annotations

import json
import logging
import re
from datetime import UTC, datetime
from typing import Final

from webapp.request_id import known_ids

_STEERING: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


class JSONLines(logging.Formatter):
    """Formats a record as one line of JSON; `extra={"fields": {…}}` adds members."""

    def format(self, record: logging.LogRecord) -> str:
        """time, level, logger, message; request_id, answer_id and job_id where they are known; an error's traceback."""
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
        return json.dumps(line, default=str)  # in ASCII: half a surrogate pair could not be written otherwise


class Lines(logging.Formatter):
    """Formats a record as a line for people; the ids that are known stand at its end.

    A message is one line, whatever texts of others are in it: line breaks, and characters that steer a terminal or turn
    round what follows, are written as escapes.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:
        """As `logging.Formatter` does; a traceback follows."""
        told = _STEERING.sub(_escaped, super().formatMessage(record))
        ids = " ".join(f"{name}={value}" for name, value in known_ids().items())
        return f"{told} [{ids}]" if ids else told


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")
