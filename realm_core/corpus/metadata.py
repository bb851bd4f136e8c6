"""Metadata of a corpus's documents: what rows and edits state, or else the corpus's own."""

from __future__ import annotations

import datetime
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from realm_core.corpus.prose import tidy_line
from realm_core.corpus.records import Stated, rights_in
from realm_core.errors import RealmError

# Beside a snapshot's articles, one row an article. A corpus whose rows state nothing has no such table.
DOCUMENTS_FILE: Final = "documents.arrow"
DOCUMENTS_SCHEMA: Final = pa.schema(
    [
        ("licence", pa.string()),
        ("attribution", pa.string()),
        ("language", pa.string()),
        ("date", pa.date32()),
        ("tags", pa.list_(pa.string())),
        ("collection", pa.string()),
    ]
)
_STATED_TYPE: Final = pa.struct(list(DOCUMENTS_SCHEMA))  # null: the row states nothing


def composed(text: str) -> str:
    """A collection's name or a tag as documents and records have it: one line, NFC, so that equal looks are equal."""
    return unicodedata.normalize("NFC", tidy_line(text))


def tidied(known: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata as a corpus stores it; tags in order, each once."""
    return {
        "licence": tidy_line(known["licence"]),
        "attribution": tidy_line(known["attribution"]),
        "language": tidy_line(known["language"]).lower(),
        "date": known["date"],
        "tags": tuple(sorted({tag for one in known["tags"] if (tag := composed(one))})),
        "collection": composed(known["collection"]),
    }


def stated_column(stated: Sequence[Stated]) -> pa.Array:
    """The stated values of some rows; null where a row states none."""
    return pa.array([_to_json(one) for one in stated], _STATED_TYPE)


def stated_field() -> pa.Field:
    """The column of articles on their way to a snapshot."""
    return pa.field("stated", _STATED_TYPE)


def _to_json(stated: Stated) -> dict[str, Any] | None:
    if stated == Stated():
        return None
    known = {name: value or "" for name, value in asdict(stated).items()}
    day = datetime.date.fromisoformat(stated.date) if stated.date else None
    return {name: value or None for name, value in tidied(known | {"date": day, "tags": stated.tags}).items()}


def completed(stated: pa.Array, urls: Sequence[str], manifest: Mapping[str, Any]) -> pa.RecordBatch:
    """The table of documents: what rows state, and else what holds of the corpus."""
    rows = [
        known_of(manifest, url) | {name: value for name, value in (told or {}).items() if value is not None}
        for told, url in zip(stated.to_pylist(), urls, strict=True)
    ]
    return pa.RecordBatch.from_pylist(rows, DOCUMENTS_SCHEMA)


def known_of(manifest: Mapping[str, Any], url: str = "") -> dict[str, Any]:
    """The metadata of the document with an address, in a snapshot without a table of documents."""
    own = rights_in(manifest, url)
    return {
        "licence": str(manifest.get("licence", "")) if own is None else own.licence,
        "attribution": str(manifest.get("attribution", "")) if own is None else own.attribution,
        "language": str(manifest.get("language", "")).lower(),
        "date": None,
        "tags": [],
        "collection": str(manifest.get("name", "")),
    }


def known_at(folder: Path, manifest: Mapping[str, Any], article: int, url: str) -> dict[str, Any]:
    """The metadata of the document in a row of a snapshot. `RealmError` where its table is missing or damaged."""
    if DOCUMENTS_FILE not in manifest["files"]:
        return known_of(manifest, url)
    documents = open_table(folder / DOCUMENTS_FILE, DOCUMENTS_SCHEMA, manifest["articles"])
    known: dict[str, Any] = documents.slice(article, 1).to_pylist()[0]
    return known


def open_table(path: Path, schema: pa.Schema, rows: int) -> pa.Table:
    """An Arrow file, mapped. `RealmError` if it is missing or damaged, or holds other rows."""
    try:
        table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise RealmError(f"{path} is missing or damaged: {error}.") from error
    if table.schema != schema or len(table) != rows:
        raise RealmError(f"{path} does not contain the {rows:,} rows that its manifest declares.")
    return table
