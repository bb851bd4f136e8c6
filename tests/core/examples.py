"""How many examples a property is tried on."""

from __future__ import annotations

import os


def examples(nightly: int) -> int:
    """All of them at night, a quarter every day."""
    return nightly if os.environ.get("NIGHTLY") == "1" else nightly // 4
