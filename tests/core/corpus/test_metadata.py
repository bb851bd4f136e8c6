"""What rows state of their articles is kept beside them; a corpus whose rows state nothing is what it always was."""

from __future__ import annotations

import hashlib
import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from realm_core.corpus import tables, work
from realm_core.corpus.ingest import ingest
from realm_core.corpus.metadata import DOCUMENTS_FILE, DOCUMENTS_SCHEMA, composed, open_table
from realm_core.corpus.rows import JsonLinesSource
from realm_core.corpus.store import Snapshot
from realm_core.runs.activity import Activity

ROWS: list[dict[str, Any]] = [
    {"id": "turku", "title": "Turku", "text": "Turku is a city.", "url": "https://example.org/turku"},
    {"id": "oulu", "title": "Oulu", "text": "Oulu is a city."},
    {"id": "kemi", "title": "Kemi", "text": "Kemi is a city."},
]
STATED = {
    "language": "fin",
    "date": "2024-05-31",
    "tags": [" old  town ", "city", "city"],
    "licence": "CC0",
    "attribution": " Ada ",
    "collection": "cafe\u0301 \u200b ",
}
OWN = {"licence": "CC BY 4.0", "attribution": "Example Press", "language": "en", "date": None, "tags": []}


def ingested(folder: Path, rows: list[dict[str, Any]], name: str = "mine") -> Snapshot:
    path = folder / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    source = JsonLinesSource(path, licence=OWN["licence"], attribution=OWN["attribution"])  # type: ignore[arg-type]
    return Snapshot.open(ingest(source, name=name, output=folder, activity=Activity(quiet=True), processes=1))


def test_what_a_row_states_is_kept_and_the_rest_is_the_corpus_s(tmp_path: Path, small_parts: None) -> None:
    snapshot = ingested(tmp_path, [ROWS[0], {**ROWS[1], **STATED}, {**ROWS[2], "tags": "city", "date": ""}])
    own = {**OWN, "collection": "mine"}
    assert open_table(snapshot.folder / DOCUMENTS_FILE, DOCUMENTS_SCHEMA, 3).to_pylist() == [
        own,
        {
            "licence": "CC0",
            "attribution": "Ada",
            "language": "fi",
            "date": date(2024, 5, 31),
            "tags": ["city", "old town"],
            "collection": "caf\u00e9",
        },
        {**own, "tags": ["city"]},
    ]
    assert [snapshot.article(row).title for row in range(3)] == ["Turku", "Oulu", "Kemi"]
    snapshot.verify()


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """An article a part."""
    monkeypatch.setattr(work, "_PART_ARTICLES", 1)


def test_without_it_nothing_is_kept_and_the_id_is_that_of_the_blocks(tmp_path: Path) -> None:
    empty = {"tags": [], "date": None, "licence": " "}
    plain = ingested(tmp_path, [ROWS[0], {**ROWS[1], **empty}, ROWS[2]])
    assert {path.name for path in plain.folder.iterdir()} == {
        *(tables.ARTICLES_FILE, tables.BLOCKS_FILE, tables.PREFIXES_FILE, tables.ROWS_FILE, tables.MANIFEST_FILE)
    }
    ids = "".join(plain.block(row).block_id for row in range(len(plain)))
    assert plain.snapshot_id == hashlib.sha256(ids.encode()).hexdigest()[:16]
    described = ingested(tmp_path, [ROWS[0], {**ROWS[1], **STATED}, ROWS[2]])
    for name in (tables.ARTICLES_FILE, tables.BLOCKS_FILE):
        assert (described.folder / name).read_bytes() == (plain.folder / name).read_bytes()


def test_other_words_about_the_same_texts_are_another_snapshot(tmp_path: Path) -> None:
    stated = [[ROWS[0], {**ROWS[1], "tags": tags}] for tags in (["city"], ["sea"], ["sea", "city"], ["city", "sea"])]
    ids = [ingested(tmp_path, rows).snapshot_id for rows in stated]
    assert len(set(ids)) == 3 and ids[2] == ids[3]


def test_names_that_look_the_same_are_the_same() -> None:
    assert composed("cafe\u0301\n press ") == composed("caf\u00e9  press") == "caf\u00e9 press"
