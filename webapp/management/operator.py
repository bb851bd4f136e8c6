"""The base of the commands that an operator types: refusals in a sentence, and what the exit status says."""

from __future__ import annotations

import re
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import InterfaceError, OperationalError, ProgrammingError

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
        except (OperationalError, InterfaceError, ProgrammingError) as error:
            raise CommandError(_of_database(error), returncode=2) from None
        except (Stopped, KeyboardInterrupt):
            raise CommandError(self.stopped, returncode=3) from None


def _of_database(error: Exception) -> str:
    """What the operator can do; a bug of ours is raised again."""
    said = str(error).partition("\n")[0]
    if re.search(r"no such table|relation .* does not exist", said):
        return "The database has no tables yet: run manage.py migrate first."
    if re.search(r"no such column|column .* does not exist", said):
        return f"The database is of another version: {said}. manage.py migrate brings it up to this one."
    if isinstance(error, ProgrammingError):
        raise error
    return f"The database does not answer: {said}"
