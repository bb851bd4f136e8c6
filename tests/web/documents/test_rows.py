"""The same rows, ingested or uploaded and folded, pass the same filters."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from realm_core.corpus.ingest import ingest
from realm_core.corpus.rows import JsonLinesSource, ParquetSource
from realm_core.corpus.store import Snapshot
from realm_core.documents import reading
from realm_core.living.documents import Changes, Filter
from realm_core.living.editing import edit
from realm_core.living.folding import fold
from realm_core.living.index import LivingIndex
from realm_core.living.state import Base, LivingState
from realm_core.living.store import Store
from tests.core.living.building import BLOCK_HASH, CountingEmbedder, generation_of, queries, quiet, store_in
from tests.web.documents.conftest import read_here
from webapp.documents.inputs import DocumentInput, File, read
from webapp.models import CorpusSnapshot

NAME = "rows"
ROWS: list[dict[str, Any]] = [
    {"id": "plain", "title": "Plain", "text": "Nothing is stated of it."},
    {"id": "all", "title": "All", "text": "All is stated of it.", "language": "fin", "date": "2024-05-31"}
    | {"tags": ["sea", "old  town"], "licence": "CC0", "attribution": "Ada", "collection": "travel"},
    {"id": "dated", "title": "Dated", "text": "It has a date.", "date": "2025-01-01", "language": "en-GB"},
    {"id": "tagged", "title": "Tagged", "text": "It has a tag.", "tags": ["sea"], "collection": " travel "},
    {"id": "blank", "title": "Blank", "text": "What it states is blank.", "language": "", "tags": [], "licence": " "},
]
WORDS = frozenset
FILTERS = (
    Filter(),
    *(Filter(collections=WORDS([name])) for name in ("travel", NAME, "none")),
    *(Filter(hidden_collections=WORDS([name])) for name in ("travel", NAME)),
    *(Filter(languages=WORDS([language])) for language in ("en", "fi", "fin")),
    *(Filter(tags=WORDS([tag])) for tag in ("sea", "old town")),
    Filter(titles=WORDS(["Dated", "All"])),
    Filter(since=date(2024, 6, 1)),
    Filter(until=date(2024, 6, 1)),
    Filter(collections=WORDS(["travel"]), tags=WORDS(["sea"]), since=date(2024, 5, 31), until=date(2024, 5, 31)),
)


def written(path: Path) -> Path:
    if path.suffix == ".parquet":
        names = dict.fromkeys(name for row in ROWS for name in row)
        pq.write_table(pa.table({name: [row.get(name) for row in ROWS] for name in names}), path)
    else:
        path.write_text("\n".join(map(json.dumps, ROWS)))
    return path


def folded(store: Store, documents: Changes) -> LivingIndex:
    """The index of documents that were added to nothing and folded."""
    state = edit(store, LivingState(NAME, BLOCK_HASH), documents, CountingEmbedder())
    return LivingIndex.open(store, LivingState(NAME, BLOCK_HASH, fold(store, state, quiet()).base))


def uploaded(path: Path) -> Changes:
    """The documents of an upload of the file, to a corpus of the same name and language."""
    given = DocumentInput(File(path.read_bytes(), path.name))
    return Changes(tuple(one.document for one in read([given], CorpusSnapshot(name=NAME, language="en"))))


def found(index: LivingIndex, wanted: Filter) -> set[str]:
    """The titles that a search finds in a filter."""
    rows_BK, _ = index.where(wanted).search(queries(1), 50)
    return {index.corpus.block(row).title for row in rows_BK[0].tolist()}


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_the_same_rows_pass_the_same_filters(tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_run", read_here)
    path = written(tmp_path / f"rows.{suffix}")
    store = store_in(tmp_path / "ingested")
    source = (JsonLinesSource if suffix == "jsonl" else ParquetSource)(path)
    snapshot = Snapshot.open(ingest(source, name=NAME, output=store.corpora, activity=quiet(), processes=1))
    base = Base(snapshot.snapshot_id, generation_of(store, snapshot).name)
    ingested = LivingIndex.open(store, LivingState(NAME, BLOCK_HASH, base))
    edited = folded(store_in(tmp_path / "edited"), uploaded(path))
    answers = [found(ingested, wanted) for wanted in FILTERS]
    assert answers == [found(edited, wanted) for wanted in FILTERS]
    assert answers[1] == {"All", "Tagged"} and {"All"} in answers and answers[0] == {row["title"] for row in ROWS}
    assert ingested.corpus.collections == edited.corpus.collections
