"""Where blocks of evidence stand in the PDFs that their documents were read from.

A section of a PDF is named with its page (`webapp/documents/reading.py`), and the PDF itself is kept
(`webapp/documents/originals.py`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from django.urls import reverse
from django.utils.http import urlencode

from realm_core.errors import RealmError
from webapp.models import Deployment, Document
from webapp.serving.living import state_of, view_of

_PAGE: Final = re.compile(r"\b[Pp]age (\d+)\)?$")


def page_of(section: str) -> int | None:
    """The page of a PDF that the name of a section ends with."""
    found = _PAGE.search(section)
    return None if found is None else int(found[1])


def address_of(document_id: str) -> str:
    """The address of a document's PDF. Its id may hold any characters, so it is not part of the path."""
    return f"{reverse('document-original')}?{urlencode({'id': document_id})}"


def of_evidence(evidence: Iterable[Mapping[str, Any]], hidden: Collection[str]) -> dict[str, str]:
    """The addresses at which blocks of evidence stand in kept PDFs, with their pages, by block id.

    Only of blocks that are still searched: the kept PDF is of the document as it is now. hidden: collections of which
    nothing is shown.
    """
    pages = {block["block_id"]: page for block in evidence if (page := page_of(block["section"])) is not None}
    active = Deployment.active()
    if not pages or active is None:
        return {}
    try:
        view = view_of(active.index, state_of(active.index, active.index.current_state))
    except RealmError:  # the page says what it knows without the corpus
        return {}
    rows = {block_id: row for block_id in pages if (row := view.row_of(block_id)) is not None}
    documents = {block_id: view.article(view.block(row).article_row).id for block_id, row in rows.items()}
    named = Document.objects.filter(index=active.index, document_id__in=documents.values()).exclude(original="")
    kept = set(named.exclude(collection__in=hidden).values_list("document_id", flat=True))
    # Viewers open `#page=3` at the third page (RFC 8118, section 3).
    return {one: f"{address_of(own)}#page={pages[one]}" for one, own in documents.items() if own in kept}
