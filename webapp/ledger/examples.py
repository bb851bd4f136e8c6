"""Examples of changes and of what they touched, for the API's documentation."""

from __future__ import annotations

from typing import Any, Final

CHANGE: Final[dict[str, Any]] = {
    "id": 7,
    "kind": "changed",
    "document": "d-3f1c9a5b7e2d4c60",
    "title": "Turku",
    "at": "2026-01-31T12:04:00.000000Z",
    "by": "stella",
    "blocks_gone": 1,
    "blocks_new": 1,
    "state": "0f6c3d9c4be1f2a3",
    "moved_from": "board",
    "collection": "travel",
    "readers": "everybody who may ask",
}

TOUCHED: Final[dict[str, Any]] = {
    "summary": {
        "answers": 1,
        "looked_at": 1,
        "outcomes": {"same": 0, "other_block": 0, "other_answer": 1, "no_answer": 0, "answer_given": 0},
    },
    "next": None,
    "previous": None,
    "results": [
        {
            "answer": "0b6f2f5e-3a64-4d0c-9a51-6a0f3a1c7c55",
            "question": "When was the castle of Turku founded?",
            "text": "1280",
            "posterior": 0.93,
            "outcome": "other_answer",
            "without": {"text": "1229", "probability": 0.31, "explained_by": "5c6e0d7a8b91e2c40f6c3d9c4be1f2a3"},
            "asked_again": None,
        }
    ],
}

CHANGE_ANSWERS: Final[dict[str, Any]] = {**TOUCHED, "purge": None}
