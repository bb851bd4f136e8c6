"""Previews of edits: the blocks that an edit would remove and add, and what becomes of the answers that read them.

The id of a block is a hash of its title and text, so parsing and packing the new text is enough for the blocks. Nothing
is written or changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from webapp.collections.service import known
from webapp.documents import service
from webapp.documents.inputs import DocumentInput, Unreadable
from webapp.documents.placing import Placing
from webapp.documents.versions import Versions, require
from webapp.documents.viewing import place_of
from webapp.ledger.anew import AskedAnew, ask_anew
from webapp.ledger.touched import Touched
from webapp.models import IndexGeneration
from webapp.serving.living import active, current_view, opened

if TYPE_CHECKING:
    from realm_core.corpus.records import Block
    from realm_core.living.documents import LivingDocument
    from realm_core.living.editing import NewBlock


@dataclass(frozen=True)
class Preview:
    """The effect of a change. gone: blocks that are searched no more. new: those that are searched then, kept: still.

    index: above which it would be. same: the new document is the present one, with all that is said of it.
    warnings: sentences about what was guessed or not read, and about its language. placing: its collection.
    """

    index: IndexGeneration
    document: LivingDocument
    gone: tuple[Block, ...]
    new: tuple[NewBlock, ...]
    kept: tuple[Block, ...]
    same: bool
    warnings: tuple[str, ...]
    placing: Placing

    @cached_property
    def touched(self) -> Touched:
        """The kept answers that read what goes."""
        return Touched([block.block_id for block in self.gone])

    def asked_anew(self, granted: Callable[[int], int]) -> AskedAnew:
        """The questions of touched answers, asked of the corpus as it would be; granted: as for `ask_anew`."""
        from realm_core.living.documents import Changes

        return ask_anew(self.touched, Changes((self.document,)), self.index, granted)


def of_change(document_id: str, given: DocumentInput, versions: Versions = None) -> Preview:
    """The effect that `service.change` would have; raises as that does."""
    from realm_core.living.documents import Changes, DocumentRefused
    from realm_core.living.editing import effect

    inputs = service.Inputs([given], document_id)
    index = active().index
    view = opened(index, index.state_now())
    place = place_of(document_id, view)
    present = view.document(place)
    require(present, versions)
    [taken] = inputs.above(view)
    try:
        found = effect(view, Changes((taken.document,)))
    except DocumentRefused as error:
        raise Unreadable(*error.reasons.values(), present=error.present) from None
    blocks = view.blocks_of_article(place)
    gone = frozenset(found.gone)
    return Preview(
        index,
        taken.document,
        tuple(one for one in blocks if one.block_id in gone),
        found.new,
        tuple(one for one in blocks if one.block_id not in gone),
        present == taken.document,
        taken.warnings,
        Placing.of(present.collection, taken.document.collection, known(view, index.corpus.name)),
    )


def of_removal(document_ids: Sequence[str]) -> list[str]:
    """Ids of the blocks that are searched no more without these documents, as far as they are in the corpus."""
    from realm_core.living.documents import Changes
    from realm_core.living.editing import effect

    view = current_view()
    return list(effect(view, Changes(removed=tuple(view.with_ids(document_ids)))).gone)
