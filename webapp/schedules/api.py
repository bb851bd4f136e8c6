"""Schedules over REST: list, read, create, change, remove, run now."""

from __future__ import annotations

from typing import Final

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse

from webapp.models import Schedule
from webapp.rest.base import OperatorView, checked, problem_responses, without_body
from webapp.rest.lists import RecordList, page_example, page_response
from webapp.rest.parameters import by_text, by_time, by_truth, only_parameters
from webapp.schedules import examples
from webapp.schedules import service as scheduling
from webapp.schedules.serializers import NewScheduleSerializer, ScheduleChangesSerializer, ScheduleSerializer

_LIST: Final = RecordList(
    filters=(
        by_text("corpus_name", Schedule),
        by_truth("enabled", "enabled", "Whether it runs by itself."),
        *by_time(),
    ),
    orders=("created_at",),
)
_SCHEDULE: Final = OpenApiExample("Schedule", value=examples.SCHEDULE, response_only=True, status_codes=["200", "201"])


class SchedulesView(OperatorView):
    """All schedules."""

    @extend_schema(
        operation_id="schedules",
        summary="List schedules",
        parameters=_LIST.parameters,
        responses={200: page_response("SchedulePage", ScheduleSerializer), **problem_responses(400, 403)},
        examples=[page_example("Schedules", examples.SCHEDULE, "schedules")],
    )
    def get(self, request: Request) -> Response:
        return _LIST.page(request, _schedules(), ScheduleSerializer)

    @extend_schema(
        operation_id="create_schedule",
        summary="Create a schedule",
        description="`Location` is its address. Each of its steps is a job; what leaves a doubt is not deployed.",
        request=NewScheduleSerializer,
        responses={201: ScheduleSerializer, **problem_responses(400, 403, 413, 415, 422)},
        examples=[OpenApiExample("Weekly", value=examples.NEW_SCHEDULE, request_only=True), _SCHEDULE],
    )
    def post(self, request: Request) -> Response:
        told = checked(request, NewScheduleSerializer)
        # Without reading the source again a periodic build would find nothing new.
        schedule = scheduling.save(Schedule(**{"ingest": True, **told}), by=self.operator)
        address = reverse("api-schedule", args=[schedule.pk], request=request)
        return Response(ScheduleSerializer(schedule).data, status=201, headers={"Location": address})


class ScheduleView(OperatorView):
    """One schedule."""

    @extend_schema(
        operation_id="schedule",
        summary="A schedule",
        description="When it runs next, how far it is (`stage`), and what came of it (`last_outcome`).",
        responses={200: ScheduleSerializer, **problem_responses(400, 403, 404)},
        examples=[_SCHEDULE],
    )
    def get(self, request: Request, schedule_id: int) -> Response:
        only_parameters(request, ())
        return Response(ScheduleSerializer(_schedule(schedule_id)).data)

    @extend_schema(
        operation_id="change_schedule",
        summary="Change a schedule",
        description="What is not given stays. A run that is under way goes on by the new settings.",
        request=ScheduleChangesSerializer,
        responses={200: ScheduleSerializer, **problem_responses(400, 403, 404, 413, 415, 422)},
        examples=[OpenApiExample("Daily", value=examples.CHANGES, request_only=True), _SCHEDULE],
    )
    def patch(self, request: Request, schedule_id: int) -> Response:
        told = checked(request, ScheduleChangesSerializer)
        schedule = _schedule(schedule_id)
        for name, value in told.items():
            setattr(schedule, name, value)
        return Response(ScheduleSerializer(scheduling.save(schedule, by=self.operator)).data)

    @extend_schema(
        operation_id="remove_schedule",
        summary="Remove a schedule",
        description="The jobs that it started stay.",
        request=None,
        responses={204: None, **problem_responses(400, 403, 404)},
    )
    def delete(self, request: Request, schedule_id: int) -> Response:
        without_body(request)
        scheduling.remove(_schedule(schedule_id), by=self.operator)
        return Response(status=204)


class RunView(OperatorView):
    """Run a schedule."""

    @extend_schema(
        operation_id="run_schedule",
        summary="Run a schedule now",
        description="Whatever the time, and also if it is not enabled. `last_job` is the job that it started, or of "
        "the run that is under way; null: there was nothing to start, and `last_outcome` says why.",
        request=None,
        responses={200: ScheduleSerializer, **problem_responses(400, 403, 404, 413, 415)},
        examples=[OpenApiExample("Schedule", value=examples.RUN, response_only=True, status_codes=["200"])],
    )
    def post(self, request: Request, schedule_id: int) -> Response:
        without_body(request)
        schedule = _schedule(schedule_id)
        scheduling.run_now(schedule, by=self.operator)
        return Response(ScheduleSerializer(schedule).data)


def _schedules() -> QuerySet[Schedule]:
    return Schedule.objects.select_related("created_by")


def _schedule(schedule_id: int) -> Schedule:
    return get_object_or_404(_schedules(), pk=schedule_id)
