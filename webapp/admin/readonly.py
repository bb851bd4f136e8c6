"""Read-only pages of the administration."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest

from webapp.admin.audited import Audited


class ReadOnly:
    """Records of what happened: only the site writes them."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class ReadOnlyAdmin(ReadOnly, Audited):
    """A page of such records, also of those whose files were removed."""

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        everything: QuerySet[Any] = self.model._base_manager.all()
        return everything
