"""The format of a file: its content decides, and its name and declared type must not contradict it."""

from __future__ import annotations

import codecs
import io
import re
import zipfile
from pathlib import Path, PurePath

from realm_core.corpus.streams import COMPRESSED, InputFile
from realm_core.errors import RealmError
from realm_core.files import parse_json

FILE_FORMATS = {
    "text": "plain text",
    "markdown": "Markdown",
    "html": "HTML",
    "csv": "CSV",
    "tsv": "TSV",
    "pdf": "PDF",
    "docx": "DOCX",
    "jsonl": "JSON lines",
    "parquet": "Parquet",
    "mediawiki": "a MediaWiki dump",
    "zim": "ZIM",
}
HOLDS_MANY = frozenset({"jsonl", "parquet", "mediawiki", "zim"})
_TEXTUAL = frozenset({"html", "jsonl", "mediawiki"})  # what content alone tells from other text
_COMPRESSIBLE = frozenset({"jsonl", "mediawiki"})  # those whose sources decompress
_BEGINNING_BYTES = 1 << 16

_MAGIC = ((b"PAR1", "parquet"), (b"ZIM\x04", "zim"))
_PDF_WITHIN = 1024  # bytes; what may stand before the header by the specification's own notes
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ENCRYPTED_PACKAGE = "EncryptedPackage".encode("utf-16-le")
# Formats that people upload by mistake, which the refusal names.
_OTHERS = (
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"II*\x00", "a TIFF image"),
    (b"MM\x00*", "a TIFF image"),
    (b"{\\rtf", "RTF; save it as DOCX"),
    (b"%!PS", "PostScript; save it as PDF"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"Rar!", "a RAR archive"),
    (b"\x28\xb5\x2f\xfd", "Zstandard-compressed"),
    (b"\x7fELF", "a program"),
    (b"MZ", "a program"),
    (b"SQLite format 3\x00", "a SQLite database"),
    (b"ARROW1\x00\x00", "an Arrow file; write it as Parquet"),
)
_ZIPS = (
    ("xl/workbook.xml", "an Excel workbook"),
    ("ppt/presentation.xml", "a PowerPoint presentation"),
    ("META-INF/container.xml", "an EPUB book"),
    ("content.xml", "an OpenDocument file; save it as DOCX"),
)

_BY_SUFFIX = {
    **dict.fromkeys((".txt", ".text"), "text"),
    **dict.fromkeys((".md", ".markdown"), "markdown"),
    **dict.fromkeys((".html", ".htm", ".xhtml"), "html"),
    ".csv": "csv",
    ".tsv": "tsv",
    ".pdf": "pdf",
    ".docx": "docx",
    **dict.fromkeys((".jsonl", ".ndjson"), "jsonl"),
    ".parquet": "parquet",
    ".zim": "zim",
}
_BY_TYPE = {
    "text/plain": "text",
    "text/markdown": "markdown",
    "text/html": "html",
    "application/xhtml+xml": "html",
    "text/csv": "csv",
    "text/tab-separated-values": "tsv",
    "application/pdf": "pdf",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/jsonl": "jsonl",
    "application/x-ndjson": "jsonl",
    "application/vnd.apache.parquet": "parquet",
}
_UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_HTML = re.compile(
    r"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*+<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.DOTALL
)
_MEDIAWIKI = re.compile(r"\s*(?:<\?xml[^>]*>\s*)?<mediawiki\b")


def format_of(path: Path, name: str, declared_type: str | None) -> str:
    """One of `FILE_FORMATS`; `RealmError`, as a continuation of the name, for contradictions and unreadable content.

    declared_type: a media type, as a browser sends it; None, and types that say nothing, are not looked at.
    """
    with open(path, "rb") as file:
        start = file.read(_BEGINNING_BYTES)
    if not start:
        raise RealmError("is empty.")
    suffixes = [suffix.lower() for suffix in PurePath(name).suffixes]
    if start.startswith(COMPRESSED):
        start = next(InputFile(path).chunks(), b"")[:_BEGINNING_BYTES]
        kind = _kind(path, start, suffixes[:-1], declared_type=None, compressed=True)
        if kind not in _COMPRESSIBLE:
            raise RealmError(f"is compressed {FILE_FORMATS[kind]}; unpack it first.")
        return kind
    return _kind(path, start, suffixes, declared_type, compressed=False)


