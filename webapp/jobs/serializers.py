"""Jobs, their kinds, logs and metrics in the API."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final
from uuid import UUID

from django.db.models import QuerySet
from rest_framework import serializers

from realm_core.settings import FILE, Setting
from realm_core.tasks import JOBS
from webapp.jobs.schema import TYPES, parameters_schema
from webapp.jobs.service import schedules_of
from webapp.kinds import Kind
from webapp.models import Job, JobMetric, Queue, Schedule
from webapp.rest.serializers import RecordSerializer, StrictCharField, StrictSerializer, person_field
from webapp.sources.serializers import SourceFileSerializer
from webapp.sources.service import sources

KIND_CHOICES: Final = [(name, task.label()) for name, task in JOBS.items()]


class NewJobSerializer(StrictSerializer):
    """A job to start. `webapp.kinds` checks the parameters; schema.py describes them, kind by kind."""

    kind = StrictCharField()
    parameters = serializers.DictField()
    settings_of = serializers.UUIDField(default=None, allow_null=True)


class MetricSerializer(RecordSerializer):
    """A job's metrics at one step."""

    values = serializers.DictField(
        help_text="By name; null if it was no finite number. An ablation's rows also have labels: `stage` "
        "(a kind of job, or zero-shot: the retriever before fine-tuning), `row` and `questions`, if there are any."
    )

    class Meta:
        model = JobMetric
        fields = ["id", "step", "time", "values"]


class StartingScheduleSerializer(RecordSerializer):
    """The schedule that started a job."""

    name = serializers.CharField(source="__str__", help_text="Its corpus, and when it runs, in words.")

    class Meta:
        model = Schedule
        fields = ["id", "name"]


class JobSerializer(RecordSerializer):
    """A job."""

    kind = serializers.ChoiceField(KIND_CHOICES)
    title = serializers.CharField(source="get_kind_display", help_text="The kind, for people.")
    parameters = serializers.DictField(help_text="Ids of the records that it works on, and every setting.")
    progress = serializers.DictField(
        help_text="Last report of its process: done, total, unit, rate (a second), seconds_left, message, time (Unix "
        "time); {} before that."
    )
    result = serializers.DictField(help_text="Its result, {} until then.")
    resumes_at = serializers.DateTimeField(
        allow_null=True, help_text="When an interrupted job resumes by itself; null: only on request."
    )
    created_by = person_field()
    schedule = serializers.SerializerMethodField(
        help_text="The schedule that started it, or its parent job, by itself or because a person ran it; null: none "
        "did, or it was removed."
    )
    ran_before_s = serializers.SerializerMethodField(
        help_text="Seconds that it ran in all before it was last resumed; started_at is of the time since."
    )

    class Meta:
        model = Job
        fields = [
            *("id", "kind", "title", "queue", "state", "parameters", "progress", "result", "error", "attempt"),
            *(
                "parent",
                "settings_of",
                "pinned",
                "created_by",
                "schedule",
                "created_at",
                "queued_at",
                "started_at",
                "finished_at",
            ),
            *("ran_before_s", "resumes_at"),
        ]

    def get_schedule(self, job: Job) -> StartingScheduleSerializer(allow_null=True):  # type: ignore[valid-type]
        """From the audit trail, which is asked once for all jobs of a list."""
        found = self._schedules.get(job.pk)
        return None if found is None else StartingScheduleSerializer(found).data

    @cached_property
    def _schedules(self) -> dict[UUID, Schedule]:
        shown: Any = self.instance if self.parent is None else self.parent.instance
        return schedules_of(shown if isinstance(shown, list) else [shown])

    def get_ran_before_s(self, job: Job) -> float:
        """The time of all earlier attempts."""
        return job.ran_before.total_seconds()


class PartSerializer(RecordSerializer):
    """A job that is a part of another."""

    kind = serializers.ChoiceField(KIND_CHOICES)

    class Meta:
        model = Job
        fields = ["id", "kind", "state"]


class MadeSerializer(serializers.Serializer[Any]):
    """Ids of the records that a job made."""

    corpora = serializers.ListField(child=serializers.IntegerField())
    models = serializers.ListField(child=serializers.IntegerField())
    indexes = serializers.ListField(child=serializers.IntegerField())
    span_sets = serializers.ListField(child=serializers.IntegerField())
    evaluations = serializers.ListField(child=serializers.IntegerField())


