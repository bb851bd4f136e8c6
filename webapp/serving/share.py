"""What share of its source a corpus holds: less than all while parts of a Wikipedia answer and the rest is indexed."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from realm_core.errors import RealmError
from realm_core.files import read_json
from webapp.models import CorpusSnapshot, Deployment
from webapp.storage.places import resolve


def share_of(corpus: CorpusSnapshot) -> float:
    """More than 0, and 1 for all of it; 1 as well where its files were removed."""
    return _share_in(resolve(corpus.path))


def share_at(deployment_id: int) -> float:
    """That of the corpus of a deployment, by one query."""
    path = Deployment.objects.filter(pk=deployment_id).values_list("index__corpus__path", flat=True).get()
    return _share_in(resolve(path))


@lru_cache(maxsize=64)  # a snapshot never changes
def _share_in(folder: Path) -> float:
    try:
        return float(read_json(folder / "manifest.json").get("share", 1.0))
    except (RealmError, AttributeError, TypeError, ValueError):
        return 1.0
