"""Log lines as JSON (LOG_FORMAT=json), one object a line: when, how grave, who says what, for which request."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

from webapp.request_id import known_ids


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
        return json.dumps(line, ensure_ascii=False, default=str)


class Lines(logging.Formatter):
    """Formats a record as a line for people; the ids that are known stand at its end."""

    def format(self, record: logging.LogRecord) -> str:
        """As `logging.Formatter` does; a traceback follows."""
        told = super().format(record)
        ids = " ".join(f"{name}={value}" for name, value in known_ids().items())
        first, newline, rest = told.partition("\n")
        return f"{first} [{ids}]{newline}{rest}" if ids else told
