"""Folders that still hold purged documents. To remove one: fold, then remove the base that was folded.

A receipt names the folders of the bases as they were when the documents were purged; here is what they are now.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from webapp.artefacts.uses import uses
from webapp.documents import folding
from webapp.models import CorpusSnapshot, Deployment, IndexGeneration, Job, Purge
from webapp.storage.places import living_dir, resolve

_SEGMENT = ("edits of another corpus: deploy it and fold them",)


class RemovalStage(StrEnum):
    """How far the removal of a folder that held documents is."""

    ANSWERS = "answers"  # masked; a fold makes a base without them, which answers instead
    USED = "used"  # something else needs it
    REMOVABLE = "removable"
    REMOVED = "removed"


@dataclass(frozen=True)
class HeldFolder:
    """A folder that a receipt names. record: of its index or corpus, None where there is none.

    reasons: why it cannot be removed, where it is used.
    """

    path: str
    stage: RemovalStage
    record: IndexGeneration | CorpusSnapshot | None = None
    reasons: tuple[str, ...] = ()

    @property
    def is_index(self) -> bool:
        return isinstance(self.record, IndexGeneration)


def held_folders(purge: Purge) -> list[HeldFolder]:
    """Every folder that a receipt names as still holding documents, as it is now."""
    return list(_folders(purge)) if purge.remaining else []


def fold_of(folders: list[HeldFolder]) -> Job | None:
    """The job that folds what answers, where one of the folders does and a job is under way."""
    deployment = Deployment.active() if any(one.stage == RemovalStage.ANSWERS for one in folders) else None
    return None if deployment is None else folding.under_way(deployment.index)


def _folders(purge: Purge) -> Iterator[HeldFolder]:
    deployment = Deployment.active()
    answering = () if deployment is None else (deployment.index, deployment.index.corpus)
    records: dict[str, IndexGeneration | CorpusSnapshot] = {
        **{one.path: one for one in IndexGeneration.every.filter(path__in=purge.remaining)},
        **{one.path: one for one in CorpusSnapshot.every.filter(path__in=purge.remaining)},
    }
    for path in purge.remaining:
        record = records.get(path)
        if not resolve(path).exists() or (record is not None and record.removed_at is not None):
            yield HeldFolder(path, RemovalStage.REMOVED, record)
        elif record is None:
            is_segment = resolve(path).is_relative_to(living_dir())
            yield HeldFolder(path, RemovalStage.USED, reasons=_SEGMENT if is_segment else ())
        elif record in answering:
            yield HeldFolder(path, RemovalStage.ANSWERS, record)
        else:
            reasons = tuple(uses(record))
            yield HeldFolder(path, RemovalStage.USED if reasons else RemovalStage.REMOVABLE, record, reasons)
