"""The tests' workers with a clock that is set."""

from __future__ import annotations

from tests.workers.set_clock import now  # isort: split

from tests.workers.app import app

__all__ = ["app"]

app.now = now  # type: ignore[method-assign]  # Celery's own
