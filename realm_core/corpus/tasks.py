"""What can be done with articles."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from realm_core.settings import Line, Name, SettingError, SourceFile, setting
from realm_core.task import Task, runtime

DEFAULT_LANGUAGE = "en"


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

    source: Literal["vital", "jsonl", "parquet", "mediawiki"] = setting(
        "vital", "vital: the leads of 10,033 vital Wikipedia articles, a package; jsonl, parquet, mediawiki: a file"
    )
    file: SourceFile = setting(
        "", "the file, sent or put into the data folder's sources/ beforehand; empty for vital", flag="--path"
    )
    language: Line = setting(DEFAULT_LANGUAGE, "two-letter code (vital has en, fr and es)")
    corpus_name: Name = setting("", "what the corpus is called; empty: the source's name", flag="--name")
    licence: Line = setting("", "of the texts, shown beside every passage; empty: the source's own")
    attribution: Line = setting("", "whom the pages name beside a passage; empty: the source's own")
    output: Path = runtime(help="folder of all corpora")
    processes: int | None = runtime(None, help="processes that clean and pack (default: one a processor)", ge=1)

    def check_together(self) -> None:
        """Every source but the package is a file."""
        if self.source == "vital" and self.file:
            raise SettingError("file", "must be empty: the source vital is a package.")
        if self.source != "vital" and not self.file:
            raise SettingError("file", f"is needed: the source {self.source} is a file.")