class JobDetailSerializer(JobSerializer):
    """A job, with its latest metrics, its parts and the records that it made."""

    last_metrics = serializers.SerializerMethodField()
    parts = serializers.SerializerMethodField()
    made = serializers.SerializerMethodField()

    class Meta(JobSerializer.Meta):
        fields = [*JobSerializer.Meta.fields, "last_metrics", "parts", "made"]

    def get_last_metrics(self, job: Job) -> MetricSerializer(allow_null=True):  # type: ignore[valid-type]
        """The latest row of metrics."""
        last = job.metrics.order_by("-pk").first()
        return None if last is None else MetricSerializer(last).data

    def get_parts(self, job: Job) -> PartSerializer(many=True):  # type: ignore[valid-type]
        """All parts, the earliest first, without their logs."""
        return PartSerializer(job.parts.order_by("created_at").only("id", "kind", "state", "parent"), many=True).data

    def get_made(self, job: Job) -> MadeSerializer:
        """Ids, by the name of the list that has the records."""
        made: dict[str, QuerySet[Any]] = {
            "corpora": job.corpora.all(),
            "models": job.model_versions.all(),
            "indexes": job.indexes.all(),
            "span_sets": job.span_sets.all(),
            "evaluations": job.evaluations.all(),
        }
        return {name: list(records.values_list("pk", flat=True)) for name, records in made.items()}  # type: ignore[return-value]


class MetricsSerializer(serializers.Serializer[Any]):
    """Rows of metrics, the earliest first."""

    rows = MetricSerializer(many=True)
    cursor = serializers.IntegerField(help_text="The next request's `after`, also if there are no more rows yet.")
    more = serializers.BooleanField(help_text="Whether there are more rows already.")


class LogSerializer(serializers.Serializer[Any]):
    """A part of a log."""

    text = serializers.CharField(allow_blank=True)
    next_offset = serializers.IntegerField(help_text="The next request's `offset`, also at the end of the log.")
    size = serializers.IntegerField(help_text="Size of the whole log, in bytes.")
    active = serializers.BooleanField(help_text="Whether more may follow.")


class _BoundField(serializers.FloatField):
    """A number in its declared type: 1 stays 1."""

    def to_representation(self, value: Any) -> Any:
        return value


class _TypeField(serializers.ChoiceField):
    """The type of a setting, as JSON Schema calls it."""

    def to_representation(self, value: Any) -> str:
        return TYPES[value]


class LimitSerializer(serializers.Serializer[Any]):
    """The limits of a setting."""

    says = serializers.CharField(help_text='In words, as a continuation of "must be".')
    low = _BoundField(allow_null=True)
    high = _BoundField(allow_null=True)
    choices = serializers.ListField(child=serializers.CharField(), help_text="Empty: any value within the limits.")
    called = serializers.DictField(
        child=serializers.CharField(), help_text="Labels of the choices, if they differ from the values."
    )


class SettingSerializer(serializers.Serializer[Any]):
    """A setting of a kind of job."""

    name = serializers.CharField(help_text="A stage's setting starts with the stage and a dot: pretrain.steps.")
    type = _TypeField(source="kind", choices=list(TYPES.values()))
    default = serializers.JSONField()
    unit = serializers.CharField(allow_blank=True, help_text="Of a number, in the plural; empty: it has none.")
    help = serializers.CharField(help_text="Continues the unit, if there is one: blocks, read for a question.")
    limit = LimitSerializer()
    files = serializers.SerializerMethodField(
        help_text="The files in the data folder's sources/; null if the setting names no file."
    )

    def get_files(self, one: Setting) -> SourceFileSerializer(many=True, allow_null=True):  # type: ignore[valid-type]
        return SourceFileSerializer(sources(), many=True).data if one.limit == FILE else None


class InputSerializer(serializers.Serializer[Any]):
    """Records that a kind of job works on."""

    name = serializers.CharField()
    list = serializers.CharField(source="records.list", help_text="Their list: /api/v1/…")
    help = serializers.CharField()
    many = serializers.BooleanField(help_text="A list of ids instead of one.")  # type: ignore[assignment]
    required = serializers.BooleanField()  # type: ignore[assignment]  # fields, not attributes of this serializer
    limit_to = serializers.DictField(child=serializers.CharField(), help_text="Only records with these field values.")


class KindSerializer(serializers.Serializer[Any]):
    """A kind of job: everything that a form needs."""

    kind = serializers.CharField()
    title = serializers.CharField()
    about = serializers.CharField()
    queue = serializers.ChoiceField(choices=Queue.values)
    inputs = InputSerializer(many=True)
    settings = SettingSerializer(source="described", many=True)
    schema = serializers.SerializerMethodField(help_text="Inputs and settings as JSON Schema (OpenAPI 3.0).")

    def get_schema(self, kind: Kind) -> dict[str, Any]:
        """As in the API's description."""
        return parameters_schema(kind)
