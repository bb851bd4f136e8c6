"""Where blocks of evidence stand in the PDFs that their documents were read from.

A section of a PDF is named with its page (`webapp/documents/inputs.py`), and the PDF itself is kept
(`webapp/originals/service.py`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from django.urls import reverse
from django.utils.http import urlencode

from realm_core.corpus.records import Article
from realm_core.errors import RealmError
from webapp.models import Deployment, Document
from webapp.serving.living import view_of

_PAGE: Final = re.compile(r"\b[Pp]age (\d+)\)?$")


def page_of(section: str) -> int | None:
    """The page of a PDF that the name of a section ends with."""
    found = _PAGE.search(section)
    return None if found is None else int(found[1])


def address_of(document_id: str) -> str:
    """The address of a document's PDF. Its id may hold any characters, so it is not part of the path."""
    return f"{reverse('document-original')}?{urlencode({'id': document_id})}"


@dataclass(frozen=True)
class InOriginal:
    """The place of a block of evidence in a kept PDF.

    address: of the page with the answer, or with the block's first words if the block has no answer. section: its name.
    """

    address: str
    section: str


def of_evidence(evidence: Iterable[Mapping[str, Any]], hidden: Collection[str]) -> dict[str, InOriginal]:
    """Where blocks of evidence stand in kept PDFs, by block id.

    Only of blocks that are still searched: the kept PDF is of the document as it is now. hidden: collections of which
    nothing is shown.
    """
    answers = {one["block_id"]: one["start"] or 0 for one in evidence if page_of(one["section"]) is not None}
    active = Deployment.active()
    if not answers or active is None:
        return {}
    try:
        view = view_of(active.index, active.index.current_state)
    except RealmError:  # the page says what it knows without the corpus
        return {}
    blocks = [block for block_id in answers for block in view.blocks_with(block_id)]
    documents = {block.article_row: view.article(block.article_row) for block in blocks}
    ids = {document.id for document in documents.values()}
    named = Document.objects.filter(index=active.index, document_id__in=ids).exclude(original="")
    kept = set(named.exclude(collection__in=hidden).values_list("document_id", flat=True))
    found: dict[str, InOriginal] = {}
    for block in blocks:
        document = documents[block.article_row]
        section = _section_at(document, block.start + answers[block.block_id]) or block.section
        page = page_of(section)
        if document.id in kept and page is not None and block.block_id not in found:
            # Viewers open `#page=3` at the third page (RFC 8118, section 3).
            found[block.block_id] = InOriginal(f"{address_of(document.id)}#page={page}", section)
    return found


def _section_at(document: Article, position: int) -> str:
    """The heading of the section that a character of a document's text is in; a block may span several sections."""
    before = [section.heading for section in document.sections if section.start <= position]
    return before[-1] if before else ""
