"""The rows that a search may find, as each kind of search takes them. Legend: N rows, M allowed ones."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from realm_core.index.milvus import not_among, within

Bits = np.ndarray[Any, np.dtype[np.uint8]]

_FEW = 8  # if fewer than one row in so many is allowed, exact search scores only the allowed ones
_FEW_ROWS = 10_000  # up to so many are scored exactly, also in approximate search
_NAMED_ROWS = 4096  # rows that an expression names at most; it then has about 50,000 characters
_RUN_ENDS = 2048  # first and last rows of runs, of which each takes more characters


class AllowedRows:
    """mask_N: bool, on the CPU; of the attributes, None where every row is allowed.

    rows_M: None where they are many; few_M: those that any search scores exactly, None where they are more.
    """

    def __init__(self, mask_N: Tensor, device: torch.device) -> None:
        self.count = int(mask_N.sum())
        self.mask_N = None if self.count == len(mask_N) else mask_N.to(device)
        few = self.count * _FEW < len(mask_N) or self.count <= _FEW_ROWS
        self.rows_M = mask_N.nonzero().flatten().to(device) if few and self.mask_N is not None else None
        self.few_M = self.rows_M if self.count <= _FEW_ROWS else None

    @cached_property
    def bits(self) -> Bits | None:
        """The mask as FAISS takes it: a bit for each row."""
        return None if self.mask_N is None else np.packbits(self.mask_N.cpu().numpy(), bitorder="little")

    @cached_property
    def expression(self) -> str | None:
        """The mask as Milvus takes it; "" where every row is allowed, None where it would name too many."""
        if self.mask_N is None:
            return ""
        if len(self.mask_N) - self.count <= _NAMED_ROWS:
            return not_among((~self.mask_N).nonzero().flatten().tolist())
        # A collection that was ingested as one is a run of rows.
        padded_N = torch.nn.functional.pad(self.mask_N.cpu().to(torch.int8), (1, 1))
        edges = padded_N.diff().nonzero().flatten().tolist()
        return within(zip(edges[::2], edges[1::2], strict=True)) if len(edges) <= _RUN_ENDS else None
