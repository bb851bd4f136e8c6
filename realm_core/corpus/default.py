"""The default corpus: Wikipedia's vital articles, facts about countries and a dictionary's entries, as one source."""

from __future__ import annotations

from collections.abc import Iterator

from realm_core.corpus import wordnet
from realm_core.corpus.factbook.source import ADDRESS, FactbookSource
from realm_core.corpus.packages import PackageSource
from realm_core.corpus.records import ArticleRights, RawArticle
from realm_core.corpus.vital import VitalSource
from realm_core.corpus.wordnet import WordnetSource


class DefaultSource(PackageSource):
    """The vital articles come first: their blocks keep the rows that they have in a corpus of them alone."""

    name = "default"

    def __init__(self) -> None:
        self._vital, self._factbook = VitalSource(), FactbookSource()
        self._vital_articles = list(self._vital.articles(0))
        self._wordnet = WordnetSource({article.title for article in self._vital_articles})
        self.licence = self._vital.licence
        self.attribution = ". ".join(part.attribution for part in (self._vital, self._factbook, self._wordnet))
        self.rights = (
            ArticleRights(ADDRESS, self._factbook.licence, self._factbook.attribution),
            ArticleRights(wordnet.ADDRESS, self._wordnet.licence, self._wordnet.attribution),
        )

    def fingerprint(self) -> str:
        return "default: " + ", ".join(part.fingerprint() for part in (self._vital, self._factbook, self._wordnet))

    def articles(self, start: int) -> Iterator[RawArticle]:
        articles = [*self._vital_articles, *self._factbook.articles(0), *self._wordnet.articles(0)]
        self._total = len(articles)
        for self._read, article in enumerate(articles[start:], start + 1):
            yield article
