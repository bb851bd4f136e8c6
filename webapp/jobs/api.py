"""Jobs over REST: kinds, starting, following, stopping, resuming."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse

from webapp.jobs import examples
from webapp.jobs import service as jobs
from webapp.jobs.logs import read_log
from webapp.jobs.serializers import (
    JobDetailSerializer,
    JobSerializer,
    KindSerializer,
    LogSerializer,
    MetricSerializer,
    MetricsSerializer,
    NewJobSerializer,
)
from webapp.kinds import KINDS, ParameterError, startable
from webapp.models import Job, JobKind, JobState, Queue
from webapp.refusals import FieldError, InvalidRequest, StateConflict
from webapp.rest.base import OperatorView
from webapp.rest.lists import RecordList
from webapp.rest.operation import given, operation, sent
from webapp.rest.parameters import by_time, by_truth, by_word, whole_number

_LIST: Final = RecordList(
    filters=(
        by_word("state", JobState.values),
        by_word("kind", list(KINDS)),
        by_word("queue", Queue.values),
        by_truth("part", "parent__isnull", "Whether it is a part of another job.", inverted=True),
        *by_time(),
    ),
    orders=("created_at", "queued_at"),
    address="jobs",
    kind=JobSerializer,
    example=examples.LISTED_JOB,
    page_name="JobPage",
)


@dataclass(frozen=True)
class _Range:
    """Parameters of a request for a piece: its beginning, `start`, and its size, `limit`, from `least` to `most`."""

    start: str
    about: str
    unit: str
    most: int
    least: int = 1

    @property
    def parameters(self) -> list[OpenApiParameter]:
        limit = f"At most so many {self.unit}, {self.least} to {self.most}."
        return [
            OpenApiParameter(self.start, OpenApiTypes.INT64, description=self.about),
            OpenApiParameter("limit", OpenApiTypes.INT, description=limit),
        ]

    def of(self, request: Request) -> tuple[int, int]:
        """(start, limit) of a request."""
        limit = whole_number(request, "limit", self.most, low=self.least, high=self.most)
        return whole_number(request, self.start, 0), limit


# A character has up to 4 bytes.
_LOG_RANGE: Final = _Range("offset", "Where to begin, in bytes; 0 if not given.", "bytes", 1 << 16, least=4)
_METRICS_RANGE: Final = _Range("after", "A `cursor`; 0, from the first, if not given.", "rows", 1000)
_INDEXING: Final = dict(KindSerializer(KINDS[JobKind.INDEX]).data)


class KindsView(OperatorView):
    @operation(
        "job_kinds",
        "The kinds of job",
        "The inputs and settings of each, with defaults, limits and explanations.",
        gives=KindSerializer(many=True),
        examples=[given("Kinds", _INDEXING)],
    )
    def get(self, request: Request) -> Response:
        return Response(KindSerializer(startable(), many=True).data)


class JobsView(OperatorView):
    @_LIST.operation("jobs", "List jobs", "Including shards and other parts of jobs.")
    def get(self, _request: Request) -> QuerySet[Job]:
        return _jobs()

    @operation(
        "start_job",
        "Start a job",
        "Omitted settings have their defaults, or, with `settings_of`, those of an earlier job. "
        "`Location` is the job's address. While another job does the same, the answer is 409, with that job's "
        "address as `job`.",
        takes=NewJobSerializer,
        gives={201: JobDetailSerializer},
        problems=[409, 422],
        examples=[
            *(sent(title, new) for title, new in examples.NEW_JOBS.items()),
            given("Job", examples.JOB, 201),
            given("Wrong parameters", examples.WRONG_JOB, 400),
            given("Duplicate", examples.DUPLICATE, 409),
        ],
    )
    def post(self, request: Request, body: dict[str, Any]) -> Response:
        earlier = _earlier(body["settings_of"], body["kind"])
        parameters = {**(jobs.carried_over(earlier) if earlier else {}), **body["parameters"]}
        try:
            job = jobs.start(body["kind"], parameters, by=self.operator, settings_of=earlier)
        except ParameterError as error:
            raise InvalidRequest(*_parameter_errors(error)) from None
        except jobs.AlreadyActive as error:
            raise _duplicate(request, error) from None
        return self.made(JobDetailSerializer, job, "api-job")


class JobView(OperatorView):
    @operation(
        "job",
        "A job",
        "With its progress, its latest metrics, its parts and the records that it made.",
        gives=JobDetailSerializer,
        examples=[given("Job", examples.JOB)],
    )
    def get(self, request: Request, job_id: UUID) -> Response:
        return Response(JobDetailSerializer(_job(job_id)).data)


class StopView(OperatorView):
    @operation(
        "stop_job",
        "Stop a job",
        "At once if it is queued or interrupted, at its next safe point if it runs (it is `stopping` until then).",
        gives=JobDetailSerializer,
        problems=[409],
        examples=[given("Job", examples.STOPPING)],
    )
    def post(self, request: Request, job_id: UUID) -> Response:
        job = _job(job_id)
        if not jobs.stop(job, by=self.operator):
            raise StateConflict(f"The job is {job.get_state_display()}; there is nothing to stop.")
        return Response(JobDetailSerializer(job).data)


class ResumeView(OperatorView):
    @operation(
        "resume_job",
        "Resume a job",
        "Queues a failed, stopped or interrupted job again; it resumes from what it had finished.",
        gives=JobDetailSerializer,
        problems=[409, 422],
        examples=[given("Job", examples.RESUMED)],
    )
    def post(self, request: Request, job_id: UUID) -> Response:
        job = _job(job_id)
        try:
            resumed = jobs.resume(job, by=self.operator)
        except jobs.AlreadyActive as error:
            raise _duplicate(request, error) from None
        if not resumed:
            raise StateConflict(f"The job is {job.get_state_display()}; it cannot be resumed.")
        return Response(JobDetailSerializer(job).data)


class LogView(OperatorView):
    @operation(
        "job_log",
        "A job's log",
        "A piece of it, by byte offset. To follow it, ask again from `next_offset` while it is `active`.",
        parameters=_LOG_RANGE.parameters,
        gives=LogSerializer,
        examples=[given("Log", examples.LOG)],
    )
    def get(self, request: Request, job_id: UUID) -> Response:
        offset, limit = _LOG_RANGE.of(request)
        job = _job(job_id)
        piece = read_log(job, offset, limit)
        body = {"text": piece.text, "next_offset": piece.end, "size": piece.size, "active": job.is_active}
        return Response(body)


class MetricsView(OperatorView):
    @operation(
        "job_metrics",
        "A job's metrics",
        "The earliest first. To follow them, ask again with `after` = `cursor`.",
        parameters=_METRICS_RANGE.parameters,
        gives=MetricsSerializer,
        examples=[given("Metrics", examples.METRICS)],
    )
    def get(self, request: Request, job_id: UUID) -> Response:
        after, limit = _METRICS_RANGE.of(request)
        rows = list(_job(job_id).metrics.filter(pk__gt=after).order_by("pk")[: limit + 1])
        shown = rows[:limit]
        cursor = shown[-1].pk if shown else after
        return Response({"rows": MetricSerializer(shown, many=True).data, "cursor": cursor, "more": len(rows) > limit})


def _jobs() -> QuerySet[Job]:
    return Job.objects.select_related("created_by", "parent").defer("log", "parent__log", "parent__result")


def _job(job_id: UUID) -> Job:
    return get_object_or_404(_jobs(), pk=job_id)


def _earlier(job_id: UUID | None, kind: str) -> Job | None:
    """The job whose settings a new one starts from."""
    if job_id is None:
        return None
    earlier = _jobs().filter(pk=job_id, kind=kind).first()
    if earlier is None:
        raise InvalidRequest(FieldError("settings_of", f"There is no job {job_id} of the kind {kind}."))
    return earlier


def _parameter_errors(error: ParameterError) -> list[FieldError]:
    """Errors by place in the body."""
    return [
        FieldError("kind" if name == "kind" else f"parameters.{name}".rstrip("."), says)
        for name, says in error.errors.items()
    ]


def _duplicate(request: Request, error: jobs.AlreadyActive) -> StateConflict:
    return StateConflict(str(error), job=reverse("api-job", args=[error.job.pk], request=request))
