"""A stand-in for the documents' service: documents in memory, with the records that edits write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import transaction

from realm_core.corpus.records import block_id
from webapp.documents import service
from webapp.documents.service import Block, DocumentMissing, Edited, File, Given, Listed, Listing, Shown, Text
from webapp.models import ChangeKind, CorpusChange, CorpusState, Deployment, Document, DocumentStatus, GoneBlock


@dataclass
class FakeCorpus:
    """Each paragraph of a document is a block. error: raised by every edit. given: what edits were asked for."""

    texts: dict[str, Given] = field(default_factory=dict)
    error: Exception | None = None
    given: list[Given] = field(default_factory=list)

    def add(self, given: Sequence[Given], *, by: User | None, kept: Callable[[Edited], None] | None = None) -> Edited:
        named = [replace(one, document_id=one.document_id or f"doc {len(self.texts) + 1}/&") for one in given]
        return self._edit({one.document_id: one for one in named}, by)

    def change(
        self, document_id: str, given: Given, *, by: User | None, kept: Callable[[Edited], None] | None = None
    ) -> Edited:
        return self._edit({document_id: given}, by)

    def remove(
        self, document_ids: Sequence[str], *, by: User | None, kept: Callable[[Edited], None] | None = None
    ) -> Edited:
        return self._edit(dict.fromkeys(document_ids), by)

    def listed(self, *, title: str = "", status: str = "", start: int = 0, count: int = 50) -> Listing:
        found = [
            self._listed(row)
            for row in Document.objects.all()
            if title.lower() in row.title.lower() and (row.status == status if status else row.status != "removed")
        ]
        return Listing(found[start : start + count], len(found))

    def show(self, document_id: str) -> Shown:
        row = Document.objects.filter(document_id=document_id).first()
        if row is None:
            raise DocumentMissing(f"There is no document {document_id!r}.")
        text = _text(self.texts[document_id]) if row.status != DocumentStatus.REMOVED else ""
        blocks = [Block(one, part, "") for one, part in zip(_ids(row.title, text), text.split("\n\n"), strict=False)]
        known = (row.licence, row.attribution, row.language, row.date, tuple(row.tags))
        return Shown(self._listed(row), text, blocks, *known)

    def _listed(self, row: Document) -> Listed:
        return Listed(row.document_id, row.title, row.url, row.blocks, row.status, row)

    def _edit(self, edits: dict[str, Given | None], by: User | None) -> Edited:
        if self.error is not None:
            raise self.error
        active = Deployment.active()
        assert active is not None
        documents, changes = [], []
        with transaction.atomic():
            before = _state(active, by)
            after = _state(active, by)
            for document_id, given in edits.items():
                row, change = self._edit_one(active, before, after, document_id, given, by)
                documents.append(row)
                changes += [change] if change else []
            GoneBlock.follow(changes)
        return Edited(after, documents, changes)

    def _edit_one(
        self,
        active: Deployment,
        before: CorpusState,
        after: CorpusState,
        document_id: str,
        given: Given | None,
        by: User | None,
    ) -> tuple[Document, CorpusChange | None]:
        old = Document.objects.filter(document_id=document_id).first()
        had = self.texts.pop(document_id, None)
        gone = set(_ids(old.title, _text(had))) if old and had else set()
        if given is None:
            assert old is not None
            old.status, old.blocks, new, kind, row = DocumentStatus.REMOVED, 0, set[str](), ChangeKind.REMOVED, old
        else:
            self.given.append(given)
            self.texts[document_id] = given
            title = given.title or "Untitled"
            new = set(_ids(title, _text(given)))
            kind = ChangeKind.CHANGED if old else ChangeKind.ADDED
            row = old or Document(index=active.index, document_id=document_id, added_by=by)
            row.title, row.licence, row.attribution = title, given.licence or "", given.attribution or ""
            row.url, row.language, row.date, row.tags = given.url, given.language, given.date, list(given.tags)
            row.format, row.blocks = "text", len(new)
            row.status = DocumentStatus.CHANGED if old else DocumentStatus.CURRENT
        row.save()
        if gone == new:
            return row, None
        change = CorpusChange.objects.create(
            kind=kind,
            document=row,
            before=before,
            after=after,
            blocks_gone=sorted(gone - new),
            blocks_new=sorted(new - gone),
            by=by,
        )
        return row, change


def _state(active: Deployment, by: User | None) -> CorpusState:
    CorpusState.objects.update(is_current=False)
    number = CorpusState.objects.count() + 1
    return CorpusState.objects.create(
        index=active.index, state_id=f"{number:016x}", state={}, has_edits=True, created_by=by
    )


def _text(given: Given) -> str:
    match given.source:
        case Text(text):
            return text.replace("\r\n", "\n")
        case File(content):
            return content.decode()
        case address:
            return f"Fetched from {address.url}"


def _ids(title: str, text: str) -> list[str]:
    return [block_id(title, part) for part in text.split("\n\n") if part]


@pytest.fixture
def corpus(db: None, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The stand-in, in the service's place."""
    fake = FakeCorpus()
    for name in ("add", "change", "remove", "listed", "show"):
        monkeypatch.setattr(service, name, getattr(fake, name))
    return fake
