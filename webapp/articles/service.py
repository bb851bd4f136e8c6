"""The article of a block, from any corpus on disk that has it, with or without edits. Needs no model."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Final

from django.db.models import QuerySet

from realm_core.errors import RealmError
from webapp.models import (
    GONE,
    AskedAnswer,
    ChangeKind,
    CorpusSnapshot,
    CorpusState,
    Deployment,
    Document,
    DocumentStatus,
    EvidenceBlock,
    GoneBlock,
    IndexGeneration,
)
from webapp.serving.living import view_of
from webapp.storage.places import resolve

if TYPE_CHECKING:
    from realm_core.corpus.records import Article, Block
    from realm_core.corpus.store import Snapshot
    from realm_core.living.scope import Scope
    from realm_core.living.view import CorpusView

    Texts = Snapshot | CorpusView

log = logging.getLogger(__name__)

MAX_BLOCKS_SEARCHED: Final = 100_000  # takes a few seconds


@dataclass(frozen=True)
class ArticleBlock:
    """A block with its article and their corpus.

    name: of the corpus. corpus_id: as in answers. collection: that its document is in.
    """

    block: Block
    article: Article
    collection: str
    licence: str
    attribution: str
    language: str
    name: str
    corpus_id: str
    texts: Texts

    @cached_property
    def blocks(self) -> list[Block]:
        """All blocks of the article, in order."""
        return self.texts.blocks_of_article(self.block.article_row)

    @property
    def previous(self) -> str | None:
        """Id of the block before it in the article."""
        return self._beside(-1)

    @property
    def next(self) -> str | None:
        """Id of the block after it in the article."""
        return self._beside(1)

    def _beside(self, step: int) -> str | None:
        ids = [None, *(block.block_id for block in self.blocks), None]
        return ids[ids.index(self.block.block_id) + step]


def find(block_id: str, asked: AskedAnswer | None = None, *, hidden: Collection[str]) -> ArticleBlock | None:
    """The block in the corpus that `asked` was answered from, else in the one that serves, else in any.

    None as well for one that was purged, also where the files of a base still hold it. hidden: collections of which
    nothing is shown. The present state decides about a block that it has, and about one that has gone the collection
    that its document was in last: what was moved to a hidden one is not found in an earlier state either.
    """
    if _is_withheld(block_id, hidden):
        return None
    for corpus, texts in _corpora(asked):
        if (block := _visible(texts, block_id, hidden)) is not None:
            return None if _is_of_purged(corpus, texts, block) else _article_block(corpus, texts, block)
    return None


def _is_withheld(block_id: str, hidden: Collection[str]) -> bool:
    """Whether a block is shown from no corpus: it is none, it is in a hidden collection, or it was purged."""
    purged = GoneBlock.objects.filter(block_id=block_id, change__kind=ChangeKind.PURGED)
    return "\0" in block_id or _is_hidden(block_id, hidden) or purged.exists()


def _is_of_purged(corpus: CorpusSnapshot, texts: Texts, block: Block) -> bool:
    """Whether its document was purged from the corpus, and not added again: another snapshot may have other blocks."""
    document_id = texts.article(block.article_row).id
    rows = Document.objects.filter(index__corpus__name=corpus.name, document_id=document_id)
    return rows.filter(status=DocumentStatus.PURGED).exists() and not rows.exclude(status__in=GONE).exists()


def _is_hidden(block_id: str, hidden: Collection[str]) -> bool:
    if not hidden:
        return False
    active = Deployment.active()
    view = None if active is None else _view(active.index, active.index.current_state)
    if view is None or not view.rows_with(block_id):
        return GoneBlock.objects.filter(block_id=block_id, change__document__collection__in=hidden).exists()
    return _visible(view, block_id, hidden) is None


def _visible(texts: Texts, block_id: str, hidden: Collection[str]) -> Block | None:
    """The block in its first document that is in no hidden collection."""
    blocks = texts.blocks_with(block_id)
    return next((block for block in blocks if _collection_of(texts, block) not in hidden), None)


def _collection_of(texts: Texts, block: Block) -> str:
    from realm_core.living.view import CorpusView

    if isinstance(texts, CorpusView):
        return texts.collection_of(block.article_row)
    return str(_metadata(texts, block)["collection"])


def _metadata(snapshot: Snapshot, block: Block) -> dict[str, Any]:
    """The metadata of a block's document: each has its own where a fold made the snapshot."""
    from realm_core.corpus.metadata import known_at

    return known_at(snapshot.folder, snapshot.manifest, block.article_row, block.url)


def _article_block(corpus: CorpusSnapshot, texts: Texts, block: Block) -> ArticleBlock:
    from realm_core.living.view import CorpusView

    corpus_id = f"{corpus.name}@{corpus.snapshot_id}"
    article = texts.article(block.article_row)
    if isinstance(texts, CorpusView):
        document = texts.document(block.article_row)
        about = document.licence, document.attribution, document.language
        corpus_id = f"{corpus_id}+{texts.state.id}" if texts.state.has_edits else corpus_id
    else:
        known = _metadata(texts, block)
        about = known["licence"], known["attribution"], known["language"]
    return ArticleBlock(block, article, _collection_of(texts, block), *about, corpus.name, corpus_id, texts)


