"""The base of the commands that an operator types: refusals in a sentence, and what the exit status says."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from realm_core.errors import Stopped
from webapp.refusals import REFUSALS


class OperatorCommand(BaseCommand):
    """Exit statuses are those of `python -m realm_core`: 2 with a sentence if it is refused, 3 if it was stopped.

    The help of a command is the docstring of its class.
    """

    stopped = "Stopped."

    def __init_subclass__(cls) -> None:
        cls.help = cls.__doc__ or ""

    def execute(self, *args: Any, **options: Any) -> str | None:
        """Run, with the errors of ours as Django's."""
        try:
            return super().execute(*args, **options)
        except REFUSALS as refused:
            raise CommandError(str(refused), returncode=2) from None
        except (Stopped, KeyboardInterrupt):
            raise CommandError(self.stopped, returncode=3) from None
