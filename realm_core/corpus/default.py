"""The default corpus: the vital articles of Wikipedia, then facts about countries, as one source."""

from __future__ import annotations

from collections.abc import Iterator

from realm_core.corpus.factbook.source import ADDRESS, FactbookSource
from realm_core.corpus.records import ArticleRights, RawArticle
from realm_core.corpus.vital import VitalSource


class DefaultSource:
    """The vital articles come first: their blocks keep the rows that they have in a corpus of them alone."""

    name = "default"
    language = "en"

    def __init__(self) -> None:
        self._vital, self._factbook = VitalSource(), FactbookSource()
        self.licence = self._vital.licence
        self.attribution = f"{self._vital.attribution}. {self._factbook.attribution}"
        self.rights: tuple[ArticleRights, ...] = (
            ArticleRights(ADDRESS, self._factbook.licence, self._factbook.attribution),
        )
        self._read = self._total = 0

    def fingerprint(self) -> str:
        return f"default: {self._vital.fingerprint()}, {self._factbook.fingerprint()}"

    def articles(self, start: int) -> Iterator[RawArticle]:
        articles = [*self._vital.articles(0), *self._factbook.articles(0)]
        self._total = len(articles)
        for self._read, article in enumerate(articles[start:], start + 1):
            yield article

    def share_read(self) -> float | None:
        return self._read / self._total if self._total else None
