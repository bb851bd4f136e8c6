"""A few bytes that ask for a lot: of memory, of time, of a place outside of the folder. Refused in bounded memory."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import resource
import struct
import sys
import tarfile
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from realm_core.command_line import parse_toml, read_settings
from realm_core.corpus.cleaning import article_of
from realm_core.corpus.mediawiki import MediaWikiSource
from realm_core.corpus.records import RawArticle
from realm_core.corpus.rows import JsonLinesSource, ParquetSource
from realm_core.corpus.sources import ArticleSource
from realm_core.corpus.wikitext import to_prose
from realm_core.errors import RealmError
from realm_core.index.generation import Generation
from realm_core.model.base import base_bert
from realm_core.model.torch_file import read_torch_file
from realm_core.questions.question_file import read_questions
from realm_core.tensors import load_tensors
from realm_core.training.config import PretrainConfig
from tests.core.corpus.dumps import HEAD, dump, page
from tests.fuzz.seeds import TORCH_TABLE
from webapp.operations.backups import unpack

ROOM_BYTES = 1 << 30  # what any of them may take, and far less than each asks for
COMPRESS: tuple[Callable[[bytes], bytes], ...] = (
    lambda content: bz2.compress(content, 1),
    lambda content: gzip.compress(content, 1),
    lambda content: lzma.compress(content, preset=0),
)


@contextmanager
def bounded() -> Iterator[None]:
    """No more address space than is taken now and `ROOM_BYTES`: whatever asks for more fails at once."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + ROOM_BYTES, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def read_all(source: ArticleSource) -> None:
    for _ in source.articles(0):
        pass


def repeated(compress: Callable[[bytes], bytes], before: bytes, part: bytes, times: int) -> bytes:
    """`before` and `part` as often as said, as an archive of several streams: quick to make, and no less large."""
    return compress(before) + compress(part) * times


# ── Archives and texts without an end ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("compress", COMPRESS, ids=["bz2", "gz", "xz"])
def test_a_gigabyte_of_zeros_is_no_line(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    path = written(tmp_path / "rows.jsonl", repeated(compress, b'{"id": "1"}\n', bytes(8 << 20), 128))
    assert path.stat().st_size < 5 << 20
    with bounded(), pytest.raises(RealmError, match=r"line 1: 'title' is missing|line 2: longer than 16 MiB"):
        read_all(JsonLinesSource(path))
    path = written(tmp_path / "rows.jsonl", repeated(compress, b"", bytes(8 << 20), 128))
    with bounded(), pytest.raises(RealmError, match="line 1: longer than 16 MiB"):
        read_all(JsonLinesSource(path))


@pytest.mark.parametrize(
    ("before", "part", "says"),
    [
        (b"<page><revision><text>", b"a" * (8 << 20), "a text is longer than 32 million"),
        (b"<page><title a='", b"a" * (1 << 20), "a tag is longer than 1 MiB"),
        (b"", b"<a>" * 1000, "nested deeper than 32 levels"),
        (
            b"<siteinfo><namespaces>",
            b"".join(b"<namespace>%d</namespace>" % n for n in range(11_000)),
            "more than 10,000 namespaces",
        ),
    ],
)
def test_a_dump_without_an_end(tmp_path: Path, before: bytes, part: bytes, says: str) -> None:
    path = written(tmp_path / "d.xml.bz2", repeated(COMPRESS[0], HEAD.encode() + before, part, 100))
    with bounded(), pytest.raises(RealmError, match=rf"d\.xml\.bz2: .*{says}"):
        read_all(MediaWikiSource(path))


@pytest.mark.parametrize("encoding", ["zip", "utf-7", "nothing", "cp037"])
def test_a_dump_names_no_codec(tmp_path: Path, encoding: str) -> None:
    content = b"<?xml version='1.0' encoding='%s'?>" % encoding.encode() + dump(page("Ada", "é is read."))
    (article,) = MediaWikiSource(written(tmp_path / "d.xml", content)).articles(0)
    assert article.text == "é is read."


def test_a_text_that_every_row_repeats_is_held_once(tmp_path: Path) -> None:
    """A file of a kilobyte whose rows, laid out one by one, would take two gigabytes."""
    rows, path = 256, tmp_path / "rows.parquet"
    text = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), ["x" * (8 << 20)])
    table = pa.table({"id": [str(n) for n in range(rows)], "title": ["T"] * rows, "text": text})
    pq.write_table(table, path, compression="zstd", store_schema=False, dictionary_pagesize_limit=1 << 30)
    assert path.stat().st_size < 4096
    with bounded():
        lengths = {len(article.text) for article in ParquetSource(path).articles(0)}
    assert lengths == {8 << 20}


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"id": ["1"], "title": ["T"], "text": ["x" * (17 << 20)]}, "longer than 16 MiB"),
        ({"id": ["1"], "title": ["T"], "text": [[0] * 9]}, "column 'text' must contain strings"),
        ({"id": [{"text": 1}], "title": ["T"], "text": ["x"]}, "column 'id' must contain strings"),
        ({"id": ["1"], "title": ["T"], "text": [b"x"]}, "column 'text' must contain strings"),
    ],
)
def test_parquet_of_other_columns(tmp_path: Path, columns: dict[str, Any], says: str) -> None:
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet")
    with pytest.raises(RealmError, match=says):
        read_all(ParquetSource(tmp_path / "rows.parquet"))


