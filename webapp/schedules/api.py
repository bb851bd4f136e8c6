"""Schedules over REST: list, read, create, change, remove, run now; and the rule of retention: read, change."""

from __future__ import annotations

from typing import Any, Final

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from rest_framework.request import Request
from rest_framework.response import Response

from webapp.artefacts import retention
from webapp.models import RetentionRule, Schedule
from webapp.rest.base import OperatorView
from webapp.rest.lists import RecordList
from webapp.rest.operation import given, operation, sent
from webapp.rest.parameters import by_text, by_time, by_truth
from webapp.schedules import examples
from webapp.schedules import service as scheduling
from webapp.schedules.serializers import (
    NewScheduleSerializer,
    RetentionChangesSerializer,
    RetentionSerializer,
    ScheduleChangesSerializer,
    ScheduleSerializer,
)

_LIST: Final = RecordList(
    filters=(
        by_text("corpus_name", Schedule),
        by_truth("enabled", "enabled", "Whether it runs by itself."),
        *by_time(),
    ),
    orders=("created_at",),
    address="schedules",
    kind=ScheduleSerializer,
    example=examples.SCHEDULE,
    page_name="SchedulePage",
)
_SCHEDULE: Final = given("Schedule", examples.SCHEDULE, 200, 201)


class SchedulesView(OperatorView):
    @_LIST.operation("schedules", "List schedules")
    def get(self, _request: Request) -> QuerySet[Schedule]:
        return _schedules()

    @operation(
        "create_schedule",
        "Create a schedule",
        "`Location` is its address. Each of its steps is a job; what leaves a doubt is not deployed.",
        takes=NewScheduleSerializer,
        gives={201: ScheduleSerializer},
        problems=[422],
        examples=[sent("Weekly", examples.NEW_SCHEDULE), _SCHEDULE],
    )
    def post(self, _request: Request, body: dict[str, Any]) -> Response:
        # Without reading the source again a periodic build would find nothing new.
        schedule = scheduling.save(Schedule(**{"ingest": True, **body}), by=self.operator)
        return self.made(ScheduleSerializer, schedule, "api-schedule")


class ScheduleView(OperatorView):
    @operation(
        "schedule",
        "A schedule",
        "When it runs next, how far it is (`stage`), what came of it (`last_outcome`, `last_failed`), and of the runs "
        "before (`runs`).",
        gives=ScheduleSerializer,
        examples=[_SCHEDULE],
    )
    def get(self, _request: Request, schedule_id: int) -> Response:
        return Response(ScheduleSerializer(_schedule(schedule_id)).data)

    @operation(
        "change_schedule",
        "Change a schedule",
        "What is not given stays. A run that is under way goes on by the new settings.",
        takes=ScheduleChangesSerializer,
        gives=ScheduleSerializer,
        problems=[422],
        examples=[sent("Daily", examples.CHANGES), _SCHEDULE],
    )
    def patch(self, _request: Request, schedule_id: int, body: dict[str, Any]) -> Response:
        schedule = _schedule(schedule_id)
        for name, value in body.items():
            setattr(schedule, name, value)
        return Response(ScheduleSerializer(scheduling.save(schedule, by=self.operator)).data)

    @operation("remove_schedule", "Remove a schedule", "The jobs that it started stay.", gives=None)
    def delete(self, _request: Request, schedule_id: int) -> Response:
        scheduling.remove(_schedule(schedule_id), by=self.operator)
        return Response(status=204)


class RunView(OperatorView):
    @operation(
        "run_schedule",
        "Run a schedule now",
        "Whatever the time, and also if it is not enabled. `last_job` is the job that it started, or of "
        "the run that is under way, which goes on; null: there was nothing to start. The first of `runs` says so.",
        gives=ScheduleSerializer,
        examples=[given("Schedule", examples.RUN)],
    )
    def post(self, _request: Request, schedule_id: int) -> Response:
        schedule = _schedule(schedule_id)
        scheduling.run_now(schedule, by=self.operator)
        return Response(ScheduleSerializer(schedule).data)


class RetentionView(OperatorView):
    @operation(
        "retention",
        "The rule of retention",
        "What is kept of old work, and how long questions are kept that were asked without an account.",
        gives=RetentionSerializer,
        examples=[given("Rule", examples.RETENTION)],
    )
    def get(self, _request: Request) -> Response:
        return Response(RetentionSerializer(RetentionRule.current()).data)

    @operation(
        "change_retention",
        "Change the rule of retention",
        "What is not given stays. The scheduler applies it every hour.",
        takes=RetentionChangesSerializer,
        gives=RetentionSerializer,
        examples=[sent("Questions for 90 days", examples.RETENTION_CHANGES), given("Rule", examples.RETENTION)],
    )
    def patch(self, _request: Request, body: dict[str, Any]) -> Response:
        rule = retention.change_rule(by=self.operator, **body) if body else RetentionRule.current()
        return Response(RetentionSerializer(rule).data)


def _schedules() -> QuerySet[Schedule]:
    return Schedule.objects.select_related("created_by").prefetch_related("earlier_runs")


def _schedule(schedule_id: int) -> Schedule:
    return get_object_or_404(_schedules(), pk=schedule_id)
