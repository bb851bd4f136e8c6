"""Deployments: which model and index answer questions, now and before.

Rows are history: activating always writes a new row, also when going back to an earlier pair. So an answer's deployment
says exactly what was serving, and since when. The database allows one active row.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import IntegrityError, connection, models, transaction
from django.db.models import OuterRef, Subquery
from django.utils import timezone

from realm_core.errors import RealmError
from webapp.models.document import CorpusState
from webapp.models.index import IndexGeneration
from webapp.models.model_version import ModelVersion

if TYPE_CHECKING:
    from django.contrib.auth.models import User

    from webapp.models.model_version import ModelVersion


class Deployment(models.Model):
    """One pair of model and index that serves, or served, questions."""

    model = models.ForeignKey("webapp.ModelVersion", on_delete=models.PROTECT, related_name="deployments")
    index = models.ForeignKey("webapp.IndexGeneration", on_delete=models.PROTECT, related_name="deployments")
    is_active = models.BooleanField(default=True)
    activated_at = models.DateTimeField(default=timezone.now)
    deactivated_at = models.DateTimeField(null=True, blank=True)
    activated_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    note = models.CharField(max_length=200, blank=True)

    class Meta:
        ordering = ["-pk"]  # not by time, because a clock may be set back
        constraints = [
            models.UniqueConstraint(
                fields=["is_active"], condition=models.Q(is_active=True), name="one_active_deployment"
            )
        ]

    def __str__(self) -> str:
        return f"Deployment {self.pk}: {self.model} over {self.index.generation}"

    @classmethod
    def active(cls) -> Deployment | None:
        """The active deployment, with model and index loaded."""
        return cls._with_both(cls.objects.filter(is_active=True))

    @classmethod
    def active_keys(cls) -> tuple[int, int, int | None] | None:
        """Primary keys of the active deployment, its index and the state above that; each question asks for them.

        The rows of a key never change in what they say of a corpus.
        """
        with connection.cursor() as cursor:
            cursor.execute(*_active_keys())
            found: tuple[int, int, int | None] | None = cursor.fetchone()
        return found

    @classmethod
    def locked(cls) -> Deployment | None:
        """`active`, whose row no other transaction locks until this one ends: no document is edited in its corpus."""
        return cls._with_both(cls.objects.select_for_update(of=("self",), no_key=True).filter(is_active=True))

    @classmethod
    def _with_both(cls, active: models.QuerySet[Deployment]) -> Deployment | None:
        """The only row, with what is asked of it.

        Without an order, and without the index's model where it is the deployment's: most of the time of a query that
        pages make several times is Django's, for each column.
        """
        for found in active.select_related("model", "index__corpus").order_by()[:1]:
            if found.index.model_id == found.model_id:
                found.index.model = found.model
            else:
                _ = found.index.model  # loaded by this
            return found
        return None

    def earlier(self, most: int) -> list[Deployment]:
        """Up to `most` earlier pairs, different from this one, that can be deployed again: the newest first."""
        pairs = {(self.model_id, self.index_id)}
        found: list[Deployment] = []
        present = Deployment.objects.filter(index__removed_at=None, index__folded_into=None, model__removed_at=None)
        before = present.filter(pk__lt=self.pk)
        for one in before.select_related("model", "index__corpus", "index__model").iterator(chunk_size=20):
            if len(found) == most:
                break
            if (pair := (one.model_id, one.index_id)) not in pairs:
                pairs.add(pair)
                found.append(one)
        return found

    @classmethod
    def activate(
        cls,
        index: IndexGeneration,
        *,
        model: ModelVersion | None = None,
        by: User | None = None,
        note: str = "",
    ) -> Deployment:
        """Deploy `model` (default: the one that built `index`) with `index`.

        RealmError if they do not fit, if the index was folded or retention has removed its files, or if another
        deployment is activated at the same moment.
        """
        model = model or index.model
        if model.block_hash != index.model.block_hash:
            raise RealmError(f"{model} embeds blocks differently from {index.model}, which built {index.generation}.")
        now = timezone.now()
        try:
            with transaction.atomic():
                # Removing files locks these rows, too: it sees this deployment, or has already marked the rows.
                if ModelVersion.every.select_for_update().get(pk=model.pk).removed_at is not None:
                    raise RealmError(f"The files of {model} have been removed.")
                held = IndexGeneration.every.select_for_update().get(pk=index.pk)
                if held.removed_at is not None:
                    raise RealmError(f"The files of {index.generation} have been removed; build the index again.")
                if held.folded_away:
                    raise RealmError(held.folded_away)
                cls.objects.filter(is_active=True).update(is_active=False, deactivated_at=now)
                return cls.objects.create(model=model, index=index, activated_at=now, activated_by=by, note=note[:200])
        except IntegrityError:
            raise RealmError("Another deployment was activated at the same moment; check again and retry.") from None


@cache
def _active_keys() -> tuple[str, tuple[Any, ...]]:
    """The query of `Deployment.active_keys` and its parameters, which Django takes longer to write than to run."""
    state = CorpusState.objects.filter(index=OuterRef("index"), is_current=True).values("pk")[:1]
    keys = Deployment.objects.filter(is_active=True).order_by().values_list("pk", "index", Subquery(state))[:1]
    query: tuple[str, tuple[Any, ...]] = keys.query.sql_with_params()
    return query
