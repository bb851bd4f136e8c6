"""What is done in the administration goes into the audit trail, as what is done in the console does."""

from __future__ import annotations

from typing import Any

from axes.admin import AccessAttemptAdmin, AccessFailureLogAdmin, AccessLogAdmin
from axes.models import AccessAttempt, AccessFailureLog, AccessLog
from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group, User
from django.db import models
from django.http import HttpRequest

from webapp.models import ApiToken, AuditEntry


class Audited(admin.ModelAdmin):  # type: ignore[type-arg]  # not generic at run time
    """An administration page whose every addition, change and deletion is written down for all to see.

    Django's own log, which goes on, is read by superusers only and goes with the account that it is of.
    """

    taking_along: tuple[type[models.Model], ...] = ()  # what is deleted together with a record

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        return self._changed("record.add", request, obj, super().log_addition(request, obj, message))

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        return self._changed("record.edit", request, obj, super().log_change(request, obj, message))

    def log_deletions(self, request: HttpRequest, queryset: models.QuerySet[Any]) -> Any:
        for one in queryset:
            self._record("record.remove", request, one)
        return super().log_deletions(request, queryset)

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """What belongs to a record goes with it, though by itself it may not be deleted here."""
        found, counts, lacking, protected = super().get_deleted_objects(objs, request)
        return found, counts, lacking - {model._meta.verbose_name for model in self.taking_along}, protected

    def called(self, record: Any) -> str:
        """What a record is called in the audit trail, which keeps it for ever."""
        return str(record)

    def _changed(self, action: str, request: HttpRequest, record: models.Model, logged: Any) -> Any:
        self._record(action, request, record, change=logged.get_change_message())
        return logged

    def _record(self, action: str, request: HttpRequest, record: models.Model, **details: str) -> None:
        assert isinstance(request.user, User)
        target = f"{record._meta.verbose_name} {self.called(record)}"
        AuditEntry.record(action, target, by=request.user, record=str(record.pk), **details)


# Those that come with Django and with the locks of logins.
for _model, _theirs, _more in (
    (User, UserAdmin, {"taking_along": (ApiToken,), "readonly_fields": ("last_login", "date_joined")}),
    (Group, GroupAdmin, {}),
    (AccessAttempt, AccessAttemptAdmin, {}),
    (AccessFailureLog, AccessFailureLogAdmin, {}),
    (AccessLog, AccessLogAdmin, {}),
):
    admin.site.unregister(_model)
    admin.site.register(_model, type(_theirs.__name__, (Audited, _theirs), _more))
