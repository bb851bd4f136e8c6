"""What a purge leaves of a document in the database: a row with its id, and kept answers without its passages."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from webapp.models import (
    PURGED_TITLE,
    AskedAnswer,
    ChangeKind,
    CorpusChange,
    CorpusState,
    Document,
    DocumentStatus,
    EvidenceBlock,
    Feedback,
    GoneBlock,
)

_AT_ONCE: Final = 500  # ids in one query


def emptied(document: Document, was: CorpusState, now: CorpusState, blocks: list[str], by: User | None) -> CorpusChange:
    """Store the row of a document without anything but its id and its collection; the row of the ledger, not stored.

    blocks: that are searched no more.
    """
    document.title, document.status, document.blocks = PURGED_TITLE, DocumentStatus.PURGED, 0
    document.url = document.licence = document.attribution = document.language = document.content_hash = ""
    document.original = ""
    document.date, document.tags, document.warnings = None, [], []
    document.save()
    return CorpusChange(kind=ChangeKind.PURGED, document=document, before=was, after=now, blocks_gone=blocks, by=by)


def record_purged(changes: Sequence[CorpusChange]) -> list[str]:
    """Store changes that purge, and take their blocks out of kept answers; the ids of the answers that had one."""
    CorpusChange.objects.bulk_create(changes)
    GoneBlock.follow(changes)
    return cut({block_id for change in changes for block_id in change.blocks_gone})


def cut_purged() -> int:
    """Take purged passages out of kept answers; how many answers had one.

    An answer that was being read while a purge was committed is kept behind it.
    """
    purged = GoneBlock.objects.filter(change__kind=ChangeKind.PURGED).values("block_id")
    block_ids = set(EvidenceBlock.objects.filter(block_id__in=purged).values_list("block_id", flat=True))
    if not block_ids:
        return 0
    with transaction.atomic():
        return len(cut(block_ids))


def cut(block_ids: Collection[str]) -> list[str]:
    """Take blocks out of all kept answers; the ids of the answers that had one."""
    from realm_core.serving.provenance import Answer

    wanted = sorted(block_ids)
    answers: set[Any] = set()
    for start in range(0, len(wanted), _AT_ONCE):
        evidence = EvidenceBlock.objects.filter(block_id__in=wanted[start : start + _AT_ONCE])
        answers.update(evidence.values_list("answer_id", flat=True))
    removed = frozenset(wanted)
    for answer_id in answers:
        asked = AskedAnswer.objects.select_for_update().filter(pk=answer_id).first()
        if asked is None:  # retention has removed it meanwhile
            continue
        left, before = Answer.from_dict(asked.payload).without(removed), asked.answer_text
        asked.tell(left)
        asked.purged_at = timezone.now()
        asked.save()
        asked.evidence.all().delete()
        EvidenceBlock.keep(asked, left)
        Feedback.follow_purge(asked, removed, is_another=asked.answer_text != before)
    return sorted(map(str, answers))
