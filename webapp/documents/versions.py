"""Versions of documents: an edit that names one is refused if another edit came between (`If-Match`)."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from typing import TYPE_CHECKING

from webapp.refusals import PreconditionFailed

if TYPE_CHECKING:
    from realm_core.living.documents import LivingDocument

Versions = Collection[str] | None  # one of which a document must have to be edited; None: any will do


class ChangedMeanwhile(PreconditionFailed):
    """The document has another version than the edit was made for. version: its present one."""

    def __init__(self, document_id: str, version: str) -> None:
        super().__init__(
            f"The document {document_id!r} was changed meanwhile, so nothing of this edit has happened. Its version is "
            f"{version!r} now.",
            version=version,
        )
        self.version = version


def version_of(document: LivingDocument) -> str:
    """A hash of its text and of all that is said of it."""
    return hashlib.sha256(document.canonical().encode()).hexdigest()[:16]


def require(document: LivingDocument, versions: Versions) -> None:
    """ChangedMeanwhile if the present document has none of these versions."""
    present = version_of(document)
    if versions is not None and present not in versions:
        raise ChangedMeanwhile(document.id, present)


def only(version: str) -> Versions:
    """The version that a form was opened with; empty: it does not say which."""
    return (version,) if version else None
