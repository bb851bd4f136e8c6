"""Examples of documents, for the API's documentation."""

from __future__ import annotations

from typing import Any, Final

from webapp.ledger.examples import TOUCHED

_CORPUS: Final = "vital-en@5b0c1d5a3f6e7c2f+0f6c3d9c4be1f2a3"

NEW: Final[dict[str, Any]] = {
    "title": "Turku",
    "text": "Turku is a city in Finland.\nIts castle was founded in 1280.",
    "licence": "CC0",
    "tags": ["cities"],
    "collection": "travel",
}

KNOWN: Final[dict[str, Any]] = {"id": "guides/oulu", "title": "Oulu", "text": "Oulu is a city by the sea."}

ADDRESS: Final[dict[str, Any]] = {"address": "https://example.org/turku.pdf", "licence": "CC BY 4.0"}

ABOUT: Final[dict[str, Any]] = {"licence": "CC BY 4.0", "tags": ["cities", "castles"]}

LISTED: Final[dict[str, Any]] = {
    "id": "d-3f1c9a5b7e2d4c60",
    "title": "Turku",
    "url": "",
    "blocks": 1,
    "status": "current",
    "format": "text",
    "warnings": [],
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
    "documents": [
        LISTED
        | {
            "format": "pdf",
            "warnings": ["2 of 4 pages hold no text (2, 4); they may be scanned."],
            "version": DOCUMENT["version"],
        }
    ],
    "changes": 1,
    "new_collections": [],
    "timings_ms": {"read": 110.2, "publish": 55.7, "commit": 9.1, "open": 6.3},
}

REMOVED: Final[dict[str, Any]] = {"ids": [KNOWN["id"], LISTED["id"]]}

RESTORED: Final = EDIT | {"timings_ms": {"publish": 1.6, "commit": 9.1, "open": 6.3}}

_OUTCOMES: Final = TOUCHED["summary"]["outcomes"]
_ANEW: Final = {"text": "1229", "probability": 0.88, "explained_by": "7a8b91e2c40f6c3d9c4be1f2a35c6e0d"}

PREVIEW: Final[dict[str, Any]] = {
    "same": False,
    "warnings": [],
    "placing": {
        "moved_from": "board",
        "collection": "travel",
        "is_new": False,
        "readers_before": "admins, board members",
        "readers": "everybody who may ask",
        "more_readers": True,
    },
    "passages_gone": DOCUMENT["passages"],
    "passages_new": [
        {
            "block_id": "7a8b91e2c40f6c3d9c4be1f2a35c6e0d",
            "section": "",
            "text": "Turku is a city in Finland.\nIts castle was founded in 1229.",
        }
    ],
    "passages_kept": [],
    "summary": TOUCHED["summary"],
    "anew": {"asked": 1, "outcomes": _OUTCOMES, "reason": ""},
    "results": [{**TOUCHED["results"][0], "asked_anew": True, "anew": _ANEW}],
}
