"""The ledger: each change, and the kept answers that had read what it took out of the corpus."""

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
_KEPT_S: Final = 600  # retention and deletions may take answers away, so a summary is not kept for ever


@dataclass(frozen=True)
class LedgerRow:
    """A change with what became of the answers that it touched."""

    change: CorpusChange
    summary: Summary


def with_summaries(changes: Iterable[CorpusChange]) -> list[LedgerRow]:
    """Changes for a list; of each only some answers are recomputed, those with the highest posterior."""
    return [LedgerRow(change, summary(change, _MOST_IN_LIST)) for change in changes]


def summary(change: CorpusChange, most: int = touched.MOST_RECOMPUTED) -> Summary:
    """What a change touched, worked out once every ten minutes at most."""
    if not change.blocks_gone:
        return Summary(0, 0)
    key = f"documents.touched:{change.pk}:{most}"
    kept: dict[str, Any] | None = cache.get(key)
    if kept is None:
        kept = asdict(touched.summary(change.blocks_gone, change.at, most))
        cache.set(key, kept, _KEPT_S)
    return Summary(**kept)


def answers(change: CorpusChange) -> QuerySet[EvidenceBlock, Any]:
    """The answers that had read what a change took away, as `touched.reading` gives them."""
    return touched.reading(change.blocks_gone, change.at)
