"""Files that hold many documents: JSON lines, Parquet and MediaWiki dumps by the corpus' own sources, and ZIM."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from realm_core.corpus.cleaning import article_of
from realm_core.corpus.mediawiki import MediaWikiSource
from realm_core.corpus.records import Article, RawArticle
from realm_core.corpus.rows import JsonLinesSource, ParquetSource
from realm_core.corpus.streams import InputFile
from realm_core.documents.draft import Budget, Draft
from realm_core.documents.html import read_html
from realm_core.documents.records import DocumentSection, Limits, ParsedDocument
from realm_core.errors import RealmError

_SOURCES: dict[str, Callable[[Path], JsonLinesSource | ParquetSource | MediaWikiSource]] = {
    "jsonl": JsonLinesSource,
    "parquet": ParquetSource,
    "mediawiki": MediaWikiSource,
}
_HEADING_SEPARATOR = " › "  # of the corpus' sections


def read_container(kind: str, path: Path, budget: Budget, limits: Limits) -> list[ParsedDocument]:
    """Every document of a file; records without text are left out, as they are by `ingest`."""
    read = _zim(path, budget) if kind == "zim" else _articles(kind, path, budget, limits)
    documents: list[ParsedDocument] = []
    for document in read:
        if len(documents) == limits.documents:
            raise RealmError(f"holds more than {limits.documents:,} documents, which is the limit.")
        documents.append(document)
    if not documents:
        raise RealmError("holds no document with text.")
    return documents


def _articles(kind: str, path: Path, budget: Budget, limits: Limits) -> Iterator[ParsedDocument]:
    if kind != "parquet":
        _check_unpacked(path, limits)
    source = _SOURCES[kind](path)
    language = source.language if kind == "mediawiki" else ""  # the others' is a default, stated nowhere
    for raw in source.articles(0):
        budget.take(len(raw.text))
        cleaned = article_of(raw)
        if cleaned is not None:
            yield _document(raw, cleaned[0], kind, language)


def _check_unpacked(path: Path, limits: Limits) -> None:
    """Count what a compressed file unpacks to; a line of spaces costs its sender nothing."""
    unpacked = 0
    for chunk in InputFile(path).chunks():
        unpacked += len(chunk)
        if unpacked > limits.unpacked_bytes:
            limit = f"{limits.unpacked_bytes / (1 << 20):,.0f} MiB"
            raise RealmError(f"holds more than {limit} when unpacked, which is the limit.")


def _document(raw: RawArticle, article: Article, kind: str, language: str) -> ParsedDocument:
    return ParsedDocument(article.title, language, _sections(article), (), kind, (), article.id, article.url)


def _sections(article: Article) -> tuple[DocumentSection, ...]:
    starts = [(0, "")] if not article.sections or article.sections[0].start else []
    starts += [(section.start, section.heading) for section in article.sections]
    ends = [start for start, _ in starts[1:]] + [len(article.text)]
    return tuple(
        DocumentSection(tuple(heading.split(_HEADING_SEPARATOR)) if heading else (), text)
        for (start, heading), end in zip(starts, ends, strict=True)
        if (text := article.text[start:end].strip())
    )


def _zim(path: Path, budget: Budget) -> Iterator[ParsedDocument]:
    try:
        from libzim.reader import Archive
    except ImportError:
        raise RealmError(
            "is ZIM, which the package libzim reads; it is not installed, for its licence is the GPL "
            "(pip install libzim)."
        ) from None
    try:
        archive: Any = Archive(path)
        count = archive.all_entry_count
    except (RuntimeError, ValueError, OSError) as error:
        raise RealmError(f"is a damaged or truncated ZIM file: {str(error).rstrip('.')}.") from None
    language = _zim_language(archive)
    for number in range(count):
        try:
            entry = archive._get_entry_by_id(number)
            if entry.is_redirect:
                continue
            item = entry.get_item()
            if not item.mimetype.startswith("text/html"):
                continue
            content = bytes(item.content)
        except (RuntimeError, KeyError, ValueError) as error:
            raise RealmError(f"is damaged at entry {number + 1:,} of {count:,}: {str(error).rstrip('.')}.") from None
        draft = Draft("zim", entry.title, budget)
        read_html(content.decode("utf-8", "replace"), draft)
        draft.title = entry.title or draft.title
        draft.language = draft.language or language
        if draft.holds_text:
            yield draft.finish(identity=entry.path)


def _zim_language(archive: Any) -> str:
    try:
        return str(archive.get_metadata("Language").decode()).partition(",")[0]
    except (RuntimeError, KeyError, ValueError):
        return ""