def in_its_corpus(block_id: str, asked: AskedAnswer, *, hidden: Collection[str]) -> Block | None:
    """The block in the corpus that `asked` was answered from; None where there is none, or the corpus has gone.

    None as well for one that was purged. hidden: collections whose blocks are not found, as in `find`.
    """
    if _is_withheld(block_id, hidden):
        return None
    texts = _of_answer(asked)
    block = None if texts is None else _visible(texts, block_id, hidden)
    if texts is None or block is None:
        return None
    return None if _is_of_purged(asked.deployment.index.corpus, texts, block) else block


def count_holding(answer: str, asked: AskedAnswer, scope: Scope | None) -> int | None:
    """How many blocks of the corpus that `asked` was answered from hold an answer, in a scope.

    None: it has more than `MAX_BLOCKS_SEARCHED` blocks, which would take too long, or it was removed.
    """
    texts = _of_answer(asked, filtered=scope is not None)
    if texts is None or len(texts) > MAX_BLOCKS_SEARCHED:
        return None
    return sum(1 for _ in _holding(answer, texts, scope))


def is_in_its_corpus(answer: str, asked: AskedAnswer, scope: Scope | None) -> bool | None:
    """Whether a block of the corpus that `asked` was answered from holds an answer, in a scope; None: it has gone."""
    return _is_in(answer, _of_answer(asked, filtered=scope is not None), scope)


def is_in_todays_corpus(answer: str, asked: AskedAnswer, scope: Scope | None) -> bool | None:
    """`is_in_its_corpus`, with all edits since then."""
    index = asked.deployment.index.latest
    return _is_in(answer, _view(index, index.state_now()), scope)


def _is_in(answer: str, texts: Texts | None, scope: Scope | None) -> bool | None:
    return None if texts is None else next(_holding(answer, texts, scope), None) is not None


def _holding(answer: str, texts: Texts, scope: Scope | None) -> Iterator[Block]:
    from realm_core.evaluation.in_corpus import blocks_holding
    from realm_core.living.view import CorpusView

    found = blocks_holding(texts, [answer])
    if not isinstance(texts, CorpusView):
        assert scope is None
        return found
    searched = texts.live_rows if scope is None else texts.passing_rows(scope.wanted)
    return (block for block in found if searched[block.row])


def kept_copy(
    block_id: str, asked: AskedAnswer | None, readable: QuerySet[AskedAnswer], hidden: Collection[str]
) -> EvidenceBlock | None:
    """The block's text as an answer keeps it, for when its corpus is gone: `asked`, or another of those `readable`.

    hidden: collections of which other answers show nothing.
    """
    if "\0" in block_id:  # PostgreSQL does not even take it as a question
        return None
    copies = EvidenceBlock.objects.filter(block_id=block_id).select_related("answer")
    if asked is not None and (own := copies.filter(answer=asked).first()) is not None:
        return own
    if _is_hidden(block_id, hidden):
        return None
    return copies.filter(answer__in=readable).exclude(collection__in=hidden).order_by("-pk").first()


def rights_of_copy(copy: EvidenceBlock) -> Document | CorpusSnapshot:
    """What has its licence and attribution: the edited document with its title and address, or else its corpus."""
    index = copy.answer.deployment.index
    return Document.objects.filter(index=index, title=copy.title, url=copy.url).first() or index.corpus


def _corpora(asked: AskedAnswer | None) -> Iterator[tuple[CorpusSnapshot, Texts]]:
    """The corpora that may have a block, in the order of the search; unreadable ones are left out."""
    if asked is not None and (texts := _of_answer(asked)) is not None:
        yield asked.deployment.index.corpus, texts
    active = Deployment.active()
    state = None if active is None else active.index.current_state
    edited = None if active is None or state is None or not state.has_edits else _view(active.index, state)
    if active is not None and edited is not None:
        yield active.index.corpus, edited
    seen = set()
    first = [] if active is None else [active.index.corpus]
    for corpus in [*first, *CorpusSnapshot.objects.all()]:
        if corpus.pk not in seen:
            seen.add(corpus.pk)
            if (texts := _open(corpus)) is not None:
                yield corpus, texts


def _of_answer(asked: AskedAnswer, *, filtered: bool = False) -> Texts | None:
    """The corpus that `asked` was answered from, as it was edited then; None where it has gone.

    filtered: its documents are to be filtered, for which a snapshot alone is not enough.
    """
    index = asked.deployment.index
    _, edited, state_id = str(asked.payload.get("corpus", "")).rpartition("+")
    if not edited:
        return _view(index, None) if filtered else _open(index.corpus)
    state = index.states.filter(state_id=state_id).first()
    return None if state is None else _view(index, state)


def _view(index: IndexGeneration, row: CorpusState | None) -> CorpusView | None:
    try:
        return view_of(index, row)
    except RealmError as error:
        log.warning("The corpus state %s of %s cannot be read: %s", row, index, error)
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
