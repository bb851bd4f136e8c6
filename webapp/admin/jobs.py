"""Jobs, to look at. Start and stop them at /manage/jobs/."""

from django.contrib import admin

from webapp.admin.readonly import ReadOnlyAdmin
from webapp.models import Job


@admin.register(Job)
class JobAdmin(ReadOnlyAdmin):
    list_display = ["id", "kind", "state", "attempt", "created_by", "created_at", "started_at", "finished_at"]
    list_filter = ["kind", "state"]
    list_select_related = ["created_by"]
