"""The article of a block, from any corpus on disk that has it, with or without edits. Needs no model."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from realm_core.errors import RealmError
from webapp.models import (
    AskedAnswer,
    ChangeKind,
    CorpusSnapshot,
    CorpusState,
    Deployment,
    EvidenceBlock,
    GoneBlock,
)
from webapp.serving.living import state_of, view_of
from webapp.storage.places import resolve

if TYPE_CHECKING:
    from realm_core.corpus.records import Article, Block
    from realm_core.corpus.store import Snapshot
    from realm_core.living.view import CorpusView

    Texts = Snapshot | CorpusView

log = logging.getLogger(__name__)

MAX_BLOCKS_SEARCHED: Final = 100_000  # takes a few seconds


@dataclass(frozen=True)
class ArticleBlock:
    """A block with its article and their corpus.

    name: of the corpus. corpus_id: as in answers.
    """

    block: Block
    article: Article
    licence: str
    attribution: str
    language: str
    name: str
    corpus_id: str
    texts: Texts


def find(block_id: str, asked: AskedAnswer | None = None) -> ArticleBlock | None:
    """The block in the corpus that `asked` was answered from, else in the deployed one, else in any.

    None also for a purged block, even if the files of a base still hold it.
    """
    if "\0" not in block_id and GoneBlock.objects.filter(block_id=block_id, change__kind=ChangeKind.PURGED).exists():
        return None
    for corpus, texts in _corpora(asked):
        row = texts.row_of(block_id)
        if row is not None:
            block = texts.block(row)
            return _article_block(corpus, texts, block)
    return None


def _article_block(corpus: CorpusSnapshot, texts: Texts, block: Block) -> ArticleBlock:
    from realm_core.living.view import CorpusView

    corpus_id = f"{corpus.name}@{corpus.snapshot_id}"
    article = texts.article(block.article_row)
    if not isinstance(texts, CorpusView):
        return ArticleBlock(
            block, article, corpus.licence, corpus.attribution, corpus.language, corpus.name, corpus_id, texts
        )
    known = texts.document(block.article_row)
    corpus_id = f"{corpus_id}+{texts.state.id}"
    return ArticleBlock(block, article, known.licence, known.attribution, known.language, corpus.name, corpus_id, texts)


def in_its_corpus(block_id: str, asked: AskedAnswer) -> Block | None:
    """The block in the corpus that `asked` was answered from; None if it is not there, or the corpus was removed."""
    texts = _of_answer(asked)
    row = texts.row_of(block_id) if texts is not None and "\0" not in block_id else None
    return texts.block(row) if texts is not None and row is not None else None


def count_holding(answer: str, asked: AskedAnswer) -> int | None:
    """The number of blocks with an answer in the corpus that `asked` was answered from.

    None: it has more than `MAX_BLOCKS_SEARCHED` blocks, which would take too long, or it was removed.
    """
    from realm_core.evaluation.in_corpus import blocks_holding

    texts = _of_answer(asked)
    if texts is None or len(texts) > MAX_BLOCKS_SEARCHED:
        return None
    return sum(1 for _ in blocks_holding(texts, [answer]))


def stands_in_its_corpus(answer: str, asked: AskedAnswer) -> bool | None:
    """Whether a block of the corpus that `asked` was answered from holds an answer; None: the corpus was removed."""
    from realm_core.evaluation.in_corpus import in_corpus

    texts = _of_answer(asked)
    return None if texts is None else in_corpus(texts, [answer])


def blocks(source: ArticleBlock) -> list[Block]:
    """All blocks of the article, in order."""
    return source.texts.blocks_of_article(source.block.article_row)


def neighbours(source: ArticleBlock) -> tuple[str | None, str | None]:
    """Ids of the blocks before and after it in its article."""
    ids = [block.block_id for block in blocks(source)]
    if not ids:
        return None, None
    position = ids.index(source.block.block_id)
    return ids[position - 1] if position else None, ids[position + 1] if position + 1 < len(ids) else None


def kept_copy(block_id: str, asked: AskedAnswer | None = None) -> EvidenceBlock | None:
    """The block's text as stored with an answer, for when its corpus was removed."""
    if "\0" in block_id:  # PostgreSQL refuses NUL even in queries
        return None
    copies = EvidenceBlock.objects.filter(block_id=block_id).select_related("answer")
    if asked is not None and (own := copies.filter(answer=asked).first()) is not None:
        return own
    return copies.order_by("-pk").first()


def _corpora(asked: AskedAnswer | None) -> Iterator[tuple[CorpusSnapshot, Texts]]:
    """The corpora that may have a block, in the order of the search; unreadable ones are left out."""
    if asked is not None and (texts := _of_answer(asked)) is not None:
        yield asked.deployment.index.corpus, texts
    active = Deployment.active()
    state = None if active is None else active.index.current_state
    if active is not None and state is not None and state.has_edits and (view := _view(state)) is not None:
        yield active.index.corpus, view
    seen = set()
    first = [] if active is None else [active.index.corpus]
    for corpus in [*first, *CorpusSnapshot.objects.all()]:
        if corpus.pk not in seen:
            seen.add(corpus.pk)
            if (texts := _open(corpus)) is not None:
                yield corpus, texts


def _of_answer(asked: AskedAnswer) -> Texts | None:
    """The corpus that `asked` was answered from, in its state at that time; None if it was removed."""
    index = asked.deployment.index
    _, edited, state_id = str(asked.payload.get("corpus", "")).rpartition("+")
    if not edited:
        return _open(index.corpus)
    state = index.states.filter(state_id=state_id).first()
    return None if state is None else _view(state)


def _view(row: CorpusState) -> CorpusView | None:
    try:
        return view_of(row.index, state_of(row.index, row))
    except RealmError as error:
        log.warning("The corpus state %s cannot be read: %s", row, error)
        return None


def _open(corpus: CorpusSnapshot) -> Snapshot | None:
    try:
        return _opened(str(resolve(corpus.path)))
    except RealmError as error:
        log.warning("Corpus %s cannot be read: %s", corpus, error)
        return None


@lru_cache(maxsize=8)  # memory-mapped and immutable, so open ones cost little
def _opened(folder: str) -> Snapshot:
    from realm_core.corpus.store import Snapshot

    return Snapshot.open(folder)