# ── Deep, long, slow ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, f'{{"question": {"9" * 5000}}}'])
def test_deep_and_long_json(tmp_path: Path, text: str) -> None:
    path = written(tmp_path / "q.jsonl", text.encode())
    with pytest.raises(RealmError, match=r"q\.jsonl, line 1 is not valid JSON"):
        read_questions(path)
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(RealmError, match=r"manifest\.json"):
        Generation.open(tmp_path)


def test_deep_toml(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(f"seed.{'a.' * 2000}b = 1")
    with pytest.raises(RealmError, match="seed must be a whole number"):
        read_settings(PretrainConfig, tmp_path / "c.toml")
    with pytest.raises(RealmError, match="is not a TOML value"):
        read_settings(PretrainConfig, None, ["seed=" + "[" * 100_000])
    with pytest.raises(RealmError, match="longer than"):
        parse_toml("a." * 100_000 + "a = 1")


@pytest.mark.parametrize(
    ("before", "part", "after"),
    [
        *(
            ("", unit, "")
            for unit in ("{{", "[[", "{|\n", "\n", "<ref>", "<!--", "[[a|", "''", "[http://a ", "\n== a ==\n")
        ),
        *(("{{nowrap|", " ", "}}"), ("{{nowrap|a", " ", "b}}"), ("[[a", " ", "b|]]"), ("[[a", ",", "\nb|]]")),
        *(("[[a ", "(", "|]]"), ("{{convert|", "1", "a}}"), (":", ":", "''for"), ("{{nowrap|", "a|", "}}")),
    ],
)
def test_hostile_markup_takes_seconds_at_most(before: str, part: str, after: str) -> None:
    """What took time in the square of its length took minutes for this much; tests of times themselves would fail when
    the machine has other things to do."""
    text, start = before + part * (80_000 // len(part)) + after, time.process_time()
    to_prose(text)
    assert time.process_time() - start < 5


# ── Weights ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_weights_that_claim_terabytes(tmp_path: Path) -> None:
    header = json.dumps({"x": {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 1 << 42]}}).encode()
    for content in (struct.pack("<Q", len(header)) + header, struct.pack("<Q", 1 << 60) + header, b""):
        with bounded(), pytest.raises(RealmError, match=r"x\.safetensors cannot be read"):
            load_tensors(written(tmp_path / "x.safetensors", content))
    with bounded(), pytest.raises(RealmError, match="hidden_size must be a whole number from 1 to 4,096"):
        base_bert(json.dumps({"hidden_size": 1 << 30}))
    manifest = {"format": 1, "generation": "g", "rows": 1 << 50, "dim": 128, "shards": []}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    with bounded(), pytest.raises(RealmError, match="declares more vectors than fit into memory"):
        Generation.open(tmp_path)


def test_a_shard_lies_in_its_folder(tmp_path: Path) -> None:
    shards = [{"file": "../vectors.safetensors", "start": 0, "stop": 1, "sha256": ""}]
    manifest = {"format": 1, "generation": "g", "rows": 1, "dim": 1, "shards": shards}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(RealmError, match="is not the name of a file"):
        Generation.open(tmp_path)


def torch_file(path: Path, table: bytes, *, compression: int = zipfile.ZIP_STORED, storage: bytes = bytes(4)) -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("archive/data.pkl", table)
        archive.writestr("archive/data/0", storage)
    return path


def test_a_torch_file_unpacks_to_nothing_larger(tmp_path: Path) -> None:
    path = torch_file(tmp_path / "x.bin", TORCH_TABLE, compression=zipfile.ZIP_DEFLATED, storage=bytes(64 << 20))
    with bounded(), pytest.raises(RealmError, match="it is compressed"):
        read_torch_file(path)
    strides_of_zero = TORCH_TABLE.replace(b"K\x01\x85K\x01\x85\x89", b"J\xff\xff\xff\x7f\x85K\x00\x85\x89")
    with bounded(), pytest.raises(RealmError, match="beyond its storage"):
        read_torch_file(torch_file(tmp_path / "x.bin", strides_of_zero))
    with pytest.raises(RealmError, match="is truncated within an element"):
        read_torch_file(torch_file(tmp_path / "x.bin", TORCH_TABLE, storage=bytes(3)))
    with pytest.raises(RealmError, match="size, stride or offset are not valid"):
        read_torch_file(torch_file(tmp_path / "x.bin", TORCH_TABLE.replace(b"K\x01\x85\x89", b")\x89")))


def test_tuples_of_tuples_are_not_counted_out(tmp_path: Path) -> None:
    """A few bytes name a value twice, forty times over: its hash or its notation would never be done."""
    twice = b"".join(b"q%ch%c\x86" % (n, n) for n in range(40))
    for table in (b"\x80\x02}K\x01" + twice + b"K\x01s.", b"\x80\x02K\x01" + twice + b"K\x01\x93."):
        with pytest.raises(RealmError, match="instead of a string"):
            read_torch_file(torch_file(tmp_path / "x.bin", table))


def test_a_pickle_is_not_run_under_any_name(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    pickled = b"cos\nsystem\n(X%s%btR." % (struct.pack("<I", len(f"touch {ran}")), f"touch {ran}".encode())
    with pytest.raises(RealmError, match=r"cannot be read"):
        load_tensors(written(tmp_path / "model.safetensors", pickled))
    with pytest.raises(RealmError, match=r"older than torch 1\.6"):
        read_torch_file(written(tmp_path / "pytorch_model.bin", pickled))
    with pytest.raises(RealmError, match="it calls os system"):
        read_torch_file(torch_file(tmp_path / "pytorch_model.bin", pickled))
    assert not ran.exists()


# ── Backups ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def backup(path: Path, *members: tarfile.TarInfo, paths: object = (), mode: str = "w") -> Path:
    about = json.dumps({"migrations": [], "paths": paths}).encode()
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for name, content in (("about.json", about), ("records.jsonl", b""), ("data/a", b"a")):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        for member in members:
            archive.addfile(member, io.BytesIO(bytes(member.size)))
    return path


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname = kind, link
    return made


def test_a_backup_leads_nowhere_else(tmp_path: Path) -> None:
    target = tmp_path / "inner" / "target"
    hostile = [
        member("../escaped"),
        member("data/../../escaped"),
        member("data/link", tarfile.SYMTYPE, "../../.."),
        member("data/hard", tarfile.LNKTYPE, "../escaped"),
        member("data/device", tarfile.CHRTYPE),
        member("data/pipe", tarfile.FIFOTYPE),
        member("data/sparse", tarfile.GNUTYPE_SPARSE),
    ]
    for one in hostile:
        target.mkdir(parents=True, exist_ok=True)
        with pytest.raises(RealmError, match="cannot be restored"):
            unpack(backup(tmp_path / "b.tar", one), target)
        assert [path.name for path in target.parent.iterdir()] == ["target"]
    for paths in (["../a"], ["/etc/passwd"], [""], ["."], ["a\0"], [None], 5, ["a", "absent"]):
        with pytest.raises(RealmError, match="cannot be restored"):
            unpack(backup(tmp_path / "b.tar", paths=paths), target)
    assert unpack(backup(tmp_path / "b.tar", paths=["a"]), target) == ([], ["a"])


def test_a_backup_that_ends_early(tmp_path: Path) -> None:
    large = member("data/large")
    large.size = 100_000
    whole = backup(tmp_path / "b.tar", large).read_bytes()
    (tmp_path / "b.tar").write_bytes(whole[: whole.index(bytes(50_000)) + 50_000])
    with pytest.raises(RealmError, match="cannot be restored: unexpected end of data"):
        unpack(tmp_path / "b.tar", tmp_path / "target")


@pytest.mark.parametrize("packed", ["gz", "bz2", "xz"])
def test_a_backup_is_not_compressed(tmp_path: Path, packed: str) -> None:
    with pytest.raises(RealmError, match="cannot be restored"):
        unpack(backup(tmp_path / "b.tar", mode=f"w:{packed}"), tmp_path / "target")


# ── Characters ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("place", ["question", "answers", "title", "context"])
@pytest.mark.parametrize("character", ["\0", "\ud800"])
def test_questions_of_characters_that_cannot_be_kept(tmp_path: Path, place: str, character: str) -> None:
    row: dict[str, Any] = {"question": "Who?", "answers": ["a"], "title": "T", "context": "c"}
    row[place] = [f"a{character}"] if place == "answers" else f"a{character}"
    path = written(tmp_path / "q.jsonl", json.dumps(row).encode())
    with pytest.raises(RealmError, match=r"q\.jsonl, line 1: the character .* cannot be stored or displayed") as raised:
        read_questions(path)
    str(raised.value).encode()


@pytest.mark.parametrize("markup", ["plain", "wikitext"])
def test_a_megabyte_of_every_odd_character(markup: Any) -> None:
    odd = "a\0\ud800\u202e\u200b\ufeff\u2066\u00ad\x1b\ufdd0\U000e0041 b\u2028"
    start = time.process_time()
    cleaned = article_of(RawArticle("1\ud800", odd * 9, "javascript:alert(1)", odd * (1_000_000 // len(odd)), markup))
    assert time.process_time() - start < 60
    assert cleaned is not None
    article, _ = cleaned
    for text in (article.id, article.title, article.text):
        text.encode()
    assert not set("\0\u202e\u200b\ufeff\u2066\u00ad\x1b") & set(article.title + article.text)
    assert len(article.title) <= 512 and article.url == "" and sys.getsizeof(article.text) > 500_000
