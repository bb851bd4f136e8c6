"""Articles that a test itself has at hand, as a source of a corpus."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import astuple

from realm_core.corpus.records import ArticleRights, RawArticle


class InMemorySource:
    """A source of articles that are in memory already."""

    def __init__(
        self,
        articles: Sequence[RawArticle],
        *,
        name: str,
        language: str = "en",
        licence: str = "",
        attribution: str = "",
        rights: tuple[ArticleRights, ...] = (),
    ) -> None:
        self.name = name
        self.language = language
        self.licence = licence
        self.attribution = attribution
        self.rights = rights
        self._articles = articles
        self._read = 0

    def fingerprint(self) -> str:
        digest = hashlib.sha256()
        for article in self._articles:
            digest.update(json.dumps(astuple(article)).encode("ascii"))
        return f"given {digest.hexdigest()}"

    def articles(self, start: int) -> Iterator[RawArticle]:
        for position in range(start, len(self._articles)):
            self._read = position + 1
            yield self._articles[position]

    def share_read(self) -> float | None:
        return self._read / len(self._articles) if self._articles else None
