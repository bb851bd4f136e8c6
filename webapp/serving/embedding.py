"""The block embedder of a process, for edited documents. Questions do not need it, so the engine does not have it.

It is loaded beside the engine and kept: in a web server by `load_ahead`, as soon as that answers, elsewhere on first
use. Blocks are embedded in batches, each queued after the waiting questions, so a question waits for one batch at most.
A small edit is one batch: under load it would wait before each.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from django.conf import settings

from realm_core.errors import EngineUnavailable, RealmError
from webapp.models import ModelVersion
from webapp.storage.places import resolve

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

    from realm_core.living.editing import Embed

log = logging.getLogger(__name__)

_SMALL: Final = 64  # blocks, embedded in 0.7 s on two cores
_BLOCKS_AT_ONCE: Final = 8  # of a larger edit: 0.1 s

_lock = threading.Lock()
_kept: dict[str, Embed] = {}  # by the hash of the block embedder; at most one
_ahead: str | None = None  # the hash of the block embedder that `load_ahead` began to load last


def embedding_of(model: ModelVersion, wanted: Callable[[], bool] = lambda: True) -> Embed:
    """A function that embeds blocks for a model. It raises RealmError if the model's files are damaged.

    wanted: whether the vectors still are; if not, no further batch is embedded, and EngineUnavailable raised.
    """
    block_hash, folder = model.block_hash, resolve(model.path)

    def embed_blocks(blocks: Sequence[tuple[str, str]]) -> Tensor:
        import torch

        from realm_core.computing import compute

        embed = _loaded(block_hash, folder)
        size = _SMALL if len(blocks) <= _SMALL else _BLOCKS_AT_ONCE
        pieces = [blocks[start : start + size] for start in range(0, len(blocks), size)]
        made = []
        for piece in pieces:
            if not wanted():
                raise EngineUnavailable("The vectors are not wanted any more.", retry_after_s=1)
            made.append(compute(partial(embed, piece)))
        return torch.cat(made)

    return embed_blocks


def load_ahead(model: ModelVersion) -> None:
    """Begin to load a model's block embedder in a thread, once, so that the first edit does not wait for it."""
    global _ahead
    if model.block_hash != _ahead:
        _ahead = model.block_hash
        threading.Thread(
            target=_try_ahead, args=(model.block_hash, resolve(model.path)), name="load-embedder", daemon=True
        ).start()


def _try_ahead(block_hash: str, folder: Path) -> None:
    try:
        _loaded(block_hash, folder)
    except RealmError as error:  # an edit tries again
        log.error("The block embedder could not be loaded: %s", error)


def _loaded(block_hash: str, folder: Path) -> Embed:
    from realm_core.computing import compute_aside

    with _lock:
        if block_hash not in _kept:
            embed = compute_aside(partial(_load, folder))
            _kept.clear()
            _kept[block_hash] = embed
        return _kept[block_hash]


def _load(folder: Path) -> Embed:
    from realm_core.living.editing import embedding_of as embedding_of_model
    from realm_core.model.checkpoint import load_model
    from realm_core.model.device import fast_dtype, pick_device

    device = pick_device(settings.REALM_DEVICE)
    model = load_model(folder, frozen=fast_dtype(device), only="block")
    model.block.for_inference(device)
    return embedding_of_model(model)
