"""The interface of article sources, and the function that makes a source from options."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from realm_core.corpus.default import DefaultSource
from realm_core.corpus.factbook.source import FactbookSource
from realm_core.corpus.mediawiki import MediaWikiSource
from realm_core.corpus.records import ArticleRights, RawArticle
from realm_core.corpus.rows import JsonLinesSource, ParquetSource
from realm_core.corpus.tasks import DEFAULT_LANGUAGE, Ingest
from realm_core.corpus.vital import VitalSource
from realm_core.corpus.wordnet import WordnetSource


class ArticleSource(Protocol):
    """A reader of articles.

    A position is a number of records: `articles(n)` skips the first n. Equal fingerprints mean the same sequence of
    articles.
    """

    name: str
    language: str
    licence: str
    attribution: str
    rights: tuple[ArticleRights, ...]  # of articles that have not those above

    def fingerprint(self) -> str:
        """A short string that depends on the content and on every option that affects the articles."""

    def articles(self, start: int) -> Iterator[RawArticle]:
        """The articles from record `start`; `RealmError` with file and position where the input is damaged."""

    def share_read(self) -> float | None:
        """The share of the input that has been read, from 0 to 1; None if unknown."""


def source_from(task: Ingest) -> ArticleSource:
    if task.source == "default":
        return DefaultSource()
    if task.source == "factbook":
        return FactbookSource()
    if task.source == "wordnet":
        return WordnetSource()
    if task.source == "vital":
        return VitalSource(task.language)
    path = Path(task.file)
    if task.source == "mediawiki":
        return MediaWikiSource(
            path,
            language=None if task.language == DEFAULT_LANGUAGE else task.language,  # a dump says itself which it is in
            licence=task.licence or "CC BY-SA 4.0",
            attribution=task.attribution,
        )
    rows = JsonLinesSource if task.source == "jsonl" else ParquetSource
    return rows(path, language=task.language, licence=task.licence, attribution=task.attribution)
