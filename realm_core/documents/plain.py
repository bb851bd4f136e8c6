"""Plain text: which encoding its bytes are in, where its paragraphs end, and which of its lines are tables."""

from __future__ import annotations

import codecs
import re

from realm_core.documents.draft import Draft
from realm_core.documents.text_tables import MarkdownTable, TabTable, parts
from realm_core.errors import RealmError

_MARKS = (  # UTF-32's begins with UTF-16's
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# The encodings that are tried: not all of Python's, because a short text is valid in too many of them.
_GUESSED = (
    *("cp1252", "cp1250", "cp1251", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "koi8_r"),
    *("shift_jis", "euc_jp", "gb18030", "big5", "euc_kr"),
)
_COMMON = "cp1252"  # the most common of them, and a superset of Latin-1's printable characters
# Encodings whose chaos (charset_normalizer's measure of unlikely sequences) is this close to the best are as good: an
# accent before an apostrophe adds as much in the right encoding.
_SAME_CHAOS = 0.12
_SAMPLE_BYTES = 1 << 16  # around the first invalid byte; the time that guessing takes grows with them
_SAMPLE_NULLS = 4096  # bytes at the beginning in which zeros are counted
_MOSTLY = 10  # letters beyond ASCII for each invalid sequence, above which the bytes are damaged UTF-8
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
# Control characters that no text contains; tab, line breaks, form feed and escape are allowed.
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_ASCII = re.compile(r"[\x00-\x7f\ufffd]+")  # and the replacement character of invalid bytes
_MOST_CONTROL = 0.002  # the largest share of them in a text

_BLANK_LINE = re.compile(r"\n[ \t]*\n\s*")
_LIST_MARK = re.compile(r"\s*(?:[-*•‣·–]\s+|\(?\d{1,3}[.)]\s+|\(?[a-z][.)]\s+)")
_FULL_LINE = 45  # characters; a shorter line was ended on purpose
_LONGEST_TITLE = 120


def declared_charset(content_type: str | None) -> str:
    """The encoding that a media type or a <meta> names; "" if none, or none that Python knows."""
    match = _CHARSET.search(content_type or "")
    if match is None:
        return ""
    try:
        info = codecs.lookup(match[1])
    except LookupError:
        return ""
    return info.name if info._is_text_encoding else ""


def decode(data: bytes, draft: Draft, charset: str = "") -> str:
    """The text of some bytes; `RealmError` names the byte at which they stop being text.

    A byte order mark decides, then strict UTF-8, then what is declared, then what the bytes look like; the last is told
    as a warning. Bytes that are UTF-8 but for a few are damaged, not of another encoding.
    """
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _checked(_strict(data.removeprefix(mark), encoding, len(mark)))
    wide = _wide(data)
    if wide:
        return _checked(_strict(data, wide, 0))
    try:
        return _checked(data.decode())
    except UnicodeDecodeError as error:
        first_wrong = error.start
    repaired = data.decode(errors="replace")
    wrong = repaired.count("\ufffd")
    if sum(map(str.isalpha, _ASCII.sub("", repaired))) > wrong * _MOSTLY:
        raise RealmError(f"is UTF-8, but damaged: byte {first_wrong + 1:,} is not valid.")
    if charset:
        return _checked(_strict(data, charset, 0))
    encoding = _guess(data, first_wrong)
    text = _checked(_strict(data, encoding, 0))
    draft.warn(f"Its encoding is stated nowhere; it was read as {encoding}.")
    return text


def _strict(data: bytes, encoding: str, offset: int) -> str:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        where = f"byte {offset + error.start + 1:,}"
        raise RealmError(f"is not valid {encoding}: {where}, {error.reason}.") from None


def _wide(data: bytes) -> str:
    """UTF-16 without its mark, which every second byte being zero tells; else ""."""
    sample = data[:_SAMPLE_NULLS]
    half = len(sample) // 2
    even, odd = sample[::2].count(0), sample[1::2].count(0)
    if half and odd > half * 0.6 and even < half * 0.05:
        return "utf-16-le"
    if half and even > half * 0.6 and odd < half * 0.05:
        return "utf-16-be"
    return ""


def _guess(data: bytes, first_wrong: int) -> str:
    from charset_normalizer import from_bytes

    start = max(0, first_wrong - _SAMPLE_BYTES // 2)
    matches = list(from_bytes(data[start : start + _SAMPLE_BYTES], cp_isolation=list(_GUESSED)))  # the best first
    if not matches:
        raise RealmError(f"is no text: byte {first_wrong + 1:,} is not valid UTF-8, and no other encoding fits.")
    best = matches[0]
    equal = [m for m in matches if m.chaos <= best.chaos + _SAME_CHAOS and m.coherence >= best.coherence]
    if any(_COMMON in match.could_be_from_charset for match in equal):  # the most common of those that fit
        return _COMMON
    return str(best.encoding)


def _checked(text: str) -> str:
    """The text, unless it holds characters that only other files do."""
    found = sum(1 for _ in _CONTROL.finditer(text))
    if found and ("\0" in text or found > len(text) * _MOST_CONTROL):
        first = _CONTROL.search(text)
        assert first is not None
        raise RealmError(f"is no text: its character {first.start() + 1:,} is the control code {ord(first[0])}.")
    return text


def read_text(text: str, draft: Draft) -> None:
    """Paragraphs and tables of plain text: blank lines end paragraphs, and lines broken at a margin are joined.

    A short first line with a blank line behind it is the title.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n").strip("\n")
    draft.title, text = _split_title(text)
    for part in parts(text):
        if isinstance(part, TabTable):
            draft.table(part.rows)
        elif isinstance(part, MarkdownTable):
            from realm_core.documents.markdown import read_markdown  # which most plain texts do not need

            read_markdown(part.text, draft)
        else:
            _read_prose(part.strip("\n"), draft)


def _read_prose(text: str, draft: Draft) -> None:
    paragraphs = _BLANK_LINE.split(text)
    lines = text.split("\n")
    if len(paragraphs) == 1 and not _wrapped(lines):
        paragraphs = lines
    for paragraph in paragraphs:
        for line in _joined(paragraph):
            draft.paragraph(line)


def _split_title(text: str) -> tuple[str, str]:
    """The title, or "", and the text behind it."""
    match = _BLANK_LINE.search(text, 0, _LONGEST_TITLE + 80)
    if match is None:
        return "", text
    first, rest = text[: match.start()].strip(), text[match.end() :]
    is_title = first and "\n" not in first and len(first) <= _LONGEST_TITLE and first[-1] not in ".;,:!?"
    return (first, rest) if is_title and rest.strip() else ("", text)


def _wrapped(lines: list[str]) -> bool:
    """Whether lines without a blank one between them were broken at a margin: hardly any ends a sentence."""
    long = [line for line in lines[:-1] if len(line) >= _FULL_LINE]
    ended = sum(line.rstrip().endswith((".", "!", "?", ":")) for line in long)
    return len(long) > 2 and max(map(len, lines)) <= _LONGEST_TITLE and ended * 2 < len(long)


def _joined(paragraph: str) -> list[str]:
    """The lines of a paragraph; one that fills its line goes on in the next."""
    lines: list[list[str]] = []
    full = False
    for line in paragraph.split("\n"):
        if full and not _LIST_MARK.match(line):
            lines[-1].append(line.strip())
        else:
            lines.append([line.strip()])
        full = len(line.rstrip()) >= _FULL_LINE
    return [" ".join(parts) for parts in lines]
