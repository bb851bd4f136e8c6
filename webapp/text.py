"""Text that people type."""

from __future__ import annotations

import re
import unicodedata

# Characters that change the reading direction, and invisible ones: spaces and joiners of zero width, by which two
# questions that look the same would differ.
_INVISIBLE = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200b\u2060\ufeff")
# U+200D belongs to emoji, and in some scripts follows a mark that is no letter; elsewhere it has no effect.
_LONE_JOINER = re.compile(r"(?:(?<=[\w\s])|^)\u200d+")


def one_line(text: str) -> str:
    """One line of text: NFC, white space folded, without control characters and lone surrogates."""
    text = _LONE_JOINER.sub("", text)
    kept = "".join(" " if c.isspace() else c for c in text if c.isspace() or _is_text(c))
    return unicodedata.normalize("NFC", " ".join(kept.split()))


def _is_text(character: str) -> bool:
    return unicodedata.category(character) not in {"Cc", "Cs"} and character not in _INVISIBLE
