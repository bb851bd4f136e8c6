"""Workers that run jobs or fetch addresses, their devices, and which job holds which device."""

from __future__ import annotations

from typing import Final

from django.db import models
from django.utils import timezone

from webapp.models.job_states import FETCH_QUEUE
from webapp.models.process import Process
from webapp.text import counted

TRAINING: Final = 0  # its place at a device


class Worker(Process):
    """One worker process, as last reported."""

    queues = models.JSONField(default=list, help_text="Which queues it takes jobs from.")
    slots = models.PositiveSmallIntegerField(help_text="How many jobs it runs at once.")
    devices = models.JSONField(
        default=list,
        help_text="Of each: name, kind, memory_used and memory_total (bytes), utilisation (0 to 1).",
    )

    @property
    def fetches(self) -> bool:
        """Whether it fetches addresses, and so runs no jobs."""
        return FETCH_QUEUE in self.queues

    @property
    def at_once(self) -> str:
        """How much it does at once, in words."""
        return counted(self.slots, "address" if self.fetches else "job")


class DeviceLease(models.Model):
    """A job's place at a device: the database allows one job per place. It ends with the job's own lease.

    Trainings take the first place of a device, which makes them exclusive. Other jobs share the later places.
    """

    device = models.CharField(max_length=200, help_text="host/cuda:N or host/cpu")
    place = models.PositiveSmallIntegerField(default=TRAINING, help_text="0: a training's; others': from 1.")
    job = models.ForeignKey("webapp.Job", on_delete=models.CASCADE, related_name="devices")
    taken_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["device", "place"]
        constraints = [models.UniqueConstraint(fields=["device", "place"], name="one_job_a_place_at_a_device")]

    def __str__(self) -> str:
        return self.device

    @classmethod
    def held(cls) -> set[str]:
        """The devices that trainings hold."""
        return set(cls.objects.filter(place=TRAINING).values_list("device", flat=True))
