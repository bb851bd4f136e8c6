"""Files to be ingested, which lie in the data folder's sources/."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from webapp.kinds.settings import FILE
from webapp.services.places import sources_dir


@dataclass(frozen=True)
class Source:
    """A file that an ingest can be told to read."""

    name: str
    size_bytes: int


def sources() -> list[Source]:
    """Those that are there, by name; what has a name that no job takes is left out."""
    found = []
    if sources_dir().is_dir():
        for path in sorted(sources_dir().iterdir()):
            with suppress(FileNotFoundError):  # it has just gone
                if FILE.holds(path.name) and path.is_file():
                    found.append(Source(path.name, path.stat().st_size))
    return found
