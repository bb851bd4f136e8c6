"""`manage.py scheduler_alive`: whether the scheduler has run lately; for a container's health check."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError

from webapp.management.operator import OperatorCommand
from webapp.models import Scheduler


class Command(OperatorCommand):
    """Exit with status 0 if a scheduler has given a sign of life lately, otherwise with 1."""

    def handle(self, *_args: Any, **_options: Any) -> None:
        if not any(scheduler.is_alive for scheduler in Scheduler.known()):
            raise CommandError("No scheduler has given a sign of life lately.")
        self.stdout.write("The scheduler is alive.")
