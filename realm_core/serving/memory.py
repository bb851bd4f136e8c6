"""Releases memory to the operating system after large objects were freed."""

from __future__ import annotations

import contextlib
import ctypes

import torch


def release_memory() -> None:
    """Release freed memory of the process and of the GPU.

    glibc keeps freed memory: loading one model beside another fragments the heap with holes of whole layers, which
    malloc_trim returns. Without glibc nothing is done for the process.

    Reference counting frees an engine; a garbage collection would stop all threads for 50 ms.
    """
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
