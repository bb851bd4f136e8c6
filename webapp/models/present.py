"""Records whose files may have been removed: the row stays, because others name it."""

from __future__ import annotations

from typing import TypeVar

from django.db import models

M = TypeVar("M", bound=models.Model)


class Present(models.Manager[M]):
    """Those whose files are there. `every` finds the others, too, and so does whoever points at one."""

    def get_queryset(self) -> models.QuerySet[M]:
        return super().get_queryset().filter(removed_at=None)
