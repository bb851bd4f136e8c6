"""Files that hold many documents: JSON lines, Parquet and MediaWiki dumps by the corpus' own sources, and ZIM."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

from realm_core.corpus.cleaning import article_of
from realm_core.corpus.mediawiki import MediaWikiSource
from realm_core.corpus.records import Article, Stated
from realm_core.corpus.rows import JsonLinesSource, ParquetSource
from realm_core.corpus.streams import InputFile
from realm_core.documents.draft import Budget
from realm_core.documents.records import DocumentSection, Limits, ParsedDocument
from realm_core.documents.zim import read_zim
from realm_core.errors import RealmError
from realm_core.text.language_codes import language_code

_SOURCES: dict[str, Callable[[Path], JsonLinesSource | ParquetSource | MediaWikiSource]] = {
    "jsonl": JsonLinesSource,
    "parquet": ParquetSource,
    "mediawiki": MediaWikiSource,
}
_HEADING_SEPARATOR = " › "  # of the corpus' sections


def read_container(kind: str, path: Path, budget: Budget, limits: Limits) -> list[ParsedDocument]:
    """Every document of a file; pages of a dump without text are left out, as they are by `ingest`, rows refused."""
    read = read_zim(path, budget, limits) if kind == "zim" else _articles(kind, path, budget, limits)
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
    # A dump says which language it is in; of rows that do not, the source has only a default.
    dump = Stated(language=language_code(source.language)) if isinstance(source, MediaWikiSource) else None
    for raw in source.articles(0):
        budget.take(len(raw.text))
        cleaned = article_of(raw)
        if cleaned is None and dump is None:
            raise RealmError(f"holds a row whose title or text is blank: {raw.id!r}.")
        if cleaned is not None:
            yield _document(cleaned[0], kind, dump or raw.stated)


def _check_unpacked(path: Path, limits: Limits) -> None:
    """Count what a compressed file unpacks to; a line of spaces costs its sender nothing."""
    unpacked = 0
    for chunk in InputFile(path).chunks():
        unpacked += len(chunk)
        if unpacked > limits.unpacked_bytes:
            limit = f"{limits.unpacked_bytes / (1 << 20):,.0f} MiB"
            raise RealmError(f"holds more than {limit} when unpacked, which is the limit.")


def _document(article: Article, kind: str, stated: Stated) -> ParsedDocument:
    # Every wiki counts its pages from 1.
    identity = f"{urlsplit(article.url).hostname}/{article.id}" if kind == "mediawiki" else article.id
    return ParsedDocument(
        article.title, stated.language, _sections(article), (), kind, (), identity, article.url,
        stated.date, stated.tags, stated.licence, stated.attribution, stated.collection,
    )  # fmt: skip


def _sections(article: Article) -> tuple[DocumentSection, ...]:
    starts = [(0, "")] if not article.sections or article.sections[0].start else []
    starts += [(section.start, section.heading) for section in article.sections]
    ends = [start for start, _ in starts[1:]] + [len(article.text)]
    return tuple(
        DocumentSection(tuple(heading.split(_HEADING_SEPARATOR)) if heading else (), text)
        for (start, heading), end in zip(starts, ends, strict=True)
        if (text := article.text[start:end].strip())
    )
