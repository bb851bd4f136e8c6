"""The tasks of corpora."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from realm_core.settings import Name, SettingError, ShortText, SourceFileName, setting
from realm_core.task import Task, runtime

DEFAULT_LANGUAGE = "en"
PACKAGES = ("default", "vital", "factbook", "wordnet")  # installed with the project; other sources are files


def origin_of(manifest: Mapping[str, Any]) -> str:
    """`Snapshot.origin` of a snapshot with this manifest."""
    source, language, name = (str(manifest.get(key, "")) for key in ("source", "language", "name"))
    return f"{source} {language}" if source in PACKAGES else f"{source} {name}"


class Ingest(Task):
    """Source → snapshot."""

    activity = kind = "ingest"
    summary = "read a source and publish a corpus snapshot"
    code = "realm_core.corpus.ingest"
    title = "Ingest a corpus"
    about = "Read articles, clean them and pack them into blocks. The snapshot that is made can then be indexed."
    group = "Corpus and index"
    queue = "default"
    makes = "corpus"

    source: Literal["default", "vital", "factbook", "wordnet", "jsonl", "parquet", "mediawiki"] = setting(
        "default",
        "vital: the leads of 10,033 vital Wikipedia articles; factbook: facts about countries; wordnet: 40,561 names "
        "and nouns, a line each; default: all three, from packages; jsonl, parquet, mediawiki: a file",
    )
    file: SourceFileName = setting(
        "", "the file, sent or put into the data folder's sources/ beforehand; empty for a package", flag="--path"
    )
    language: ShortText = setting(DEFAULT_LANGUAGE, "two-letter code (vital has en, fr and es)")
    corpus_name: Name = setting("", "what the corpus is called; empty: the source's name", flag="--name")
    licence: ShortText = setting("", "of the texts, shown beside every passage; empty: the source's own")
    attribution: ShortText = setting("", "whom the pages name beside a passage; empty: the source's own")
    articles_at_most: int = setting(0, "from the first on; 0: all of them", unit="articles", ge=0)
    output: Path = runtime(help="folder of all corpora")
    processes: int | None = runtime(None, help="that clean and pack (default: one a processor)", unit="processes", ge=1)

    def check_together(self) -> None:
        if self.source in PACKAGES and self.file:
            raise SettingError("file", f"must be empty: the source {self.source} is a package.")
        if self.source not in PACKAGES and not self.file:
            raise SettingError("file", f"is needed: the source {self.source} is a file.")
        if self.source in PACKAGES and self.source != "vital" and self.language != DEFAULT_LANGUAGE:
            raise SettingError("language", f"must be en: the source {self.source} is in English; vital has others.")
