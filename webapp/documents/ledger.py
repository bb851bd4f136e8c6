"""The ledger: each change, and the stored answers whose evidence it removed from the corpus."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Final

from django.core.cache import cache
from django.db.models import QuerySet

from webapp.documents import touched
from webapp.documents.touched import Summary
from webapp.models import CorpusChange, EvidenceBlock

_MOST_IN_LIST: Final = 40  # answers of one change that are recomputed for a list of changes
_KEPT_S: Final = 600  # retention and deletions may remove answers, so a summary expires


@dataclass(frozen=True)
class LedgerRow:
    """A change, and what became of the answers affected by it."""

    change: CorpusChange
    summary: Summary


def with_summaries(changes: Iterable[CorpusChange]) -> list[LedgerRow]:
    """Changes for a list; for each only the answers with the highest posterior are recomputed."""
    return [LedgerRow(change, summary(change, _MOST_IN_LIST)) for change in changes]


def summary(change: CorpusChange, most: int = touched.MOST_RECOMPUTED) -> Summary:
    """The effects of a change on answers, computed at most every ten minutes."""
    if not change.blocks_gone:
        return Summary(0, 0)
    key = f"documents.touched:{change.pk}:{most}"
    kept: dict[str, Any] | None = cache.get(key)
    if kept is None:
        kept = asdict(touched.summary(change.blocks_gone, change.at, most))
        cache.set(key, kept, _KEPT_S)
    return Summary(**kept)


def answers(change: CorpusChange) -> QuerySet[EvidenceBlock, Any]:
    """The answers that had read what a change removed, as from `touched.reading`."""
    return touched.reading(change.blocks_gone, change.at)
