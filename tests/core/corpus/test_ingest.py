"""Ingesting as a process: killed, stopped, resumed, repeated; constant memory; no partial snapshots."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from realm_core.corpus import wordnet, work, worker
from realm_core.corpus.default import DefaultSource
from realm_core.corpus.factbook import source as factbook
from realm_core.corpus.ingest import ingest
from realm_core.corpus.mediawiki import MediaWikiSource
from realm_core.corpus.records import RawArticle
from realm_core.corpus.rows import JsonLinesSource
from realm_core.corpus.store import Snapshot
from realm_core.errors import RealmError, Stopped
from realm_core.runs.activity import Activity
from tests.core.corpus.dumps import dump, page
from tests.core.processes import finish, start
from tests.in_memory_source import InMemorySource
from tests.waiting import alive, wait_until

ROOT = Path(__file__).parents[3]
DEFAULT_SNAPSHOT = "095972a00b1d9a25"  # the shipped models' block vectors belong to this one
SAMPLE_SNAPSHOT = "4b9a3ee999593094"


# `python -m realm_core`, with small parts, which waits behind the first until there is a file `go`.
WAITING = """
import time
from realm_core.__main__ import end, main
from realm_core.corpus import wordnet, work, worker
work._PART_ARTICLES, worker._BATCH_ARTICLES = 500, 100
write = work.WorkFolder._write_journal
def write_and_wait(folder):
    write(folder)
    while not folder.path.with_name("go").exists():
        time.sleep(0.01)
