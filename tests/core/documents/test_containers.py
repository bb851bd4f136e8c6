"""Files that hold many documents, read by the corpus' own sources."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.core.corpus.dumps import dump, page
from tests.core.documents.files import Reader, shown

ROWS = [
    {"id": 1, "title": "Alpha", "text": "A letter.\n\n\nThe first."},
    {"id": "b", "title": "Beta", "text": "Another.", "url": "https://example.org/b"},
]
LINES = "\n".join(map(json.dumps, ROWS)).encode()


def parquet(rows: list[dict[str, str]]) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), file)
    return file.getvalue()


@pytest.mark.parametrize("packed", [bytes, gzip.compress, bz2.compress])
def test_json_lines(reader: Reader, packed: object) -> None:
    assert callable(packed)
    first, second = reader.many(packed(LINES), "a.jsonl")
    assert (first.identity, first.title, first.format, first.language) == ("1", "Alpha", "jsonl", "")
    assert shown(first) == [((), "A letter.\nThe first.")]
    assert (second.identity, second.url) == ("b", "https://example.org/b")


def test_the_place_of_a_damaged_line(reader: Reader) -> None:
    assert reader.refusal(LINES + b"\n{oops", "a.jsonl").startswith("a.jsonl, line 3 is not valid JSON: ")
    assert reader.refusal(LINES + b"\n{}", "a.jsonl") == "a.jsonl, line 3: 'id' is missing."
    assert reader.refusal(LINES + b'\n"\xff"', "a.jsonl") == "a.jsonl, line 3, byte 2: not valid UTF-8."


def test_parquet(reader: Reader) -> None:
    data = parquet([{"id": "1", "title": "Alpha", "text": "A letter."}])
    (document,) = reader.many(data, "a.parquet")
    assert (document.title, document.format, shown(document)) == ("Alpha", "parquet", [((), "A letter.")])
    assert reader.refusal(data[:-20], "a.parquet").startswith("a.parquet, after row 0: not a valid Parquet file")
    assert "has no column 'text'" in reader.refusal(parquet([{"id": "1", "title": "A"}]), "a.parquet")


def test_mediawiki(reader: Reader) -> None:
    data = dump(page("Turku", "'''Turku''' is a [[city]].\n== Facts ==\nIt is old.\n=== Sights ===\nA castle."))
    (document,) = reader.many(data, "dump.xml")
    assert (document.title, document.language, document.url) == ("Turku", "en", "https://en.wikipedia.org/wiki/Turku")
    assert shown(document) == [
        ((), "Turku is a city."),
        (("Facts",), "It is old."),
        (("Facts", "Sights"), "A castle."),
    ]
    assert reader.refusal(data[:-30], "dump.xml").startswith("dump.xml, line ")


def test_one_is_expected(reader: Reader) -> None:
    from realm_core.errors import RealmError

    with pytest.raises(RealmError, match=r"^a.jsonl is JSON lines, which holds many documents, and one is expected\.$"):
        reader.one(LINES, "a.jsonl")


def test_limits(reader: Reader) -> None:
    assert reader.refusal(LINES, "a.jsonl", documents=1) == "a.jsonl holds more than 1 documents, which is the limit."
    assert reader.refusal(LINES, "a.jsonl", characters=20).startswith("a.jsonl holds more than 20 characters of text")
    bomb = gzip.compress(LINES + b"\n" * (30 << 20))
    assert reader.refusal(bomb, "a.jsonl.gz", unpacked_bytes=20 << 20) == (
        "a.jsonl.gz holds more than 20 MiB when unpacked, which is the limit."
    )


def test_nothing_but_blank_records(reader: Reader) -> None:
    assert reader.refusal('{"id": 1, "title": "a", "text": " "}', "a.jsonl") == "a.jsonl holds no document with text."


def test_zim_without_its_library(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "libzim", None)
    monkeypatch.setitem(sys.modules, "libzim.reader", None)
    assert reader.refusal(b"ZIM\x04" + bytes(100), "a.zim") == (
        "a.zim is ZIM, which the package libzim reads; it is not installed, for its licence is the GPL "
        "(.venv/bin/python -m pip install -c constraints.txt libzim)."
    )
