"""Metrics of jobs."""

from __future__ import annotations

from django.db import models


class JobMetric(models.Model):
    """One row of a job's metrics (a line of its metrics.jsonl)."""

    job = models.ForeignKey("webapp.Job", on_delete=models.CASCADE, related_name="metrics")
    step = models.PositiveBigIntegerField()
    time = models.DateTimeField()
    values = models.JSONField(default=dict)

    class Meta:
        ordering = ["job", "step"]
        indexes = [models.Index(fields=["job", "step"], name="metric_job_step")]

    def __str__(self) -> str:
        return f"step {self.step}"
