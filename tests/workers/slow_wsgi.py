"""The web application with pairs that take their time to load, but for the first of a process.

A question that waited for one would be noticed.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from webapp.wsgi import application  # first: it sets up Django

# isort: split

import webapp.serving.engine
from realm_core.serving.engine import Engine
from webapp.models import Deployment

__all__ = ["application"]

_load = webapp.serving.engine.load_engine
_loaded = Path(os.environ["REALM_DATA"]) / "loaded.txt"


def _slowly(deployment: Deployment) -> Engine:
    began, own = time.monotonic(), f"{os.getpid()}\n"
    engine = _load(deployment)
    with open(_loaded, "a+", encoding="utf-8") as file:
        file.seek(0)
        if own in file:
            time.sleep(max(0.0, began + float(os.environ["LOADING_TAKES_S"]) - time.monotonic()))
        file.write(own)
    return engine


webapp.serving.engine.load_engine = _slowly
