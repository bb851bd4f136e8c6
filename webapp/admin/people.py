"""The audit trail, feedback, and tokens of REST clients."""

from django.contrib import admin

from webapp.admin.readonly import ReadOnlyAdmin
from webapp.models import ApiToken, AuditEntry, Feedback


@admin.register(AuditEntry)
class AuditEntryAdmin(ReadOnlyAdmin):
    list_display = ["at", "name", "action", "target"]
    list_filter = ["action"]
    date_hierarchy = "at"


@admin.register(Feedback)
class FeedbackAdmin(ReadOnlyAdmin):
    list_display = ["answer", "right", "better_answer", "by", "changed_at"]
    list_select_related = ["answer", "by"]
    exclude = ["session_key"]


@admin.register(ApiToken)
class ApiTokenAdmin(ReadOnlyAdmin):
    list_display = ["start", "name", "user", "scopes", "created_at", "expires_at", "last_used_at", "revoked_at"]
    list_select_related = ["user"]
    exclude = ["digest"]
