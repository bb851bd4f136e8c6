"""Removing a corpus, a model, an index or a question set that nothing uses.

    reasons = uses(record)     # why it cannot be removed, one sentence each
    removing.remove(record, by=person)

Its files are removed; the row remains, marked, because answers, evaluations and lineage name it. The row of a question
set is deleted, but only if no evaluation names it. Ingesting, training or building the same again restores the
artefact.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from typing import Final

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from realm_core.errors import RealmError
from realm_core.files import disk_errors
from webapp.artefacts import receipts
from webapp.artefacts.retention import files_in, take_away
from webapp.artefacts.uses import Removable, paths_of, uses
from webapp.models import AuditEntry, CorpusSnapshot, IndexGeneration, ModelVersion, QuestionSet
from webapp.refusals import StateConflict
from webapp.storage.places import lock_for_removal

log = logging.getLogger(__name__)

# What a fold or an edit has superseded; far longer than a question, a load of an engine or an edit takes.
SUPERSEDED_KEPT: Final = timedelta(days=1)
WORDS: dict[type[Removable], str] = {
    CorpusSnapshot: "corpus",
    ModelVersion: "model",
    IndexGeneration: "index",
    QuestionSet: "question set",
}


class StillUsed(StateConflict, RealmError):
    """The record to be removed is still used; says by what."""


def size_bytes(record: Removable) -> int:
    """Size of the files that would be removed."""
    return sum(file.st_size for path in paths_of(record) for file in files_in(path))


def remove(record: Removable, *, by: User | str | None) -> int:
    """Remove it, here and in the object store; returns the bytes freed here.

    StillUsed if something uses it; RealmError while a backup is written, or if the store does not answer: the rest is
    then removed by `retention.finish`.
    """
    with lock_for_removal():
        with transaction.atomic():
            # Deploying it or starting a job on it takes the same lock.
            held: Removable = type(record)._base_manager.select_for_update().get(pk=record.pk)
            if reasons := uses(held):
                raise StillUsed(" ".join(reasons))
            paths, size = paths_of(held), size_bytes(held)
            action = f"{WORDS[type(held)].replace(' ', '-')}.remove"
            AuditEntry.record(action, held, by=by, bytes=size, **{WORDS[type(held)].replace(" ", "_"): held.pk})
            receipts.add_removed(*paths)
            _mark(held)
        if isinstance(held, QuestionSet):
            for path in paths:
                with disk_errors(path):
                    path.unlink(missing_ok=True)
        else:
            take_away(*paths)
    return size


def remove_superseded(*, by: User | str | None, now: datetime | None = None) -> list[str]:
    """Remove the indexes, with their corpora, that one fold made and a later one superseded; returns what they were.

    Ingested corpora and their indexes stay, and so does what cannot be removed now, until the next call.
    """
    before = (now or timezone.now()) - SUPERSEDED_KEPT
    made_by_fold = IndexGeneration.every.exclude(folded_into=None).values("folded_into")
    gone = []
    for index in IndexGeneration.every.filter(pk__in=made_by_fold, folded_into__created_at__lt=before):
        for record in (index, index.corpus):
            own = [path for path in paths_of(record) if record.removed_at is None or path.exists()]
            if own and not uses(record):
                try:
                    remove(record, by=by)
                except RealmError as error:
                    log.info("%s is removed later: %s", record, error)
                else:
                    gone.append(str(record))
    return gone


def _mark(record: Removable) -> None:
    if isinstance(record, QuestionSet):
        record.delete()
        return
    type(record)._base_manager.filter(pk=record.pk, removed_at=None).update(removed_at=timezone.now())
    if isinstance(record, CorpusSnapshot):
        record.span_sets.all().delete()
