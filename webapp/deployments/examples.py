"""Examples of deployments, for the API's documentation."""

from __future__ import annotations

from typing import Any, Final

NEW_DEPLOYMENT: Final[dict[str, Any]] = {"index": 4, "note": "The newest articles"}

DEPLOYMENT: Final[dict[str, Any]] = {
    "id": 12,
    "model": 3,
    "index": 4,
    "is_active": True,
    "activated_at": "2026-01-31T12:30:00Z",
    "deactivated_at": None,
    "activated_by": "stella",
    "note": "The newest articles",
}

DOUBTS: Final[dict[str, Any]] = {
    "type": "about:blank",
    "title": "Conflict",
    "status": 409,
    "detail": "It was never measured on the same questions as the active deployment. "
    "To deploy it all the same, confirm that.",
    "doubts": ["It was never measured on the same questions as the active deployment."],
    "confirm": "4d1e0c5a97b3f826",
}
