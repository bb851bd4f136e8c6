"""The tests' workers on a disk that is nearly full: no file that their jobs write has room beyond so many bytes."""

from __future__ import annotations

import resource

ROOM = 16 << 10  # bytes
resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM, ROOM))

from tests.workers.app import app  # noqa: E402  # its processes inherit the limit

__all__ = ["app"]
