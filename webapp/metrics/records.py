"""Metrics from records: jobs, workers, the deployment, how far an index lags behind its training."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from django.db.models import Count
from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from webapp.models import Deployment, Job, JobMetric, JobState, Worker

_LAGS: Final = {"pretrain.index_lag_steps": "steps", "pretrain.index_lag_s": "seconds"}  # metrics of pre-training


class Records(Collector):
    """Queries the database on each scrape: three small queries, and two per running pre-training."""

    def collect(self) -> Iterable[Metric]:
        """The metrics. DatabaseError if the database does not answer."""
        yield self._jobs()
        workers = GaugeMetricFamily("realm_workers", "Workers that gave a sign of life lately.")
        workers.add_metric([], sum(worker.is_alive for worker in Worker.objects.all()))
        yield workers
        deployed = GaugeMetricFamily("realm_deployment", "The number of the active deployment; 0: none.")
        deployed.add_metric([], Deployment.objects.filter(is_active=True).values_list("pk", flat=True).first() or 0)
        yield deployed
        yield from self._lags()

    @staticmethod
    def _jobs() -> Metric:
        jobs = GaugeMetricFamily("realm_jobs", "Jobs by kind and state.", labels=["kind", "state"])
        counted = Job.objects.order_by().values_list("kind", "state").annotate(Count("pk"))
        for kind, state, count in counted:
            jobs.add_metric([str(kind), str(state)], count)
        return jobs

    @staticmethod
    def _lags() -> Iterable[Metric]:
        families = {
            name: GaugeMetricFamily(
                f"realm_index_lag_{unit}",
                f"How many {unit} the index of a running training lags behind its parameters.",
                labels=["job"],
            )
            for name, unit in _LAGS.items()
        }
        for job_id in Job.objects.filter(state=JobState.RUNNING, kind="pretrain").values_list("pk", flat=True):
            for name, family in families.items():  # other rows lie between: held-out measurements, evaluations
                rows = JobMetric.objects.filter(job=job_id, values__has_key=name)
                latest = rows.order_by("-pk").values_list("values", flat=True).first()
                if latest is not None:
                    family.add_metric([str(job_id)], latest[name])
        yield from families.values()
