"""Jobs over REST: kinds, starting, following, stopping, resuming."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse

from webapp.jobs import examples
from webapp.jobs import service as services
from webapp.jobs.logs import read_log
from webapp.jobs.schema import kind_json
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
from webapp.rest.base import OperatorView, checked, problem_responses, without_body
from webapp.rest.lists import RecordList, page_example, page_response
from webapp.rest.parameters import by_time, by_truth, by_word, only_parameters, whole_number

_LIST: Final = RecordList(
    filters=(
        by_word("state", JobState.values),
        by_word("kind", list(KINDS)),
        by_word("queue", Queue.values),
        by_truth("part", "parent__isnull", "Whether it is a part of another job.", inverted=True),
        *by_time(),
    ),
    orders=("created_at", "queued_at"),
)


@dataclass(frozen=True)
class _Range:
    """Parameters of what is read piece by piece: `start`, where a piece begins, and `limit`, from `least` to `most`."""

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
        only_parameters(request, (self.start, "limit"))
        limit = whole_number(request, "limit", self.most, low=self.least, high=self.most)
        return whole_number(request, self.start, 0), limit


# A character has up to 4 bytes.
_LOG_RANGE: Final = _Range("offset", "Where to begin, in bytes; 0 if not given.", "bytes", 1 << 16, least=4)
_METRICS_RANGE: Final = _Range("after", "A `cursor`; 0, from the first, if not given.", "rows", 1000)
_INDEXING: Final = kind_json(KINDS[JobKind.INDEX])


class KindsView(OperatorView):
    """The kinds of job."""

    @extend_schema(
        operation_id="job_kinds",
        summary="The kinds of job",
        description="The inputs and settings of each, with defaults, limits and explanations.",
        responses={200: KindSerializer(many=True), **problem_responses(400, 403)},
        examples=[OpenApiExample("Kinds", value=_INDEXING, response_only=True, status_codes=["200"])],
    )
    def get(self, request: Request) -> Response:
        only_parameters(request, ())
        return Response([kind_json(kind) for kind in startable()])


class JobsView(OperatorView):
    """All jobs."""

    @extend_schema(
        operation_id="jobs",
        summary="List jobs",
        description="Including shards and other parts of jobs.",
        parameters=_LIST.parameters,
        responses={200: page_response("JobPage", JobSerializer), **problem_responses(400, 403)},
        examples=[page_example("Jobs", examples.LISTED_JOB, "jobs")],
    )
    def get(self, request: Request) -> Response:
        return _LIST.page(request, _jobs(), JobSerializer)

    @extend_schema(
        operation_id="start_job",
        summary="Start a job",
        description="Omitted settings have their defaults, or, with `settings_of`, those of an earlier job. "
        "`Location` is the job's address. While another job does the same, the answer is 409, with that job's "
        "address as `job`.",
        request=NewJobSerializer,
        responses={201: JobDetailSerializer, **problem_responses(400, 403, 409, 413, 415, 422)},
        examples=[
            *(OpenApiExample(title, value=new, request_only=True) for title, new in examples.NEW_JOBS.items()),
            OpenApiExample("Job", value=examples.JOB, response_only=True, status_codes=["201"]),
            OpenApiExample("Wrong parameters", value=examples.WRONG_JOB, response_only=True, status_codes=["400"]),
            OpenApiExample("Duplicate", value=examples.DUPLICATE, response_only=True, status_codes=["409"]),
        ],
    )
    def post(self, request: Request) -> Response:
        body = checked(request, NewJobSerializer)
        earlier = _earlier(body["settings_of"], body["kind"])
        parameters = {**(services.carried_over(earlier) if earlier else {}), **body["parameters"]}
        try:
            job = services.start(body["kind"], parameters, by=self.operator, settings_of=earlier)
        except ParameterError as error:
            raise InvalidRequest(*_parameter_errors(error)) from None
        except services.AlreadyActive as error:
            raise _duplicate(request, error) from None
        address = reverse("api-job", args=[job.pk], request=request)
        return Response(JobDetailSerializer(job).data, status=201, headers={"Location": address})


class JobView(OperatorView):
    """One job."""

    @extend_schema(
        operation_id="job",
        summary="A job",
        description="With its progress, its latest metrics, its parts and the records that it made.",
        responses={200: JobDetailSerializer, **problem_responses(400, 403, 404)},
        examples=[OpenApiExample("Job", value=examples.JOB, response_only=True, status_codes=["200"])],
    )
    def get(self, request: Request, job_id: UUID) -> Response:
        only_parameters(request, ())
        return Response(JobDetailSerializer(_job(job_id)).data)


class StopView(OperatorView):
    """Stop a job."""

    @extend_schema(
        operation_id="stop_job",
        summary="Stop a job",
        description="At once if it is queued or interrupted, at its next safe point if it runs (it is `stopping` "
        "until then).",
        request=None,
        responses={200: JobDetailSerializer, **problem_responses(400, 403, 404, 409, 413, 415)},
        examples=[OpenApiExample("Job", value=examples.STOPPING, response_only=True, status_codes=["200"])],
    )
    def post(self, request: Request, job_id: UUID) -> Response:
        without_body(request)
        job = _job(job_id)
        if not services.stop(job, by=self.operator):
            raise StateConflict(f"The job is {job.get_state_display()}; there is nothing to stop.")
        return Response(JobDetailSerializer(job).data)


class ResumeView(OperatorView):
    """Resume a job."""

    @extend_schema(
        operation_id="resume_job",
        summary="Resume a job",
        description="Queues a failed, stopped or interrupted job again; it resumes from what it had finished.",
        request=None,
        responses={200: JobDetailSerializer, **problem_responses(400, 403, 404, 409, 413, 415, 422)},
        examples=[OpenApiExample("Job", value=examples.RESUMED, response_only=True, status_codes=["200"])],
    )
    def post(self, request: Request, job_id: UUID) -> Response:
        without_body(request)
        job = _job(job_id)
        try:
            resumed = services.resume(job, by=self.operator)
        except services.AlreadyActive as error:
            raise _duplicate(request, error) from None
        if not resumed:
            raise StateConflict(f"The job is {job.get_state_display()}; it cannot be resumed.")
        return Response(JobDetailSerializer(job).data)


class LogView(OperatorView):
    """A job's log."""

    @extend_schema(
        operation_id="job_log",
        summary="A job's log",
        description="A piece of it, by byte offset. To follow it, ask again from `next_offset` while it is `active`.",
        parameters=_LOG_RANGE.parameters,
        responses={200: LogSerializer, **problem_responses(400, 403, 404)},
        examples=[OpenApiExample("Log", value=examples.LOG, response_only=True, status_codes=["200"])],
    )
    def get(self, request: Request, job_id: UUID) -> Response:
        offset, limit = _LOG_RANGE.of(request)
        job = _job(job_id)
        piece = read_log(job, offset, limit)
        body = {"text": piece.text, "next_offset": piece.end, "size": piece.size, "active": job.is_active}
        return Response(body)


class MetricsView(OperatorView):
    """A job's metrics."""

    @extend_schema(
        operation_id="job_metrics",
        summary="A job's metrics",
        description="The earliest first. To follow them, ask again with `after` = `cursor`.",
        parameters=_METRICS_RANGE.parameters,
        responses={200: MetricsSerializer, **problem_responses(400, 403, 404)},
        examples=[OpenApiExample("Metrics", value=examples.METRICS, response_only=True, status_codes=["200"])],
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
    """Each with its place in the body."""
    return [
        FieldError("kind" if name == "kind" else f"parameters.{name}".rstrip("."), says)
        for name, says in error.errors.items()
    ]


def _duplicate(request: Request, error: services.AlreadyActive) -> StateConflict:
    return StateConflict(str(error), job=reverse("api-job", args=[error.job.pk], request=request))
