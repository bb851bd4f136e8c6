"""The article behind a block, from whichever corpus on disk still has it. Needs no model."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from realm_core.errors import RealmError
from webapp.models import AskedAnswer, CorpusSnapshot, Deployment, EvidenceBlock
from webapp.storage.places import resolve

if TYPE_CHECKING:
    from realm_core.corpus.records import Article, Block
    from realm_core.corpus.store import Snapshot

log = logging.getLogger(__name__)

LOOKED_THROUGH: Final = 100_000  # blocks, a few seconds


@dataclass(frozen=True)
class Source:
    """A block with its article, and the corpus that they were found in."""

    block: Block
    article: Article
    corpus: CorpusSnapshot


def find(block_id: str, asked: AskedAnswer | None = None) -> Source | None:
    """The block in the corpus that `asked` was answered from, else in the one that serves, else in any."""
    for corpus in _corpora(asked):
        snapshot = _open(corpus)
        row = snapshot.row_of(block_id) if snapshot else None
        if snapshot is not None and row is not None:
            block = snapshot.block(row)
            return Source(block, snapshot.article(block.article_row), corpus)
    return None


def in_its_corpus(block_id: str, asked: AskedAnswer) -> Block | None:
    """The block in the corpus that `asked` was answered from; None where there is none, or the corpus has gone."""
    snapshot = _open(asked.deployment.index.corpus)
    row = snapshot.row_of(block_id) if snapshot is not None and "\0" not in block_id else None
    return snapshot.block(row) if snapshot is not None and row is not None else None


def count_holding(answer: str, asked: AskedAnswer) -> int | None:
    """How many blocks of the corpus that `asked` was answered from hold an answer.

    None: it has more than `LOOKED_THROUGH` blocks, which would take too long, or it has gone.
    """
    from realm_core.evaluation.in_corpus import blocks_holding

    snapshot = _open(asked.deployment.index.corpus)
    if snapshot is None or len(snapshot) > LOOKED_THROUGH:
        return None
    return sum(1 for _ in blocks_holding(snapshot, [answer]))


def stands_in_its_corpus(answer: str, asked: AskedAnswer) -> bool | None:
    """Whether a block of the corpus that `asked` was answered from holds an answer; None: the corpus has gone."""
    from realm_core.evaluation.in_corpus import in_corpus

    snapshot = _open(asked.deployment.index.corpus)
    return None if snapshot is None else in_corpus(snapshot, [answer])


def blocks(source: Source) -> list[Block]:
    """All blocks of its article, in order; none where its corpus has gone meanwhile."""
    snapshot = _open(source.corpus)
    return snapshot.blocks_of_article(source.block.article_row) if snapshot else []


def neighbours(source: Source) -> tuple[str | None, str | None]:
    """Ids of the blocks before and after it in its article."""
    ids = [block.block_id for block in blocks(source)]
    if not ids:
        return None, None
    position = ids.index(source.block.block_id)
    return ids[position - 1] if position else None, ids[position + 1] if position + 1 < len(ids) else None


def kept_copy(block_id: str, asked: AskedAnswer | None = None) -> EvidenceBlock | None:
    """The block's text as an answer keeps it, for when its corpus is gone."""
    if "\0" in block_id:  # PostgreSQL does not even take it as a question
        return None
    copies = EvidenceBlock.objects.filter(block_id=block_id)
    if asked is not None and (own := copies.filter(answer=asked).first()) is not None:
        return own
    return copies.order_by("-pk").first()


def _corpora(asked: AskedAnswer | None) -> Iterator[CorpusSnapshot]:
    seen = set()
    first = [asked.deployment.index.corpus] if asked is not None else []
    if (active := Deployment.active()) is not None:
        first.append(active.index.corpus)
    for corpus in [*first, *CorpusSnapshot.objects.all()]:
        if corpus.pk not in seen:
            seen.add(corpus.pk)
            yield corpus


def _open(corpus: CorpusSnapshot) -> Snapshot | None:
    try:
        return _opened(str(resolve(corpus.path)))
    except RealmError as error:
        log.warning("Corpus %s cannot be read: %s", corpus, error)
        return None


@lru_cache(maxsize=8)  # memory-mapped and immutable: an open one costs next to nothing
def _opened(folder: str) -> Snapshot:
    from realm_core.corpus.store import Snapshot

    return Snapshot.open(folder)
