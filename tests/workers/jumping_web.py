"""The web application with a clock that is set."""

from __future__ import annotations

from tests.workers import set_clock  # noqa: F401  # isort: split
from webapp.wsgi import application

__all__ = ["application"]
