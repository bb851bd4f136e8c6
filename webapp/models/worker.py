"""Workers that run jobs, the devices they compute on, and who holds which device."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from webapp.models.process import Process


class Worker(Process):
    """One worker process, as it last reported itself."""

    queues = models.JSONField(default=list, help_text="Which queues it takes jobs from.")
    slots = models.PositiveSmallIntegerField(help_text="How many jobs it runs at once.")
    devices = models.JSONField(
        default=list,
        help_text="Of each: name, kind, memory_used and memory_total (bytes), utilisation (0 to 1).",
    )


class DeviceLease(models.Model):
    """A device that a training holds: the database lets one job have it. Ends with the job's own lease."""

    device = models.CharField(max_length=200, unique=True, help_text="host/cuda:N or host/cpu")
    job = models.ForeignKey("webapp.Job", on_delete=models.CASCADE, related_name="devices")
    taken_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["device"]

    def __str__(self) -> str:
        return self.device
