"""Metrics from records: jobs, processes, the deployment, how far an index lags behind its training; and room on the
disk."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from typing import Final

from django.conf import settings
from django.db.models import Count
from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from realm_core.tasks import JOBS
from webapp.models import Deployment, Job, JobMetric, JobState, Scheduler, WebProcess, Worker
from webapp.models.process import Process

_LAGS: Final = {"pretrain.index_lag_steps": "steps", "pretrain.index_lag_s": "seconds"}  # metrics of pre-training


class Records(Collector):
    """Queries the database on each scrape: five small queries, and two per running pre-training."""

    def collect(self) -> Iterable[Metric]:
        """The metrics. DatabaseError if the database does not answer."""
        yield self._jobs()
        active = Deployment.objects.filter(is_active=True).values_list("pk", flat=True).first() or 0
        fetch = [one.fetches for one in Worker.known() if one.is_alive]
        yield _gauge("realm_workers", "Workers of jobs that gave a sign of life lately.", fetch.count(False))
        yield _gauge("realm_fetchers", "Workers of addresses that gave a sign of life lately.", fetch.count(True))
        yield _gauge("realm_schedulers", "Schedulers that gave a sign of life lately.", _alive(Scheduler))
        yield self._web_processes(active)
        yield _gauge("realm_deployment", "The number of the active deployment; 0: none.", active)
        yield from self._lags()
        room = shutil.disk_usage(settings.REALM_DATA)
        yield _gauge("realm_data_free_bytes", "Free on the disk of the data folder.", room.free)
        yield _gauge("realm_data_size_bytes", "Size of the disk of the data folder.", room.total)

    @staticmethod
    def _jobs() -> Metric:
        jobs = GaugeMetricFamily("realm_jobs", "Jobs by kind and state.", labels=["kind", "state"])
        rows = Job.objects.order_by().values_list("kind", "state").annotate(Count("pk"))
        counted = {(kind, state): count for kind, state, count in rows}
        for kind in sorted({*JOBS, *(kind for kind, _ in counted)}):
            for state in JobState.values:  # also 0, or a kind's first failure would not be an increase
                jobs.add_metric([kind, state], counted.get((kind, state), 0))
        return jobs

    @staticmethod
    def _web_processes(active: int) -> Metric:
        told = "Web processes that gave a sign of life lately: answering with the active deployment, or not (yet)."
        processes = GaugeMetricFamily("realm_web_processes", told, labels=["state"])
        alive = [one for one in WebProcess.known() if one.is_alive]
        ready = sum(one.state == WebProcess.State.READY and one.deployment_id == active for one in alive)
        processes.add_metric(["ready"], ready)
        processes.add_metric(["behind"], len(alive) - ready)
        return processes

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


def _alive(kind: type[Process]) -> int:
    return sum(one.is_alive for one in kind.known())


def _gauge(name: str, told: str, value: float) -> Metric:
    gauge = GaugeMetricFamily(name, told)
    gauge.add_metric([], value)
    return gauge