def _kind(path: Path, start: bytes, suffixes: list[str], declared_type: str | None, *, compressed: bool) -> str:
    content = _by_content(path, start, compressed=compressed)
    named = _BY_SUFFIX.get(suffixes[-1] if suffixes else "")
    declared = _BY_TYPE.get((declared_type or "").partition(";")[0].strip().lower())
    if content is not None:
        if named not in (None, content):
            raise RealmError(f"is named as {FILE_FORMATS[str(named)]}, but its content is {FILE_FORMATS[content]}.")
        # Browsers declare as plain text whatever text has a name that they do not know.
        if declared not in (None, content) and not (declared == "text" and content in _TEXTUAL):
            raise RealmError(
                f"is declared as {FILE_FORMATS[str(declared)]}, but its content is {FILE_FORMATS[content]}."
            )
        return content
    # Any text may be plain text, Markdown, a table, JSON lines or a piece of HTML: only a claim can tell.
    for claim, claimed in (("is named as", named), ("is declared as", declared)):
        if claimed in ("pdf", "docx", "parquet", "zim"):
            raise RealmError(f"{claim} {FILE_FORMATS[claimed]}, but its content is not: {_shown(start)}.")
    if named and declared and named != declared and "text" not in (named, declared):
        raise RealmError(f"is named as {FILE_FORMATS[named]}, but declared as {FILE_FORMATS[declared]}.")
    if suffixes[-1:] == [".xml"]:
        raise RealmError("is XML, of which only MediaWiki dumps and XHTML are read.")
    return named or declared or "text"


def _by_content(path: Path, start: bytes, *, compressed: bool) -> str | None:
    """The kind that the content alone proves; None for text of any kind, and for what is unknown."""
    for magic, kind in _MAGIC:
        if start.startswith(magic):
            return kind
    if b"%PDF-" in start[:_PDF_WITHIN]:
        return "pdf"
    if start.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        if compressed:
            raise RealmError("is a compressed archive; unpack it first.")
        return _by_archive(path)
    if start.startswith(_OLE):
        if _ENCRYPTED_PACKAGE in path.read_bytes():
            raise RealmError("is encrypted; save it without a password.")
        raise RealmError("is an Office document of before 2007 (.doc, .xls, .ppt); save it as DOCX.")
    for magic, other in _OTHERS:
        if start.startswith(magic):
            raise RealmError(f"is {other}, which is not read." if ";" not in other else f"is {other}.")
    text = _beginning(start)
    if _MEDIAWIKI.match(text):
        return "mediawiki"
    if _HTML.match(text):
        return "html"
    first_line, _, _ = text.lstrip().partition("\n")
    if first_line.startswith("{"):
        try:
            row = parse_json(first_line)
        except RealmError:
            return None
        if isinstance(row, dict) and {"id", "title", "text"} <= row.keys():
            return "jsonl"
    return None


def _by_archive(path: Path) -> str:
    try:
        with zipfile.ZipFile(io.BytesIO(path.read_bytes())) as archive:
            names = set(archive.namelist())
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError) as error:
        raise RealmError(f"is a damaged or truncated archive (DOCX is one): {str(error).rstrip('.')}.") from None
    if "word/document.xml" in names or ("[Content_Types].xml" in names and any(n.startswith("word/") for n in names)):
        return "docx"
    for member, other in _ZIPS:
        if member in names:
            raise RealmError(f"is {other}." if ";" in other else f"is {other}, which is not read.")
    raise RealmError("is a zip archive and not DOCX; unpack it and give its files one by one.")


def _beginning(start: bytes) -> str:
    for mark, encoding in _UTF16.items():
        if start.startswith(mark):
            return start[2:].decode(encoding, "replace")
    return start.removeprefix(codecs.BOM_UTF8).decode("latin-1")


def _shown(start: bytes) -> str:
    """What a person can tell of a file's beginning."""
    text = start[:40].split(b"\n")[0].strip()
    if text.isascii() and text.decode("ascii", "replace").isprintable() and text:
        return f"it is text, which begins “{text.decode('ascii')}”"
    return "it is damaged, or of another format"
