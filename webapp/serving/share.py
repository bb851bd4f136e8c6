"""What share of its source a corpus holds: less than all while parts of a Wikipedia answer and the rest is indexed."""

from __future__ import annotations

from functools import lru_cache

from realm_core.errors import RealmError
from realm_core.files import read_json
from webapp.models import CorpusSnapshot
from webapp.storage.places import resolve


def share_of(corpus: CorpusSnapshot) -> float:
    """More than 0, and 1 for all of it; 1 as well where its files were removed."""
    return _share_in(str(resolve(corpus.path)))


@lru_cache(maxsize=64)  # a snapshot never changes
def _share_in(folder: str) -> float:
    try:
        return float(read_json(resolve(folder) / "manifest.json").get("share", 1.0))
    except (RealmError, AttributeError, TypeError, ValueError):
        return 1.0
