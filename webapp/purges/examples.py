"""Examples of purges, for the API's documentation."""

from __future__ import annotations

from typing import Any, Final

NEW_PURGE: Final[dict[str, Any]] = {"documents": ["d-3f1c9a5b7e2d4c60"]}

PURGE: Final[dict[str, Any]] = {
    "id": "0a4a3a3e-6f0e-4b0c-9a37-0f2f6f5f1b9d",
    "at": "2026-01-31T12:05:00.000000Z",
    "documents": ["d-3f1c9a5b7e2d4c60"],
    "blocks": 1,
    "answers": 1,
    "answer_ids": ["0b6f2f5e-3a64-4d0c-9a51-6a0f3a1c7c55"],
    "files": [
        {
            "path": "living/vital-en/segments/4c1b7d2a9e5f6a30/articles.arrow",
            "sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
            "successor": None,
            "successor_sha256": None,
        }
    ],
    "remaining": ["corpora/vital-en/5d41402abc4b2a76", "indexes/5d41402abc4b2a76-b9719d911017c592"],
    "holding": [
        {"path": "corpora/vital-en/5d41402abc4b2a76", "stage": "answers", "index": None, "corpus": 1},
        {"path": "indexes/5d41402abc4b2a76-b9719d911017c592", "stage": "answers", "index": 1, "corpus": None},
    ],
}
