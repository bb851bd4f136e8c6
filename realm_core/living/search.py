"""Search among the allowed rows of a base: exact, approximate in stored lists, or in Milvus.

Legend: B queries, N vectors, M allowed ones, C candidates, D dimension, K results.
"""

from __future__ import annotations

import logging
import math
import time
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from realm_core.arrays import Rows
from realm_core.errors import EngineUnavailable
from realm_core.index.allowed_rows import AllowedRows
from realm_core.index.approximate import open_approximate
from realm_core.index.choice import MilvusServer, WantedSearch, machine_memory_bytes
from realm_core.index.generation import Generation
from realm_core.index.manifest import read_manifest
from realm_core.index.milvus import MOST_FOUND, MilvusVectors
from realm_core.index.search import ExactSearch
from realm_core.index.stored_rows import StoredRows
from realm_core.index.to_milvus import open_vectors
from realm_core.model.device import free_bytes

log = logging.getLogger(__name__)

_CANDIDATES, _LEAST_CANDIDATES = 4, 100  # rows that are scored exactly for each wanted row, and at least
_RESERVE = 4  # how many times more rows are asked for than needed where the expression would name too many
_GPU_SHARE = 0.5  # of its free memory, for vectors; the models and the reading take some, too
_MEMORY_SHARE = 0.5
_LOG_EVERY_S = 10.0


class BaseSearch(Protocol):
    """The vectors of a base; what every state with this base shares."""

    device: torch.device

    def __len__(self) -> int: ...

    def search(self, queries_BD: Tensor, k: int, allowed: AllowedRows) -> tuple[Tensor, Tensor]:
        """Rows and scores [B, min(k, M)] of the best allowed rows, on the CPU; of equal scores the lower row first."""
        ...


def open_base(folder: Path, device: torch.device, wanted: WantedSearch = "auto") -> BaseSearch:
    """The search of a generation, whose files are verified.

    wanted: a server, or as for `open_approximate`; with "auto" a GPU with room for the vectors searches all of them.
    """
    if isinstance(wanted, MilvusServer):
        return MilvusSearch.open(folder, wanted)
    if wanted == "auto" and _fit_on(device, folder):
        log.info("The index %s is searched exactly, on the GPU.", folder.name)
        wanted = "exact"
    approximate = open_approximate(folder, wanted)
    return ExactSearch(Generation.open(folder).vectors_ND, device) if approximate is None else approximate


def _fit_on(device: torch.device, folder: Path) -> bool:
    """Whether a GPU has room for the vectors of a generation, in float16, and the memory by which they get there."""
    manifest = read_manifest(folder)
    with suppress(KeyError, TypeError, ValueError):  # damaged, as what opens it next says
        room = min(_GPU_SHARE * free_bytes(device), _MEMORY_SHARE * machine_memory_bytes())
        return int(manifest["rows"]) * int(manifest["dim"]) * 2 <= room
    return False


class MilvusSearch:
    """Vectors in Milvus, which finds rows, and on the disk, from which those of what it finds are read and scored."""

    def __init__(self, vectors: MilvusVectors, stored: StoredRows) -> None:
        self.device = torch.device("cpu")
        self._vectors, self._stored = vectors, stored

    @classmethod
    def open(cls, folder: Path, server: MilvusServer) -> MilvusSearch:
        """Fills what Milvus lacks, with its progress in the log. `EngineUnavailable` if the server does not answer."""
        logged_at = time.monotonic()

        def progress(done: int, total: int) -> None:
            nonlocal logged_at
            if time.monotonic() - logged_at > _LOG_EVERY_S:
                logged_at = time.monotonic()
                log.info("Milvus at %s has %s of %s vectors of the index %s", server.uri, done, total, folder.name)

        vectors, stored = open_vectors(folder, server, progress)
        log.info("The index %s is searched in Milvus at %s, collection %s", folder.name, server.uri, vectors.collection)
        return cls(vectors, stored)

    def __len__(self) -> int:
        return len(self._stored)

    def search(self, queries_BD: Tensor, k: int, allowed: AllowedRows) -> tuple[Tensor, Tensor]:
        """As `BaseSearch` says, of the rows that are found. `EngineUnavailable` if the server does not answer."""
        k = min(k, allowed.count)
        if k == 0 or not len(queries_BD):
            return torch.empty(len(queries_BD), k).long(), torch.empty(len(queries_BD), k)
        if allowed.few_M is not None:
            return self._stored.nearest(queries_BD, k, allowed.few_M)
        queries_BD = queries_BD.float().cpu()
        found = [
            self._nearest(query_1D, k, torch.from_numpy(rows_C), allowed)
            for query_1D, rows_C in zip(queries_BD.split(1), self._candidates(queries_BD, k, allowed), strict=True)
        ]
        return torch.cat([rows_1K for rows_1K, _ in found]), torch.cat([scores_1K for _, scores_1K in found])

    def _candidates(self, queries_BD: Tensor, k: int, allowed: AllowedRows) -> list[Rows]:
        wanted = max(_CANDIDATES * k, _LEAST_CANDIDATES)
        if allowed.expression is None:
            wanted = math.ceil(_RESERVE * wanted * len(self) / allowed.count)
        wanted = min(wanted, len(self), MOST_FOUND)
        try:
            return self._vectors.search(queries_BD.numpy(), wanted, allowed.expression or "")
        except EngineUnavailable as unavailable:
            log.error("%s", unavailable)  # the server's address is not for everybody who asks
            raise EngineUnavailable("The vector database does not answer.") from None

    def _nearest(self, query_1D: Tensor, k: int, rows_C: Tensor, allowed: AllowedRows) -> tuple[Tensor, Tensor]:
        """The best of the candidates that are allowed; of all allowed rows where those are too few."""
        if allowed.mask_N is not None:
            rows_C = rows_C[allowed.mask_N[rows_C]]
        if len(rows_C) < k:
            rows_C = torch.arange(len(self)) if allowed.mask_N is None else allowed.mask_N.nonzero().flatten()
        return self._stored.nearest(query_1D, k, rows_C)
