"""Jobs, workers, schedules and processes, read-only.

The console starts, stops and changes them.
"""

from django.contrib import admin

from webapp.admin.readonly import ReadOnlyAdmin
from webapp.models import DeviceLease, Job, RetentionRule, Schedule, Scheduler, WebProcess, Worker


@admin.register(Job)
class JobAdmin(ReadOnlyAdmin):
    list_display = ["id", "kind", "queue", "state", "attempt", "created_by", "created_at", "started_at", "finished_at"]
    list_filter = ["kind", "queue", "state"]
    list_select_related = ["created_by"]


@admin.register(Worker)
class WorkerAdmin(ReadOnlyAdmin):
    list_display = ["name", "queues", "slots", "started_at", "seen_at"]


@admin.register(WebProcess)
class WebProcessAdmin(ReadOnlyAdmin):
    list_display = ["name", "state", "deployment", "reason", "started_at", "seen_at"]
    list_select_related = ["deployment", "deployment__model", "deployment__index"]


@admin.register(Scheduler)
class SchedulerAdmin(ReadOnlyAdmin):
    list_display = ["name", "host", "started_at", "seen_at"]


@admin.register(DeviceLease)
class DeviceLeaseAdmin(ReadOnlyAdmin):
    list_display = ["device", "place", "job", "taken_at"]
    list_select_related = ["job"]


@admin.register(Schedule)
class ScheduleAdmin(ReadOnlyAdmin):
    list_display = ["corpus_name", "model", "trigger", "hours", "at", "enabled", "due_at", "last_run_at"]
    list_select_related = ["model"]


@admin.register(RetentionRule)
class RetentionRuleAdmin(ReadOnlyAdmin):
    list_display = ["pk", "enabled", "generations", "run_days", "changed_at"]
