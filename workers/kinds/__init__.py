"""The kinds of job, one module each: parameters → command line, result → records."""

from __future__ import annotations

from workers.kinds import index
from workers.kinds.base import Kind

KINDS: dict[str, Kind] = {"index": index.KIND}

__all__ = ["KINDS", "Kind"]
