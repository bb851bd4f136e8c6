"""The web application with pairs that take their time to load: a question that waited for one would be noticed."""

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


def _slowly(deployment: Deployment) -> Engine:
    began = time.monotonic()
    engine = _load(deployment)
    while time.monotonic() - began < float(os.environ["LOADING_TAKES_S"]):
        time.sleep(0.05)
    with open(Path(os.environ["REALM_DATA"]) / "loaded.txt", "a", encoding="utf-8") as file:
        file.write(f"{os.getpid()} {deployment.pk}\n")
    return engine


webapp.serving.engine.load_engine = _slowly
