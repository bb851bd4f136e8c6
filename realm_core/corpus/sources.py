"""The interface of article sources, and the function that makes a source from options."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from realm_core.corpus.mediawiki import MediaWikiSource
from realm_core.corpus.records import RawArticle
from realm_core.corpus.rows import JsonLinesSource, ParquetSource
from realm_core.corpus.vital import VitalSource
from realm_core.errors import RealmError


class ArticleSource(Protocol):
    """A reader of articles.

    A position is a number of records: `articles(n)` skips the first n. Equal fingerprints mean the same sequence of
    articles.
    """

    name: str
    language: str
    licence: str
    attribution: str

    def fingerprint(self) -> str:
        """A short string that depends on the content and on every option that affects the articles."""

    def articles(self, start: int) -> Iterator[RawArticle]:
        """The articles from record `start`; `RealmError` with file and position where the input is damaged."""

    def share_read(self) -> float | None:
        """The share of the input that has been read, from 0 to 1; None if unknown."""


def add_source_arguments(parser: argparse.ArgumentParser) -> None:
    """The options that say where articles come from."""
    parser.add_argument("--source", choices=("vital", "mediawiki", "jsonl", "parquet"), default="vital")
    parser.add_argument("--path", type=Path, help="the file to read (every source but vital)")
    parser.add_argument("--language", help="two-letter code (default: en, or what the dump says)")
    parser.add_argument("--licence", help="licence of the texts (default: CC BY-SA 4.0 for Wikipedia's)")
    parser.add_argument("--attribution", help="whom the pages name beside a passage")


def source_from(arguments: argparse.Namespace) -> ArticleSource:
    """The source that the command line describes."""
    if arguments.source == "vital":
        return VitalSource(arguments.language or "en")
    if arguments.path is None:
        raise RealmError(f"--source {arguments.source} needs --path FILE.")
    attribution = arguments.attribution or ""
    if arguments.source == "mediawiki":
        return MediaWikiSource(
            arguments.path,
            language=arguments.language,
            licence=arguments.licence or "CC BY-SA 4.0",
            attribution=attribution,
        )
    rows = JsonLinesSource if arguments.source == "jsonl" else ParquetSource
    return rows(
        arguments.path,
        language=arguments.language or "en",
        licence=arguments.licence or "",
        attribution=attribution,
    )
