"""Processes that report themselves periodically: web servers, schedulers and workers."""

from __future__ import annotations

import os
import socket
from datetime import datetime, timedelta
from typing import Any, Final, Self

from django.db import models
from django.utils import timezone

SEEN_EVERY_S: Final = 10
LOST_AFTER_S: Final = 35  # three missed signs of life
FORGOTTEN_AFTER_S: Final = 3600  # a lost process is shown that long, then its row is deleted


def host() -> str:
    """The name of this machine among those that work together."""
    return os.environ.get("REALM_HOST", "").strip() or socket.gethostname()


def process_name() -> str:
    """The name of this process, unique among all machines: host:pid, and host/container:pid where REALM_HOST names the
    machine, because containers of one machine count their processes alike."""
    kernel = socket.gethostname()
    place = host() if host() == kernel else f"{host()}/{kernel}"
    return f"{place}:{os.getpid()}"


class Process(models.Model):
    """One process, as last reported."""

    name = models.CharField(max_length=200, unique=True, help_text="host:pid")
    host = models.CharField(max_length=200)
    started_at = models.DateTimeField(default=timezone.now)
    seen_at = models.DateTimeField(default=timezone.now)

    class Meta:
        abstract = True
        ordering = ["host", "name"]

    def __str__(self) -> str:
        return self.name

    @property
    def is_alive(self) -> bool:
        """Whether its last report is recent; a time in the future was written by a clock that was ahead."""
        return abs(timezone.now() - self.seen_at) < timedelta(seconds=LOST_AFTER_S)

    @classmethod
    def known(cls) -> models.QuerySet[Self]:
        """The processes that reported within the hour."""
        return cls._default_manager.filter(seen_at__gte=_long_ago())

    @classmethod
    def this(cls, **values: Any) -> Self:
        """The row of the process that calls this, not stored."""
        return cls(name=process_name(), host=host(), **values)

    @classmethod
    def report(cls, **values: Any) -> None:
        """Write a sign of life of this process, and what else its row says."""
        written = ("host", "seen_at", *values)
        row = [cls.this(**values)]
        cls._default_manager.bulk_create(row, update_conflicts=True, unique_fields=["name"], update_fields=written)

    @classmethod
    def leave(cls) -> None:
        """Delete the row of this process, which ends."""
        cls._default_manager.filter(name=process_name()).delete()

    @classmethod
    def forget_lost(cls) -> None:
        """Delete the rows of those that did not."""
        cls._default_manager.filter(seen_at__lt=_long_ago()).delete()


class WebProcess(Process):
    """One process of a web server."""

    class State(models.TextChoices):
        """READY: answers questions. IDLE: there was no question yet."""

        READY = "ready", "ready"
        LOADING = "loading", "loading"
        FAILED = "failed", "failed"
        IDLE = "idle", "idle"

    state = models.CharField(max_length=10, choices=State.choices)
    deployment = models.ForeignKey(
        "webapp.Deployment",
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
        help_text="What it answers with.",
    )
    reason = models.TextField(blank=True, help_text="Why what is deployed could not be loaded, if it was tried.")

    class Meta(Process.Meta):
        verbose_name_plural = "web processes"


class Scheduler(Process):
    """The process that recovers lost jobs and starts what is due; it reports after each round."""


def _long_ago() -> datetime:
    return timezone.now() - timedelta(seconds=FORGOTTEN_AFTER_S)
