"""Into which collection an edit puts a document, and who may read it there; what would be read by more is refused.

A name that no collection has yet makes a new one, which everybody who may ask reads: a typing error must not publish
what was meant for a private one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from webapp.collections.service import KnownCollections, MoreReaders, Readers, known
from webapp.documents.inputs import ReadDocument
from webapp.refusals import StateConflict

if TYPE_CHECKING:
    from realm_core.living.view import CorpusView


@dataclass(frozen=True)
class Placing:
    """The collection that a document is put into. before: that which it was in; empty: the document is new.

    readers, readers_before: who reads what is in them. is_new: no other document is in it, and nothing recorded of it.
    """

    before: str
    collection: str
    readers_before: Readers
    readers: Readers
    is_new: bool

    @classmethod
    def of(cls, before: str, collection: str, there: KnownCollections) -> Placing:
        """The way of a document between two collections by their names."""
        readers = (there.readers_of(before), there.readers_of(collection))
        return cls(before, collection, *readers, is_new=collection not in there.readers)

    @property
    def moved(self) -> bool:
        """Whether the document was in another collection before."""
        return self.before not in ("", self.collection)

    @property
    def more_readers(self) -> bool:
        """Whether some may read it then who may not now."""
        return self.moved and self.readers.exceed(self.readers_before)


class NewCollection(StateConflict):
    """A document would be in a collection that is not there, and this was not confirmed."""


def require(taken: Sequence[ReadDocument], view: CorpusView, own: str) -> None:
    """NewCollection or MoreReaders for the first document whose readers must be confirmed, and are not.

    own: the name of the corpus's own collection.
    """
    there = known(view, own)
    places = view.with_ids([one.document.id for one in taken])
    for one in taken:
        document, place = one.document, places.get(one.document.id)
        before = "" if place is None else view.collection_of(place)
        placing = Placing.of(before, document.collection, there)
        if placing.is_new and there.some_private and not one.new_collection:
            names = ", ".join(f"“{name}”" for name in there.readers)
            raise NewCollection(
                f"There is no collection “{document.collection}”, and {placing.readers} would read a new one. There "
                f"are {names}. Set it up first, or confirm that it is to be made (new_collection).",
                collection=document.collection,
            )
        if placing.more_readers and not one.more_readers:
            raise MoreReaders(
                f"“{document.title}” is in the private collection “{before}” (read by {placing.readers_before}); in "
                f"“{document.collection}”, {placing.readers} would read it: confirm that (more_readers).",
                collection=document.collection,
            )
