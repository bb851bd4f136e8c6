"""Audit entries for changes in the administration, as for those in the console."""

from __future__ import annotations

from typing import Any, Final

from axes.admin import AccessAttemptAdmin, AccessFailureLogAdmin, AccessLogAdmin
from axes.models import AccessAttempt, AccessFailureLog, AccessLog
from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group, User
from django.db import models
from django.http import HttpRequest

from webapp.models import ApiToken, AuditEntry

STAFF_MAY: Final = (
    "An administrator: may do everything under Manage, "
    "and read and change every document, those of private collections, too."
)


class Audited(admin.ModelAdmin):  # type: ignore[type-arg]  # not generic at run time
    """An administration page that records every addition, change and deletion in the audit trail.

    Django's own log continues, but only superusers read it and it is deleted with the account.
    """

    deletes_with_it: tuple[type[models.Model], ...] = ()  # records that are deleted together with one

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        return self._changed("record.add", request, obj, super().log_addition(request, obj, message))

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        return self._changed("record.edit", request, obj, super().log_change(request, obj, message))

    def log_deletions(self, request: HttpRequest, queryset: models.QuerySet[Any]) -> Any:
        for one in queryset:
            self._record("record.remove", request, one)
        return super().log_deletions(request, queryset)

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Records that belong to another are deleted with it, though not alone."""
        found, counts, lacking, protected = super().get_deleted_objects(objs, request)
        return found, counts, lacking - {model._meta.verbose_name for model in self.deletes_with_it}, protected

    def called(self, record: Any) -> str:
        """The record's name in the audit trail, which is kept for ever."""
        return str(record)

    def _changed(self, action: str, request: HttpRequest, record: models.Model, logged: Any) -> Any:
        self._record(action, request, record, change=logged.get_change_message())
        return logged

    def _record(self, action: str, request: HttpRequest, record: models.Model, **details: str) -> None:
        assert isinstance(request.user, User)
        target = f"{record._meta.verbose_name} {self.called(record)}"
        AuditEntry.record(action, target, by=request.user, record=str(record.pk), **details)


class _Accounts(UserAdmin):  # type: ignore[type-arg]  # not generic at run time
    """Accounts; what Django says of “staff” is true of its own administration alone."""

    def formfield_for_dbfield(self, db_field: models.Field[Any, Any], request: HttpRequest, **named: Any) -> Any:
        if db_field.name == "is_staff":
            named["help_text"] = STAFF_MAY
        return super().formfield_for_dbfield(db_field, request, **named)


# The models of Django and of the login locks.
for _model, _theirs, _more in (
    (User, _Accounts, {"deletes_with_it": (ApiToken,), "readonly_fields": ("last_login", "date_joined")}),
    (Group, GroupAdmin, {}),
    (AccessAttempt, AccessAttemptAdmin, {}),
    (AccessFailureLog, AccessFailureLogAdmin, {}),
    (AccessLog, AccessLogAdmin, {}),
):
    admin.site.unregister(_model)
    admin.site.register(_model, type(_theirs.__name__.lstrip("_"), (Audited, _theirs), _more))
