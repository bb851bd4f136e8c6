"""The predictions that an evaluation keeps, as they are shown: without the titles of documents that were purged since.

The file keeps them. One that was made before it kept the ids of the blocks shows them, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from realm_core.evaluation.predictions import Prediction, read_predictions
from webapp.models import PURGED_TITLE, Evaluation, GoneBlock
from webapp.storage.places import resolve


def kept_predictions(evaluation: Evaluation) -> Iterator[Prediction]:
    """The predictions in their order; `RealmError` if they cannot be read."""
    purged = GoneBlock.purged()
    for one in read_predictions(resolve(evaluation.predictions)):
        yield one if purged.isdisjoint(one.block_ids) else _masked(one, purged)


def _masked(one: Prediction, purged: set[str]) -> Prediction:
    ids = zip(one.blocks, one.block_ids, strict=False)
    return replace(one, blocks=tuple(PURGED_TITLE if block_id in purged else title for title, block_id in ids))
