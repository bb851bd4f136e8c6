"""Schedules in the API."""

from __future__ import annotations

import re
from datetime import time
from typing import Any, Final

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from webapp.models import ModelVersion, QuestionSet, RetentionRule, Schedule, ScheduleRun, Trigger
from webapp.models.schedule import MOST_DAYS, MOST_GENERATIONS, MOST_HOURS, Weekday
from webapp.rest.serializers import (
    RecordIdField,
    RecordSerializer,
    StrictBooleanField,
    StrictCharField,
    StrictIntegerField,
    StrictSerializer,
    WordField,
    person_field,
)

_TIME: Final = "^([01][0-9]|2[0-3]):[0-5][0-9]$"


@extend_schema_field({"type": "string", "pattern": _TIME})
class _TimeOfDayField(StrictCharField):
    """A time of day such as 02:30, in UTC. One with an offset is refused: it would be read as UTC."""

    def to_internal_value(self, data: Any) -> Any:
        text = super().to_internal_value(data)
        if not re.fullmatch(_TIME, text):
            raise serializers.ValidationError("This must be a time of day in UTC, such as 02:30.")
        return time.fromisoformat(text)

    def to_representation(self, value: Any) -> str:
        return str(value.isoformat("minutes"))


class ScheduleRunSerializer(RecordSerializer):
    """A run of a schedule, or one that was not started because the run before was under way."""

    class Meta:
        model = ScheduleRun
        fields = ["at", "outcome", "failed", "job"]


class ScheduleSerializer(RecordSerializer):
    """An automatic rebuild."""

    when = serializers.CharField(help_text="When it runs, in words.")
    at = _TimeOfDayField(allow_null=True, help_text="UTC.")
    weekday = serializers.IntegerField(allow_null=True, help_text="0 is Monday; null: every day.")
    created_by = person_field()
    runs = ScheduleRunSerializer(many=True, help_text="What its latest runs came to, the newest first.")

    class Meta:
        model = Schedule
        fields = [
            *("id", "corpus_name", "model", "trigger", "when", "hours", "at", "weekday", "ingest", "questions"),
            *("deploy", "enabled", "stage", "due_at", "last_run_at", "last_outcome", "last_failed"),
            *("last_job", "runs", "created_by", "created_at"),
        ]


class ScheduleChangesSerializer(StrictSerializer):
    """Settings of a schedule; what is not given stays."""

    corpus_name = StrictCharField(required=False, help_text="Name of a corpus; its newest snapshot is indexed.")
    model = RecordIdField(
        ModelVersion,
        required=False,
        allow_null=True,
        help_text="Id of the model that builds the index; null: the deployed one, or the new one.",
    )
    trigger = WordField(Trigger.choices, required=False)
    hours = StrictIntegerField(
        required=False, allow_null=True, min_value=1, max_value=MOST_HOURS, help_text="For `every`."
    )
    at = _TimeOfDayField(required=False, allow_null=True, help_text="For `at`, in UTC.")
    weekday = StrictIntegerField(
        required=False,
        allow_null=True,
        min_value=Weekday.MONDAY,
        max_value=Weekday.SUNDAY,
        help_text="For `at`: 0 is Monday; null: every day.",
    )
    ingest = StrictBooleanField(
        required=False, help_text="Whether the corpus's source is read again first; true if not given."
    )
    questions = RecordIdField(
        QuestionSet,
        required=False,
        allow_null=True,
        help_text="Id of a set to measure by, which the new index and the active deployment are asked; null: none.",
    )
    deploy = StrictBooleanField(
        required=False, help_text="Whether it is deployed if it answers no worse; needs `questions`."
    )
    enabled = StrictBooleanField(required=False, help_text="Whether it runs by itself; true if not given.")


class NewScheduleSerializer(ScheduleChangesSerializer):
    """A new schedule."""

    corpus_name = StrictCharField(help_text="Name of a corpus; its newest snapshot is indexed.")
    trigger = WordField(Trigger.choices)


class RetentionSerializer(RecordSerializer):
    """The rule of retention. What is deployed, pinned or used is kept whatever it says."""

    class Meta:
        model = RetentionRule
        fields = ["enabled", "generations", "run_days", "answer_days", "changed_at"]


class RetentionChangesSerializer(StrictSerializer):
    """Settings of the rule; what is not given stays."""

    enabled = StrictBooleanField(
        required=False, help_text="Whether old indexes, corpora and run folders are removed by themselves."
    )
    generations = StrictIntegerField(
        required=False,
        min_value=1,
        max_value=MOST_GENERATIONS,
        help_text="Indexes kept of each corpus, the newest ones, and as many of the corpora that schedules ingested.",
    )
    run_days = StrictIntegerField(
        required=False, min_value=1, max_value=MOST_DAYS, help_text="Days that the run folder of an ended job is kept."
    )
    answer_days = StrictIntegerField(
        required=False,
        min_value=0,
        max_value=MOST_DAYS,
        help_text="Days that questions asked without an account are kept, with their answers, whether the rule is "
        "enabled or not; 0: for ever. Accepted feedback stays.",
    )
