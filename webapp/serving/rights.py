"""The licence and the attribution of passages: those of their documents, or else of the corpus."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from webapp.models import Document, IndexGeneration

if TYPE_CHECKING:
    from realm_core.living.view import CorpusView


@dataclass(frozen=True)
class Rights:
    """Empty: not stated."""

    licence: str
    attribution: str


def of_corpus(index: IndexGeneration) -> Rights:
    """Those of the corpus of an index."""
    return Rights(index.corpus.licence, index.corpus.attribution)


def of_passages(
    passages: Iterable[Mapping[str, Any]],
    index: IndexGeneration,
    view: CorpusView | None,
    hidden: Collection[str] = (),
) -> dict[str, Rights]:
    """By block id: those of its document as it is now, or as it was last above `index`, or else of the index's corpus.

    passages: blocks as answers have them. view: `living.answering_view`. hidden: collections of which nothing is said,
    where a block names none.
    """
    found: dict[str, Rights] = {}
    gone: list[Mapping[str, Any]] = []
    for one in passages:
        own = None if view is None else _of_document(one, view, hidden)
        if own is None:
            gone.append(one)
        else:
            found[one["block_id"]] = own
    if gone:
        titles = {one["title"] for one in gone}
        rows = Document.objects.filter(index=index, title__in=titles).order_by("changed_at")
        edited = {(row.title, row.url): Rights(row.licence, row.attribution) for row in rows}
        found |= {one["block_id"]: edited.get((one["title"], one["url"]), of_corpus(index)) for one in gone}
    return found


def on_cards(
    passages: Iterable[Mapping[str, Any]],
    index: IndexGeneration,
    view: CorpusView | None,
    hidden: Collection[str] = (),
) -> dict[str, Rights]:
    """By block id: what a passage's card says, because the foot of the page, which names those of the corpus, does not.

    passages, view, hidden: as for `of_passages`.
    """
    usual, found = of_corpus(index), of_passages(passages, index, view, hidden)
    return {
        block_id: replace(one, attribution="") if one.attribution in usual.attribution else one
        for block_id, one in found.items()
        if one != usual
    }


def _of_document(told: Mapping[str, Any], view: CorpusView, hidden: Collection[str]) -> Rights | None:
    """Those of the document of a block that is still searched, in the block's own collection."""
    own = told.get("collection")
    for row in view.articles_with(told["block_id"]):
        known = view.metadata(row)
        if known["collection"] == own or (not own and known["collection"] not in hidden):
            return Rights(known["licence"], known["attribution"])
    return None
