"""Metrics of answering, for Prometheus (`/metrics`).

All web processes write to files in one folder (PROMETHEUS_MULTIPROC_DIR, set by webapp/server.py), and each can report
the sum. Metrics from records (jobs, workers, index lag) are queried on each scrape, in `records.py`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import REGISTRY, Collector

_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

QUESTIONS: Final = Counter(
    "realm_questions",
    "Questions by what came of them: answered, abstained (no answer found), refused (503), failed.",
    ["outcome"],
)
for _outcome in ("answered", "abstained", "refused", "failed"):  # exported as 0, so that the first is an increase
    QUESTIONS.labels(_outcome)
REPEATS: Final = Counter("realm_repeated_questions", "Questions answered from the cache of exact repeats.")
STAGES: Final = Histogram(
    "realm_stage_seconds",
    "Seconds of a question by stage: wait, embed, search, read, marginalise, store, render; repeat.",
    ["stage"],
    buckets=_SECONDS,
)
LATENCY: Final = Histogram("realm_question_seconds", "Seconds from asking the engine to its answer.", buckets=_SECONDS)
BATCHES: Final = Histogram(
    "realm_batch_questions", "Questions that the engine answered together.", buckets=(1, 2, 4, 8, 16, 32, 64)
)
WAITING: Final = Gauge("realm_waiting_questions", "Questions that wait for the engine.", multiprocess_mode="livesum")
LOADS: Final = Histogram(
    "realm_deployment_load_seconds",
    "Seconds to load and warm up a deployment beside the one that answers.",
    ["outcome"],
    buckets=(1, 2.5, 5, 10, 30, 60, 120, 300, 600),
)
SWAPS: Final = Histogram(
    "realm_deployment_swap_seconds",
    "Seconds to change over to a loaded deployment, in which no question begins.",
    buckets=(0.0001, 0.001, 0.01, 0.1, 1.0),
)


def observe_stages(timings_ms: Mapping[str, float]) -> None:
    """Record the durations of a question's stages, in milliseconds."""
    for stage, spent_ms in timings_ms.items():
        STAGES.labels(stage).observe(spent_ms / 1e3)


def batch_done(size: int, waiting: int) -> None:
    """Record a batch of `size` questions (0 if all askers had gone), with `waiting` questions in the queue."""
    if size:
        BATCHES.observe(size)
    WAITING.set(waiting)


def exposition(*more: Collector) -> bytes:
    """All metrics in Prometheus' text format, with those of other collectors."""
    if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
        counted = generate_latest(REGISTRY)
    else:
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        counted = generate_latest(registry)
    known = CollectorRegistry()
    for collector in more:
        known.register(collector)
    return counted + generate_latest(known)
