"""Management commands, run in this process."""

from __future__ import annotations

from io import StringIO
from typing import Any

from django.core.management import call_command


def command(*arguments: Any, **options: Any) -> str:
    """What a command prints."""
    out = StringIO()
    call_command(*arguments, stdout=out, **options)
    return out.getvalue()