work.WorkFolder._write_journal = write_and_wait
end(main())
"""


def command(*arguments: object) -> list[str]:
    return ["ingest", *map(str, arguments)]


def run(*arguments: object) -> tuple[int, str]:
    return finish(start(command(*arguments)))


def rows_file(path: Path, rows: int) -> Path:
    with open(path, "w", encoding="utf-8") as file:
        for n in range(rows):
            row = {"id": n, "title": f"Article {n}", "text": f"Article {n} is about the number {n}. It is short."}
            file.write(json.dumps(row) + "\n")
    return path


def quiet() -> Activity:
    return Activity(quiet=True)


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "_PART_ARTICLES", 50)
    monkeypatch.setattr("realm_core.corpus.worker._BATCH_ARTICLES", 20)


@pytest.fixture(scope="module")
def default() -> DefaultSource:
    return DefaultSource()


def test_a_sample_of_the_default_corpus_is_the_same_everywhere(default: DefaultSource, tmp_path: Path) -> None:
    """Each fortieth article: whatever changes how articles are read, cleaned or packed changes the name."""
    sample = InMemorySource(list(default.articles(0))[::40], name="sample")
    stored = Snapshot.open(ingest(sample, name="sample", output=tmp_path, activity=quiet(), processes=1))
    assert (stored.snapshot_id, stored.articles, len(stored)) == (SAMPLE_SNAPSHOT, 1_272, 1_305)
    shipped = json.loads((ROOT / "models" / "realm-base" / "vectors" / "manifest.json").read_text())
    assert (shipped["snapshot_id"], shipped["rows"]) == (DEFAULT_SNAPSHOT, 52_370)


def test_the_default_corpus_has_countries_and_words_after_its_articles(default: DefaultSource) -> None:
    joined = [article.title for article in default.articles(10_030)]
    assert joined[3:5] == ["Afghanistan", "Akrotiri"] and "Wolfgang Amadeus Mozart" in joined[255:]
    assert len(joined) == 50_846 - 10_030 and default.share_read() == 1.0
    assert [part.address for part in default.rights] == [factbook.ADDRESS, wordnet.ADDRESS]
    assert [part.licence for part in default.rights] == ["public domain", "WordNet 3.0 license"]


@pytest.mark.nightly  # a test above has a sample of it every day
def test_the_default_corpus_is_the_same_everywhere(tmp_path: Path) -> None:
    status, errors = run("--output", tmp_path, "--run", tmp_path / "run")
    assert status == 0, errors
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["snapshot_id"] == DEFAULT_SNAPSHOT and result["articles"] == 50_846 and result["blocks"] == 52_370
    store = Snapshot.open(result["path"])
    assert store.folder == tmp_path / "default" / DEFAULT_SNAPSHOT
    progress = json.loads((tmp_path / "run" / "progress.json").read_text())
    assert (progress["done"], progress["total"], progress["unit"]) == (50_846, 50_846, "pages")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["default", "run"]


def test_progress_never_counts_a_page_that_there_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small_parts: None
) -> None:
    articles = [RawArticle(str(n), f"Article {n}", "", "It is short.") for n in range(50)]
    told: list[tuple[int, int | None]] = []
    monkeypatch.setattr(Activity, "progress", lambda _self, done, total, *_: told.append((done, total)))
    ingest(InMemorySource(articles, name="given"), name="n", output=tmp_path, activity=quiet(), processes=1)
    assert told == [(20, 50), (40, 50), (50, 50), (50, 50)]


def test_a_part_is_the_beginning_and_says_what_share_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small_parts: None
) -> None:
    articles = [RawArticle(str(n), f"Article {n}", "", f"It is number {n}.") for n in range(200)]

    def made(**options: Any) -> Path:
        source = InMemorySource(articles, name="given")
        return ingest(source, name="n", output=tmp_path, activity=quiet(), processes=1, **options)

    def stop_at_the_fourth(_self: Activity) -> None:
        checks.append(1)
        if len(checks) == 4:
            raise Stopped

    whole, checks = made(), list[int]()
    with monkeypatch.context() as patch, pytest.raises(Stopped):
        patch.setattr(Activity, "check", stop_at_the_fourth)
        made(articles_at_most=110)
    part = made(articles_at_most=110)
    stored, beginning = Snapshot.open(part), Snapshot.open(whole)
    assert [stored.block(row) for row in range(len(stored))] == [beginning.block(row) for row in range(110)]
    assert stored.manifest["share"] == pytest.approx(110 / 200, abs=0.01) and "share" not in beginning.manifest
    assert made(articles_at_most=110) == part
    assert made(articles_at_most=200) == made(articles_at_most=300) == whole


@pytest.mark.timeout(900)  # processes are started, on a machine that may be busy
@pytest.mark.parametrize("processes", [pytest.param(1, marks=pytest.mark.nightly), 2])
def test_killed_and_resumed_gives_the_same_snapshot(
    tmp_path: Path, processes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = rows_file(tmp_path / "rows.jsonl", 1_500)
    options = ("--source", "jsonl", "--path", rows, "--name", "n", "--processes", processes)
    killed = start(command(*options, "--output", tmp_path / "a", "--quiet"), WAITING)
    journal = tmp_path / "a" / ".n.partial" / "journal.json"
    wait_until(journal.exists, killed)
    workers = [int(pid) for pid in Path(f"/proc/{killed.pid}/task/{killed.pid}/children").read_text().split()]
    killed.kill()
    finish(killed)
    assert not (tmp_path / "a" / "n").exists()
    if processes > 1:
        wait_until(lambda: not any(alive(pid) for pid in workers))
    position = json.loads(journal.read_text())["parts"][-1]["position"]
    assert 0 < position < 1_500
    (tmp_path / "a" / "go").touch()
    status, errors = finish(start(command(*options, "--output", tmp_path / "a"), WAITING))
    assert status == 0 and f"after the first {position:,} pages" in errors
    monkeypatch.setattr(work, "_PART_ARTICLES", 500)
    monkeypatch.setattr(worker, "_BATCH_ARTICLES", 100)
    ingest(JsonLinesSource(rows), name="n", output=tmp_path / "b", activity=quiet(), processes=1)
    first, second = (Snapshot.open(next((tmp_path / x / "n").iterdir())) for x in "ab")
    assert first.snapshot_id == second.snapshot_id and first.articles == 1_500
    for file in ("articles.arrow", "blocks.arrow"):
        assert first.manifest["files"][file] == second.manifest["files"][file]
    assert not journal.parent.exists()


@pytest.mark.nightly  # below, an ingest in this process is stopped and goes on every day
@pytest.mark.timeout(900)  # processes are started, on a machine that may be busy
def test_a_stop_request_keeps_finished_parts(tmp_path: Path) -> None:
    rows = rows_file(tmp_path / "rows.jsonl", 1_500)
    options = ("--source", "jsonl", "--path", rows, "--output", tmp_path / "a", "--processes", 2)
    stopped = start(command(*options), WAITING)
    wait_until((tmp_path / "a" / ".jsonl.partial" / "journal.json").exists, stopped)
    stopped.terminate()
    (tmp_path / "a" / "go").touch()
    status, errors = finish(stopped)
    assert status == 3 and "Stopped" in errors
    status, errors = run(*options)
    assert status == 0 and "Resuming after the first" in errors
    status, errors = run(*options)
    assert status == 0 and "exists already" in errors


@pytest.fixture
def stopped(tmp_path: Path, small_parts: None) -> MediaWikiSource:
    """A dump of 300 pages, some of which an earlier attempt has brought to the folder "a"."""
    content = dump(*(page(f"Page {n}", f"Page {n} has [[text]].\n== S ==\nMore {n}.", number=n) for n in range(300)))
    (tmp_path / "d.xml").write_bytes(content)

    class StopsOnce(Activity):
        checks = 0

        def check(self) -> None:
            self.checks += 1
            if self.checks == 8:
                raise Stopped

    source = MediaWikiSource(tmp_path / "d.xml")
    with pytest.raises(Stopped):
        ingest(source, name="d", output=tmp_path / "a", activity=StopsOnce(quiet=True), processes=1)
    assert not (tmp_path / "a" / "d").exists()
    parts = sorted((tmp_path / "a" / ".d.partial").glob("articles-*.arrow"))
    assert len(parts) > 1
    return source


def test_resuming_a_dump_in_the_middle(tmp_path: Path, stopped: MediaWikiSource) -> None:
    path = ingest(stopped, name="d", output=tmp_path / "a", activity=quiet(), processes=1)
    other = ingest(stopped, name="d", output=tmp_path / "b", activity=quiet(), processes=1)
    assert path.name == other.name and Snapshot.open(path).articles == 300
    links = [Snapshot.open(folder).manifest["files"]["links.npy"] for folder in (path, other)]
    assert links[0] == links[1]


def test_parts_of_an_earlier_format_are_rebuilt(
    tmp_path: Path, stopped: MediaWikiSource, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = tmp_path / "a" / ".d.partial" / "journal.json"
    content = json.loads(journal.read_text())
    journal.write_text(json.dumps({key: content[key] for key in ("fingerprint", "complete", "parts")}))
    path = ingest(stopped, name="d", output=tmp_path / "a", activity=Activity(), processes=1)
    assert "starting over" in capsys.readouterr().err
    assert Snapshot.open(path).articles == 300


@pytest.mark.parametrize(
    "damage", [{"number": "x"}, {"number": 7}, {"number": True}, {"articles": -1}, {"position": 1.5}, {"more": 1}]
)
def test_a_damaged_journal_is_refused(tmp_path: Path, stopped: MediaWikiSource, damage: dict[str, Any]) -> None:
    journal = tmp_path / "a" / ".d.partial" / "journal.json"
    content = json.loads(journal.read_text())
    content["parts"][-1] |= damage
    journal.write_text(json.dumps(content))
    with pytest.raises(RealmError, match=rf"^{journal} is damaged; remove its folder"):
        ingest(stopped, name="d", output=tmp_path / "a", activity=quiet(), processes=1)


def test_killed_while_concatenating_does_not_read_the_source_again(
    tmp_path: Path, small_parts: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    articles = [RawArticle(str(n), f"T{n}", "", f"Text {n}.") for n in range(200)]
    source = InMemorySource(articles, name="g")
    with monkeypatch.context() as broken:
        broken.setattr("realm_core.corpus.writer.TablesWriter._index_ids", lambda *_: (_ for _ in ()).throw(KeyError))
        with pytest.raises(KeyError):
            ingest(source, name="g", output=tmp_path, activity=quiet(), processes=1)
    assert not (tmp_path / "g").exists()

    def not_again(_start: int) -> Iterator[RawArticle]:
        raise AssertionError("read again")

    monkeypatch.setattr(source, "articles", not_again)
    assert Snapshot.open(ingest(source, name="g", output=tmp_path, activity=quiet(), processes=1)).articles == 200


def test_a_changed_source_starts_over(tmp_path: Path, small_parts: None) -> None:
    rows = rows_file(tmp_path / "rows.jsonl", 200)
    with open(rows, "a") as file:
        file.write("not JSON\n")
    with pytest.raises(RealmError, match="line 201"):
        ingest(JsonLinesSource(rows), name="n", output=tmp_path, activity=quiet(), processes=1)
    assert not (tmp_path / "n").exists() and (tmp_path / ".n.partial" / "journal.json").exists()
    rows_file(rows, 120)
    store = Snapshot.open(ingest(JsonLinesSource(rows), name="n", output=tmp_path, activity=quiet(), processes=1))
    assert store.articles == 120
    alone = ingest(JsonLinesSource(rows), name="n", output=tmp_path / "alone", activity=quiet(), processes=1)
    assert alone.name == store.snapshot_id


def test_the_same_articles_from_another_source_are_the_same_snapshot(tmp_path: Path) -> None:
    articles = [RawArticle("1", "T", "", "Text.")]
    first = ingest(InMemorySource(articles, name="a"), name="n", output=tmp_path, activity=quiet(), processes=1)
    renamed = [RawArticle("2", "T", "", "Text.")]
    again = ingest(InMemorySource(renamed, name="b"), name="n", output=tmp_path, activity=quiet(), processes=1)
    assert again == first
    assert [path.name for path in tmp_path.iterdir()] == ["n"]


def test_concurrent_ingests_are_refused(tmp_path: Path) -> None:
    source = InMemorySource([RawArticle("1", "T", "", "Text.")], name="n")
    with work.WorkFolder(tmp_path, "n", "x"), pytest.raises(RealmError, match="Another process"):
        ingest(source, name="n", output=tmp_path, activity=quiet())


@pytest.mark.parametrize("name", ["", ".hidden", "a/b", "..", "a\0b"])
def test_invalid_folder_names_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(RealmError, match="name"):
        ingest(InMemorySource([], name="n"), name=name, output=tmp_path, activity=quiet())


def test_errors_are_a_sentence_and_status_2(tmp_path: Path) -> None:
    (tmp_path / "bad.xml").write_bytes(dump(page("One", "a"))[:-20])
    source = ("--source", "mediawiki", "--path", tmp_path / "bad.xml", "--processes", 1)
    status, errors = run(*source, "--output", tmp_path / "c")
    assert status == 2 and errors.count("\n") == 1
    assert errors.startswith("error: ") and "bad.xml, line" in errors
    assert not list((tmp_path / "c").glob("[!.]*"))


def test_a_full_disk_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_space(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(work.os, "fsync", no_space)
    source = InMemorySource([RawArticle("1", "T", "", "Text.")], name="n")
    with pytest.raises(RealmError, match=r"articles-000000\.arrow is full"):
        ingest(source, name="n", output=tmp_path, activity=quiet(), processes=1)
    assert not (tmp_path / "n").exists()


_MEASURED = """
import sys
from pathlib import Path
from realm_core.runs.activity import Activity
from realm_core.corpus import packing, work, worker
from realm_core.corpus.ingest import ingest
from realm_core.corpus.mediawiki import MediaWikiSource

class Spaces:  # counting real wordpieces would take most of the time and none of the memory
    def count(self, texts): return [text.count(" ") + 1 for text in texts]

work._PART_ARTICLES = 200
worker._packer = lambda: packing.Packer(Spaces())
source = MediaWikiSource(Path(sys.argv[1]))
ingest(source, name="n", output=Path(sys.argv[2]), activity=Activity(quiet=True), processes=1)
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


@pytest.mark.nightly
def test_memory_does_not_grow_with_the_dump(tmp_path: Path) -> None:
    peaks_kib = []
    body = "''Text'' of {{nowrap|some}} [[length]] stands here. " * 150
    for pages in (150, 1100):
        path = tmp_path / f"{pages}.xml"
        path.write_bytes(dump(*(page(f"Page {n}", f"{n} {body}", number=n) for n in range(pages))))
        command = [sys.executable, "-c", _MEASURED, str(path), str(tmp_path / str(pages))]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=150, check=True)
        peaks_kib.append(int(done.stdout))
    # The larger dump has 8 MB more wikitext; held in Python and in Arrow that would be twice as much and more.
    assert peaks_kib[1] - peaks_kib[0] < 8 * 1024, peaks_kib
