"""An identity of the code that finds, reads and words answers: what it made is used again only while it is the same.

Constants (ν of `index/lexical.py`, the dictionary's offset) and rules (`serving/english/`) change answers as models do.
They are in many files, so the files themselves are hashed: whoever changes one need not remember a version number.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Final

_ROOMS: Final = ("text", "questions", "corpus", "model", "index", "living", "serving")
_OWN: Final = ("in_corpus.py", "predicting.py", "retrieving.py", "why.py")
_LIBRARIES: Final = ("pyspellchecker", "rapidfuzz", "tokenizers")  # their words and distances correct spelling


@cache
def answering_code() -> str:
    """16 hex digits of a SHA-256."""
    digest = hashlib.sha256()
    for path in files():
        digest.update(f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    for library in _LIBRARIES:
        digest.update(f"{library} {version(library)}\n".encode())
    return digest.hexdigest()[:16]


def files() -> list[Path]:
    """The files that are hashed: modules, and data beside them."""
    own = Path(__file__).parent
    found = [path for room in _ROOMS for path in sorted((own.parent / room).rglob("*")) if path.is_file()]
    return [*(path for path in found if path.suffix != ".pyc"), *(own / name for name in _OWN)]
