"""Blocks that edits removed from a corpus, so that kept answers can mark them in their evidence."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Final

from django.db import connection, models
from django.db.models import Exists, OuterRef, Q

from webapp.models.answer import AskedAnswer, EvidenceBlock
from webapp.models.document import ChangeKind, CorpusChange

_AT_ONCE: Final = 500  # ids in one query


class GoneBlock(models.Model):
    """A block that is no longer searched, and the latest change that removed it; the row is deleted if it returns."""

    block_id = models.CharField(max_length=64, unique=True)
    change = models.ForeignKey(CorpusChange, on_delete=models.CASCADE, related_name="+")

    def __str__(self) -> str:
        return f"{self.block_id} by {self.change}"

    @classmethod
    def purged(cls, block_ids: Collection[str] | None = None) -> set[str]:
        """The blocks that were purged, of some or of all."""
        rows = cls.objects.filter(change__kind=ChangeKind.PURGED)
        if block_ids is not None and len(block_ids) <= _AT_ONCE:
            rows = rows.filter(block_id__in=block_ids)
        found = set(rows.values_list("block_id", flat=True))
        return found if block_ids is None else found.intersection(block_ids)

    @classmethod
    def follow(cls, changes: Sequence[CorpusChange]) -> None:
        """Record what the changes of one edit, already stored, did to blocks; called in the edit's transaction.

        A purged block stays one: that it is removed or changed elsewhere does not show it again.
        """
        gone = {block_id: change for change in changes for block_id in change.blocks_gone}
        purged = cls.purged(gone)
        GoneBlock.objects.bulk_create(
            [
                GoneBlock(block_id=block_id, change=change)
                for block_id, change in gone.items()
                if change.kind == ChangeKind.PURGED or block_id not in purged
            ],
            update_conflicts=True,
            unique_fields=["block_id"],
            update_fields=["change"],
        )
        GoneBlock.objects.filter(
            block_id__in=[block_id for change in changes for block_id in change.blocks_new]
        ).delete()

    @classmethod
    def in_evidence(cls, asked: AskedAnswer) -> dict[str, CorpusChange]:
        """The blocks of an answer's evidence that were removed since, each with the change that removed it.

        A change of another index counts if it was made after the answer was stored.
        """
        ids = [evidence["block_id"] for evidence in asked.payload["evidence"]]
        since = _since(asked.created_at, asked.deployment.index_id)
        if not cls._any_of(ids):  # nearly always, and in a tenth of the time
            return {}
        known = GoneBlock.objects.filter(since, block_id__in=ids).select_related("change")
        return {one.block_id: one.change for one in known}

    @classmethod
    def _any_of(cls, ids: Sequence[str]) -> bool:
        """Whether one of these blocks was removed; each answer asks. Django takes longer to write this than it runs."""
        with connection.cursor() as cursor:
            places = ", ".join(["%s"] * len(ids))
            cursor.execute(f"SELECT 1 FROM {cls._meta.db_table} WHERE block_id IN ({places or 'NULL'}) LIMIT 1", ids)
            return cursor.fetchone() is not None

    @classmethod
    def in_any_evidence(cls) -> Exists:
        """For a query over answers: whether `in_evidence` has blocks of one."""
        read = EvidenceBlock.objects.filter(answer=OuterRef(OuterRef("pk"))).values("block_id")
        since = _since(OuterRef("created_at"), OuterRef("deployment__index"))
        return Exists(GoneBlock.objects.filter(since, block_id__in=read))


def _since(answered_at: datetime | OuterRef, index: int | OuterRef) -> Q:
    """What counts for an answer: a change of its own index, or one that was made after it was stored."""
    return Q(change__at__gte=answered_at) | Q(change__after__index=index)
