"""How much is tried: everything, at night (NIGHTLY=1), or what every change waits for."""

from __future__ import annotations

import os
from typing import Final

NIGHTLY: Final = os.environ.get("NIGHTLY") == "1"


def examples(nightly: int) -> int:
    """Of a property: all of them at night, a quarter every day."""
    return nightly if NIGHTLY else nightly // 4
