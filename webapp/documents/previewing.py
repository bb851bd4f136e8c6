"""Previews of edits: the blocks that an edit would remove and add. Nothing is embedded, written or changed.

The id of a block is a hash of its title and text, so parsing and packing the new text is enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from webapp.documents import service
from webapp.documents.inputs import DocumentInput, Unreadable
from webapp.documents.versions import Versions, require
from webapp.documents.viewing import place_of
from webapp.serving.living import current_view

if TYPE_CHECKING:
    from realm_core.corpus.records import Block
    from realm_core.living.documents import LivingDocument


@dataclass(frozen=True)
class Preview:
    """The effect of a change. gone: blocks that are searched no more. new, kept: numbers of blocks of the new text.

    same: the new document is the present one, with all that is said of it.
    warnings: sentences about what was guessed or not read.
    """

    document: LivingDocument
    gone: tuple[Block, ...]
    new: int
    kept: int
    same: bool
    warnings: tuple[str, ...]

    @property
    def gone_ids(self) -> list[str]:
        """Ids of the blocks that are searched no more."""
        return [block.block_id for block in self.gone]


def of_change(document_id: str, given: DocumentInput, versions: Versions = None) -> Preview:
    """The effect that `service.change` would have; raises as that does."""
    from realm_core.living.documents import Changes, DocumentRefused
    from realm_core.living.editing import effect

    [taken] = service.read_inputs([given], document_id)
    view = current_view()
    place = place_of(document_id, view)
    present = view.document(place)
    require(present, versions)
    try:
        found = effect(view, Changes((taken.document,)))
    except DocumentRefused as error:
        raise Unreadable(*error.reasons.values()) from None
    blocks = view.blocks_of_article(place)
    gone = frozenset(found.gone)
    return Preview(
        taken.document,
        tuple(one for one in blocks if one.block_id in gone),
        len(found.new),
        len(blocks) - len(gone),
        present == taken.document,
        taken.warnings,
    )


def of_removal(document_ids: Sequence[str]) -> list[str]:
    """Ids of the blocks that are searched no more without these documents, as far as they are in the corpus."""
    from realm_core.living.documents import Changes
    from realm_core.living.editing import effect

    view = current_view()
    return list(effect(view, Changes(removed=tuple(view.with_ids(document_ids)))).gone)
