"""Examples of documents, for the API's documentation."""

from __future__ import annotations

from typing import Any, Final

_CORPUS: Final = "vital-en@5b0c1d5a3f6e7c2f+0f6c3d9c4be1f2a3"

NEW: Final[dict[str, Any]] = {
    "title": "Turku",
    "text": "Turku is a city in Finland.\nIts castle was founded in 1280.",
    "licence": "CC0",
    "tags": ["cities"],
    "collection": "travel",
}

ADDRESS: Final[dict[str, Any]] = {"address": "https://example.org/turku.pdf", "licence": "CC BY 4.0"}

ABOUT: Final[dict[str, Any]] = {"licence": "CC BY 4.0", "tags": ["cities", "castles"]}

LISTED: Final[dict[str, Any]] = {
    "id": "d-3f1c9a5b7e2d4c60",
    "title": "Turku",
    "url": "",
    "blocks": 1,
    "status": "current",
    "format": "text",
    "added_at": "2026-01-31T12:00:00.000000Z",
    "changed_at": "2026-01-31T12:00:00.000000Z",
}

DOCUMENT: Final[dict[str, Any]] = LISTED | {
    "licence": "CC0",
    "attribution": "Ada Example",
    "language": "en",
    "date": None,
    "tags": ["cities"],
    "collection": "travel",
    "text": "Turku is a city in Finland.\nIts castle was founded in 1280.",
    "passages": [
        {
            "block_id": "0f6c3d9c4be1f2a35c6e0d7a8b91e2c4",
            "section": "",
            "text": "Turku is a city in Finland.\nIts castle was founded in 1280.",
        }
    ],
    "corpus": _CORPUS,
    "original": None,
    "version": "9b2e6d07c4f1a385",
}

EDIT: Final[dict[str, Any]] = {
    "corpus": _CORPUS,
    "documents": [LISTED],
    "changes": 1,
    "timings_ms": {"read": 110.2, "publish": 55.7, "commit": 9.1, "open": 6.3},
}

NEW_PURGE: Final[dict[str, Any]] = {"documents": ["d-3f1c9a5b7e2d4c60"]}

PURGE: Final[dict[str, Any]] = {
    "id": "0a4a3a3e-6f0e-4b0c-9a37-0f2f6f5f1b9d",
    "at": "2026-01-31T12:05:00.000000Z",
    "documents": ["d-3f1c9a5b7e2d4c60"],
    "blocks": 1,
    "answers": 2,
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
