"""An example of a file to ingest, for the API's documentation."""

from __future__ import annotations

from typing import Any, Final

SOURCE_FILE: Final[dict[str, Any]] = {"name": "handbook.jsonl", "size_bytes": 1482133}
