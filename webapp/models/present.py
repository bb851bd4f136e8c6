"""Records whose files may have been removed: the row remains, because others name it."""

from __future__ import annotations

from typing import TypeVar

from django.db import models

M = TypeVar("M", bound=models.Model)


class Present(models.Manager[M]):
    """Records whose files exist. The manager `every` finds the others, too, and so do foreign keys."""

    def get_queryset(self) -> models.QuerySet[M]:
        return super().get_queryset().filter(removed_at=None)
