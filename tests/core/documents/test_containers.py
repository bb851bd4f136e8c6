"""Files that hold many documents, read by the corpus' own sources."""

from __future__ import annotations

import bz2
import datetime
import gzip
import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from realm_core.corpus.rows import JsonLinesSource, ParquetSource
from realm_core.documents.records import ParsedDocument, from_json, to_json
from realm_core.errors import RealmError
from tests.core.corpus.dumps import dump, page
from tests.core.documents.files import Reader, shown

ROWS = [
    {"id": 1, "title": "Alpha", "text": "A letter.\n\n\nThe first."},
    {"id": "b", "title": "Beta", "text": "Another.", "url": "https://example.org/b"},
]
LINES = "\n".join(map(json.dumps, ROWS)).encode()


def parquet(rows: list[dict[str, Any]]) -> bytes:
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


ABOUT = {
    "language": "en-GB",
    "date": "2024-05-31",
    "tags": ["city", " old  town ", "city"],
    "licence": "CC0",
    "attribution": "Ada",
}


def about(document: ParsedDocument) -> tuple[object, ...]:
    return document.language, document.date, document.tags, document.licence, document.attribution


def test_what_a_row_states_of_its_document(reader: Reader) -> None:
    rows = [{**ROWS[0], **ABOUT}, {**ROWS[1], "tags": "a, b,", "date": None}]
    first, second = reader.many("\n".join(map(json.dumps, rows)).encode(), "a.jsonl")
    assert about(first) == ("en", "2024-05-31", ("city", "old town"), "CC0", "Ada")
    assert about(second) == ("", "", ("a", "b"), None, None)
    assert from_json(to_json([first])) == [first]


@pytest.mark.parametrize(
    "date", [datetime.date(2024, 5, 31), datetime.datetime(2024, 5, 31, 12), "2024-05-31"], ids=["day", "time", "text"]
)
def test_what_a_row_of_parquet_states(reader: Reader, date: object) -> None:
    row = {"id": "1", "title": "Alpha", "text": "A letter.", **ABOUT, "date": date}
    first, second = reader.many(parquet([row, {**row, "id": "2", "tags": None, "date": None}]), "a.parquet")
    assert about(first) == ("en", "2024-05-31", ("city", "old town"), "CC0", "Ada")
    assert about(second) == ("en", "", (), "CC0", "Ada")
    (third,) = reader.many(parquet([{**row, "tags": "a,b"}]), "a.parquet")
    assert third.tags == ("a", "b")


@pytest.mark.parametrize(
    ("stated", "told"),
    [
        ({"date": "2024-13-01"}, "'date' is '2024-13-01', a day such as 2024-05-31 is expected."),
        ({"date": "31.5.2024"}, "'date' is '31.5.2024', a day such as 2024-05-31 is expected."),
        ({"date": 2024}, "'date' is 2024, a day such as 2024-05-31 is expected."),
        ({"tags": {"a": 1}}, "'tags' is {'a': 1}, a list of strings or one with commas is expected."),
        ({"tags": ["a", 1]}, "'tags' is ['a', 1], a list of strings or one with commas is expected."),
        ({"tags": list(map(str, range(51)))}, "'tags' has 51 tags, and may have 50."),
        ({"tags": ["a" * 101]}, "'tags' has one of 101 characters, which may have 100."),
        ({"language": "English"}, "'language' is 'English', a code such as en is expected."),
        ({"licence": 4}, "'licence' is int, a string is expected."),
        ({"collection": "a" * 101}, "'collection' has 101 characters, and may have 100."),
        ({"collection": ["a"]}, "'collection' is list, a string is expected."),
        ({"attribution": "a" * 501}, "'attribution' has 501 characters, and may have 500."),
    ],
)
def test_an_invalid_value_is_named_with_line_and_column(reader: Reader, stated: dict[str, object], told: str) -> None:
    lines = "\n".join(map(json.dumps, [ROWS[0], {**ROWS[1], **stated}])).encode()
    assert reader.refusal(lines, "a.jsonl") == f"a.jsonl, line 2: {told}"


def test_columns_of_parquet_of_another_type(reader: Reader) -> None:
    row = {"id": "1", "title": "Alpha", "text": "A letter."}
    assert reader.refusal(parquet([{**row, "date": 5}]), "a.parquet") == (
        "a.parquet: the column 'date' must contain dates or strings."
    )
    assert "'tags' must contain strings or lists of strings." in reader.refusal(
        parquet([{**row, "tags": [1]}]), "a.parquet"
    )
    late = io.BytesIO()
    days = pa.array([2**31 - 1], pa.int32()).cast(pa.date32())
    pq.write_table(pa.table({**{name: [value] for name, value in row.items()}, "date": days}), late)
    assert reader.refusal(late.getvalue(), "a.parquet").startswith("a.parquet, row 1: 'date' cannot be read (")


def test_ingesting_checks_the_same(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({**ROWS[0], "date": "May"}))
    with pytest.raises(RealmError, match="line 1: 'date' is 'May', a day such as 2024-05-31 is expected"):
        list(JsonLinesSource(path).articles(0))
    path.write_bytes(parquet([{"id": "1", "title": "Alpha", "text": "A letter.", "date": 5}]))
    with pytest.raises(RealmError, match="the column 'date' must contain dates or strings"):
        list(ParquetSource(path).articles(0))


def test_lists_of_tags_do_not_expand(tmp_path: Path) -> None:
    """A few bytes hold any number of equal tags; they are counted before they are unpacked."""
    path = tmp_path / "a.parquet"
    for rows, tags, told in (
        (1, 3_000_000, "a row may have 50 'tags'"),
        (20_000, 500_000, "row 20000: 'tags' has"),
    ):
        lists = pa.LargeListArray.from_arrays(
            pa.array([0] * rows + [tags]),
            pa.DictionaryArray.from_arrays(pa.array(np.zeros(tags, np.int32)), ["tag" * 30]),
        )
        texts = pa.array(map(str, range(1, rows + 1)))
        pq.write_table(pa.table({"id": texts, "title": texts, "text": texts, "tags": lists}), path, store_schema=False)
        with pytest.raises(RealmError, match=told):
            list(ParquetSource(path).articles(0))


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


def test_pages_of_two_wikis_have_different_ids(reader: Reader) -> None:
    """Each counts its own from 1."""
    data = dump(page("Turku", "It is a [[city]]."))
    own = data.replace(b"//en.wikipedia.org/", b"//wiki.example.org/")
    assert own != data
    ids = [reader.many(one, "dump.xml")[0].identity for one in (data, own)]
    assert [one.partition("/")[0] for one in ids] == ["en.wikipedia.org", "wiki.example.org"]
    assert len({one.partition("/")[2] for one in ids}) == 1


def test_a_container_is_refused_where_one_document_is_expected(reader: Reader) -> None:
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
    assert reader.refusal('{"id": 1, "title": "a", "text": " "}', "a.jsonl") == (
        "a.jsonl holds a row whose title or text is blank: '1'."
    )


def test_zim_without_its_library(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "libzim", None)
    monkeypatch.setitem(sys.modules, "libzim.reader", None)
    assert reader.refusal(b"ZIM\x04" + bytes(100), "a.zim") == (
        "a.zim is ZIM, which the package libzim reads; it is not installed, for its licence is the GPL "
        "(.venv/bin/python -m pip install -c constraints.txt libzim)."
    )
