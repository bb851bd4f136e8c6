"""The web application with an engine that computes nothing while there is a file `hold` in its data folder."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from realm_core.serving.waiting import QueuedRequest, RequestQueue
from webapp.wsgi import application

__all__ = ["application"]

_take = RequestQueue.take


def _held(queue: RequestQueue[Any], most: int) -> list[QueuedRequest[Any]] | None:
    taken = _take(queue, most)
    while (Path(os.environ["REALM_DATA"]) / "hold").exists():
        time.sleep(0.05)
    return taken


RequestQueue.take = _held  # type: ignore[method-assign]
