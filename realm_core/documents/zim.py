"""ZIM, as of Kiwix: the pages of an archive, by the optional package libzim.

Redirects, pictures, styles and the archive's own search index are left out. libzim unpacks a cluster up to the page
that is asked for, so a hostile cluster fills the memory, which `reading` bounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from realm_core.documents.draft import Budget, Draft, TooMuchText
from realm_core.documents.html import NoElement, read_html
from realm_core.documents.records import Limits, ParsedDocument
from realm_core.errors import RealmError

_DAMAGE = (RuntimeError, KeyError, ValueError, IndexError, OSError)  # what libzim raises for a damaged file


def read_zim(path: Path, budget: Budget, limits: Limits) -> Iterator[ParsedDocument]:
    """Every page with text, by its path in the archive. `RealmError`, to be read behind the file's name."""
    archive, count = _opened(path)
    language = _language(archive)
    unpacked = 0
    for number in range(count):
        try:
            entry = archive._get_entry_by_id(number)
            if entry.is_redirect:
                continue
            item = entry.get_item()
            if not item.mimetype.startswith("text/html"):
                continue
            identity, title = entry.path, entry.title
            unpacked += item.size  # stated, so that a page that is too large is not even unpacked
            content = bytes(item.content) if unpacked <= limits.unpacked_bytes else b""
        except _DAMAGE as error:
            raise RealmError(f"is damaged at entry {number + 1:,} of {count:,}: {str(error).rstrip('.')}.") from None
        if unpacked > limits.unpacked_bytes:
            limit = f"{limits.unpacked_bytes / (1 << 20):,.0f} MiB"
            raise RealmError(f"holds pages of more than {limit} when unpacked, which is the limit.")
        draft = Draft("zim", title, budget)
        try:
            read_html(content.decode("utf-8", "replace"), draft)
        except NoElement:
            continue
        except TooMuchText:
            raise
        except RealmError as error:
            raise RealmError(f"holds a page {identity!r} that {error}") from None
        draft.title = title or draft.title
        draft.language = draft.language or language
        if draft.holds_text:
            yield draft.finish(identity=identity)


def _opened(path: Path) -> tuple[Any, int]:
    """The archive, and how many entries it has."""
    try:
        from libzim.reader import Archive
    except ImportError:
        raise RealmError(
            "is ZIM, which the package libzim reads; it is not installed, for its licence is the GPL "
            "(.venv/bin/python -m pip install -c constraints.txt libzim)."
        ) from None
    try:
        archive: Any = Archive(path)
        return archive, archive.all_entry_count
    except _DAMAGE as error:
        raise RealmError(f"is a damaged or truncated ZIM file: {str(error).rstrip('.')}.") from None


def _language(archive: Any) -> str:
    """The first of those that the archive states; its pages may state their own."""
    try:
        return str(archive.get_metadata("Language").decode()).partition(",")[0]
    except _DAMAGE:
        return ""
