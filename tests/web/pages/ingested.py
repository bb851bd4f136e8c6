"""A corpus that was really ingested: on disk and in the records."""

from __future__ import annotations

from pathlib import Path

from realm_core.corpus.ingest import ingest
from realm_core.corpus.records import ArticleRights, RawArticle
from realm_core.corpus.store import Snapshot
from realm_core.runs.activity import Activity
from tests.in_memory_source import InMemorySource
from webapp.models import CorpusSnapshot

_WORDS = {"licence": "CC BY-SA 4.0", "attribution": "Somebody's kindness"}
AUSTRALIA = RawArticle(
    "1",
    "Australia",
    "https://en.wikipedia.org/wiki/Australia",
    "Australia is a country. Its capital is Canberra & its <b>largest</b> city is Sydney.\n\n"
    "== History ==\nPeople came long ago.\n\n=== Federation ===\nThe colonies federated in 1901.\n",
    "wikitext",
)


def ingested(folder: Path, *articles: RawArticle, rights: tuple[ArticleRights, ...] = ()) -> Snapshot:
    """The snapshot of some articles, in `folder`. rights: of those that have others than the corpus."""
    source = InMemorySource(list(articles), name="given", rights=rights, **_WORDS)
    opened = Snapshot.open(ingest(source, name="small", output=folder, activity=Activity(quiet=True), processes=1))
    CorpusSnapshot.objects.create(
        name="small",
        snapshot_id=opened.snapshot_id,
        path=str(opened.folder),
        source="given",
        language="en",
        articles=len(articles),
        blocks=len(opened),
        **_WORDS,
    )
    return opened
