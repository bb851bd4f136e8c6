"""The newest dump is found, fetched with resume and checksum, and handed to jobs; against a mirror on this machine."""

from __future__ import annotations

import bz2
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import LazySettings
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from realm_core.errors import RealmError
from tests.core.corpus.dumps import dump, page
from tests.web.documents.conftest import answering, deployed, folders  # noqa: F401  (fixtures)
from webapp.documents import service as documents
from webapp.documents.inputs import DocumentInput, Text
from webapp.models import AuditEntry, CorpusSnapshot, Deployment, Job, Schedule
from webapp.models.schedule import ScheduleStage
from webapp.serving.engine import holder
from webapp.sources import dumps
from webapp.sources.dumps import Dump, fetch, newest
from webapp.sources.service import sources
from webapp.storage.places import sources_dir

TEXT = "Ada was a [[mathematician]] of the 19th century, whose life has been told often. " * 40
# A dump of a few articles, and what may pad it.
CONTENT = bz2.compress(dump(*(page(f"Ada {number}", f"{TEXT} {number}") for number in range(40)))).ljust(256_000, b"\0")
NAME = "simplewiki-20260801-pages-articles-multistream.xml.bz2"
LISTING = "".join(f'<a href="{one}/">{one}/</a>' for one in ("20260720", "20260801", "20260901", "latest"))


@dataclass
class Mirror:
    """What a mirror says and does. ranges: whether it goes on in the middle. at_most: bytes of one connection."""

    url: str = ""
    sha1: str = hashlib.sha1(CONTENT, usedforsecurity=False).hexdigest()
    status: str = ""
    ranges: bool = True
    at_most: int = len(CONTENT)
    busy: int = 0  # how many connections for the file are refused with 503, behind the first
    asked: list[str] = field(default_factory=list)  # the ranges of the file that were asked for

    def dump_status(self, date: str) -> str:
        name = NAME.replace("20260801", date)
        file = {"size": len(CONTENT), "url": f"/simplewiki/{date}/{name}", "sha1": self.sha1}
        job = {"status": "waiting" if date == "20260901" else "done", "files": {name: file}}
        return self.status or json.dumps({"version": "0.8", "jobs": {"articlesmultistreamdump": job}})

    def handler(self) -> type[BaseHTTPRequestHandler]:
        mirror = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parts = self.path.strip("/").split("/")
                if parts == ["simplewiki"]:
                    self.answer(200, LISTING.encode())
                elif parts[0] == "simplewiki" and parts[-1] == "dumpstatus.json":
                    self.answer(200, mirror.dump_status(parts[1]).encode())
                elif parts[-1].endswith(".bz2"):
                    asked = self.headers.get("Range", "")
                    mirror.asked.append(asked)
                    if mirror.busy and len(mirror.asked) > 1:
                        mirror.busy -= 1
                        self.send_error(503)
                        return
                    first = int(asked.removeprefix("bytes=").rstrip("-")) if asked and mirror.ranges else 0
                    self.answer(206 if first else 200, CONTENT[first:], mirror.at_most)
                else:
                    self.send_error(404)

            def answer(self, status: int, body: bytes, at_most: int | None = None) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body[:at_most])

            def log_message(self, *_arguments: object) -> None:
                pass

        return Handler


@pytest.fixture
def mirror() -> Iterator[Mirror]:
    told = Mirror()
    server = ThreadingHTTPServer(("127.0.0.1", 0), told.handler())
    threading.Thread(target=server.serve_forever, daemon=True).start()
    told.url = f"http://127.0.0.1:{server.server_port}"
    yield told
    server.shutdown()
    server.server_close()


@pytest.fixture(autouse=True)
def data(settings: LazySettings, tmp_path: Path, db: None) -> None:
    settings.REALM_DATA = tmp_path


def nothing(_there: int, _whole: int) -> None:
    pass


def left() -> list[str]:
    names = [path.name for path in sources_dir().iterdir()] if sources_dir().exists() else []
    return sorted(name for name in names if not name.endswith(".lock"))


def test_the_newest_that_is_complete(mirror: Mirror) -> None:
    dump = newest("simple", mirror=mirror.url)
    assert (dump.wiki, dump.date, dump.name) == ("simplewiki", "20260801", NAME)
    assert dump.size_bytes == len(CONTENT) and dump.url.startswith(mirror.url)
    assert newest("simple", mirror=mirror.url, date="20260720").date == "20260720"
    with pytest.raises(RealmError, match=r"no dump of 20260901 .* 20260801"):
        newest("simple", mirror=mirror.url, date="20260901")
    with pytest.raises(RealmError, match="status 404"):
        newest("tlh", mirror=mirror.url)
    with pytest.raises(RealmError, match="no language"):
        newest("../en", mirror=mirror.url)
    with pytest.raises(RealmError, match="cannot be fetched"):
        newest("simple", mirror="http://127.0.0.1:9")


@pytest.mark.parametrize("status", ["{", "[]", '{"jobs": {"articlesmultistreamdump": {"status": "done", "files": 3}}}'])
def test_what_is_no_status_is_refused(mirror: Mirror, status: str) -> None:
    mirror.status = status
    with pytest.raises(RealmError, match=r"dumpstatus\.json is not what"):
        newest("simple", mirror=mirror.url)


def test_it_is_fetched_once(mirror: Mirror) -> None:
    dump = newest("simple", mirror=mirror.url)
    told: list[tuple[int, int]] = []
    made = fetch(dump, lambda there, whole: told.append((there, whole)))
    assert (sources_dir() / NAME).read_bytes() == CONTENT and left() == [NAME]
    assert told[0] == (0, len(CONTENT)) and told[-1] == (len(CONTENT), len(CONTENT))
    assert made in sources() and made.source == "mediawiki"
    assert AuditEntry.objects.get(action="source.fetch").target == NAME
    fetch(dump, nothing)
    assert len(mirror.asked) == 1


def test_a_connection_that_breaks_off_goes_on(mirror: Mirror) -> None:
    mirror.at_most = 100_000
    fetch(newest("simple", mirror=mirror.url), nothing)
    assert (sources_dir() / NAME).read_bytes() == CONTENT
    assert mirror.asked == ["", "bytes=100000-", "bytes=200000-"]


def test_a_mirror_that_is_busy_for_a_while_is_asked_again(mirror: Mirror) -> None:
    mirror.at_most, mirror.busy = 200_000, 4
    fetch(newest("simple", mirror=mirror.url), nothing)
    assert (sources_dir() / NAME).read_bytes() == CONTENT
    assert mirror.asked == ["", *["bytes=200000-"] * 5]


def test_a_mirror_that_stays_busy_is_given_up(mirror: Mirror) -> None:
    mirror.at_most, mirror.busy = 200_000, 9
    with pytest.raises(RealmError, match=r"status 503\. What came is kept"):
        fetch(newest("simple", mirror=mirror.url), nothing)
    assert len(mirror.asked) == 6 and (sources_dir() / f".{NAME}.partial").stat().st_size == 200_000


def test_two_at_once_do_not_mix(mirror: Mirror) -> None:
    dump, refused = newest("simple", mirror=mirror.url), []

    def meanwhile(there: int, _whole: int) -> None:
        if not refused:
            with pytest.raises(RealmError, match="being fetched by another process") as error:
                fetch(dump, nothing)
            refused.append(error.value)

    fetch(dump, meanwhile)
    assert refused and (sources_dir() / NAME).read_bytes() == CONTENT and len(mirror.asked) == 1


def test_a_fetch_that_was_killed_goes_on(mirror: Mirror) -> None:
    dump = newest("simple", mirror=mirror.url)

    def killed(there: int, _whole: int) -> None:
        if there:
            raise KeyboardInterrupt

    mirror.at_most = 70_000
    with pytest.raises(KeyboardInterrupt):
        fetch(dump, killed)
    assert left() == [f".{NAME}.partial"] and sources() == []
    mirror.at_most, mirror.asked = len(CONTENT), []
    fetch(dump, nothing)
    assert left() == [NAME] and (sources_dir() / NAME).read_bytes() == CONTENT
    assert mirror.asked == ["bytes=70000-"]


def test_a_mirror_without_ranges_begins_anew(mirror: Mirror) -> None:
    mirror.ranges = False
    sources_dir().mkdir(parents=True)
    (sources_dir() / f".{NAME}.partial").write_bytes(b"x" * 1000)
    fetch(newest("simple", mirror=mirror.url), nothing)
    assert (sources_dir() / NAME).read_bytes() == CONTENT and mirror.asked == ["bytes=1000-"]


def test_a_mirror_that_sends_nothing_is_given_up(mirror: Mirror) -> None:
    mirror.at_most = 0
    with pytest.raises(RealmError, match="What came is kept"):
        fetch(newest("simple", mirror=mirror.url), nothing)
    assert len(mirror.asked) == 5 and NAME not in left()


def test_a_dump_of_another_checksum_or_length_is_removed(mirror: Mirror) -> None:
    dump = newest("simple", mirror=mirror.url)
    with pytest.raises(RealmError, match="SHA-1 is not the mirror's"):
        fetch(replace(dump, sha1="0" * 40), nothing)
    assert left() == []
    with pytest.raises(RealmError, match="longer than"):
        fetch(replace(dump, size_bytes=1000), nothing)
    assert NAME not in left()


@pytest.fixture
def estimating(answering: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """A model answers; its speed and that of ingesting are measured for a moment only, on a few articles."""
    monkeypatch.setattr("webapp.management.commands.wikipedia._MEASURED_S", 0.01)
    monkeypatch.setattr("webapp.sources.estimating.MEASURED_S", 0.01)
    monkeypatch.setattr("webapp.sources.estimating._ARTICLES_AT_ONCE", 4)


def test_the_command(mirror: Mirror, estimating: None, capsys: pytest.CaptureFixture[str]) -> None:
    """It says how long it takes; then jobs go on, one behind the other."""
    call_command("wikipedia", "--language=simple", f"--mirror={mirror.url}", "--estimate")
    said = capsys.readouterr().out
    assert "0.3 MB, of which 0.3 MB are to be fetched. At most about 212 blocks" in said
    assert re.search(r"fetching   \d+ s, at [\d,.]+ MB/s, measured now\n", said)
    assert re.search(r"ingesting  [\dmins ]+ s on \d+ processors", said) and "blocks a second" in said
    assert re.search(r"words      \d+ s, for search by words\n", said) and "lists      none" in said
    assert "0.1 MB words" in said  # 570 bytes for each of 212 blocks
    assert re.search(r"disk       \d\.\d MB: 0\.3 MB dump, \d\.\d MB corpus, .* are free\n", said)
    assert "English alone" not in said and not Job.objects.exists() and left() == []

    call_command("wikipedia", "--language=simple", f"--mirror={mirror.url}", "--no-deploy")
    said = capsys.readouterr().out
    job = Job.objects.get()
    assert "100.0 % of 0.3 MB" in said and f"Job {job.pk} ingests {NAME}" in said
    told = {name: job.parameters[name] for name in ("source", "file", "corpus_name", "licence")}
    assert told == {"source": "mediawiki", "file": NAME, "corpus_name": "simplewiki", "licence": "CC BY-SA 4.0"}
    schedule = Schedule.objects.get()
    assert schedule.stage == ScheduleStage.INGEST and schedule.last_job == job
    assert not schedule.enabled and not schedule.deploy and not job.parameters.get("articles_at_most")

    with pytest.raises(CommandError, match=f"job {job.pk}"):
        call_command("wikipedia", "--language=simple", f"--mirror={mirror.url}", "--no-deploy")
    assert Schedule.objects.count() == 1 and dumps.MIRROR.startswith("https://")


def test_the_estimate_of_a_large_one_in_another_language(
    mirror: Mirror, estimating: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of some 4 million blocks, in a language that no shipped model reads, over a connection of 8 Mbit/s."""
    large = Dump("frwiki", "20260801", NAME, f"{mirror.url}/simplewiki/20260801/{NAME}", 5_000_000_000, "0" * 40)
    monkeypatch.setattr("webapp.sources.dumps.newest", lambda *_, **__: large)
    call_command("wikipedia", "--language=fr", "--mbit=8", "--estimate")
    said = capsys.readouterr().out
    assert "fetching   1 h 23 min, by --mbit\n" in said and "The shipped models read English alone: over frwiki" in said
    lists = re.search(r"lists      ([\dhmins ]+), for approximate search", said)
    told = re.search(
        r"disk       ([\d.]+) GB: 5\.0 GB dump, ([\d.]+) GB corpus, .* 0\.0 MB words, .* lists, .* earlier parts", said
    )
    assert "words      none" in said
    assert lists and told and float(told[1]) >= 5 + 2 * float(told[2])


def test_a_disk_without_room_is_refused(
    mirror: Mirror, estimating: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webapp.sources.estimating.shutil.disk_usage", lambda _: SimpleNamespace(free=200_000))
    called = ("wikipedia", "--language=simple", f"--mirror={mirror.url}")
    with pytest.raises(CommandError, match=r"has 0\.2 MB free, and about [\d.]+ MB are needed\. .* --anyway"):
        call_command(*called)
    assert left() == [] and not Job.objects.exists()
    call_command(*called, "--estimate")
    assert "are needed." in capsys.readouterr().out and not Job.objects.exists()
    call_command(*called, "--anyway")
    assert Job.objects.exists()
    with pytest.raises(CommandError, match="megabits"):
        call_command(*called, "--mbit=fast")


def test_what_is_here_is_not_fetched_again(
    mirror: Mirror, estimating: None, capsys: pytest.CaptureFixture[str]
) -> None:
    fetch(newest("simple", mirror=mirror.url), nothing)
    call_command("wikipedia", "--language=simple", f"--mirror={mirror.url}", "--estimate")
    assert "of which 0.0 MB are to be fetched" in (said := capsys.readouterr().out) and "it is here" in said
    assert len(mirror.asked) == 1


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"no dump", f"The beginning of {NAME}, line 1, column 0"),
        (bz2.compress(dump(page("Talk:Ada", "x", namespace=1))), "holds no article"),
    ],
)
def test_a_beginning_that_is_no_dump_of_articles(
    mirror: Mirror, estimating: None, content: bytes, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.web.test_wikipedia.CONTENT", content)
    with pytest.raises(CommandError, match=told):
        call_command("wikipedia", "--language=simple", f"--mirror={mirror.url}", "--estimate")


@pytest.mark.parametrize("told", [(), ("--deploy",)])
def test_to_answer_soon_it_begins_with_a_part(
    mirror: Mirror, estimating: None, capsys: pytest.CaptureFixture[str], told: tuple[str, ...]
) -> None:
    call_command("wikipedia", "--language=simple", f"--mirror={mirror.url}", *told)
    assert "ingests the first 2,000 articles of simplewiki" in capsys.readouterr().out
    assert Job.objects.get().parameters["articles_at_most"] == 2000 and Schedule.objects.get().deploy


def test_it_says_that_documents_are_brought_over(
    mirror: Mirror, estimating: None, capsys: pytest.CaptureFixture[str]
) -> None:
    documents.add([DocumentInput(Text("Turku is a city in Finland."), title="Turku")], by=None)
    documents.remove(["Nile"], by=None)
    call_command("wikipedia", "--language=simple", f"--mirror={mirror.url}")
    assert "1 document that was added to tiny, or changed in it, will be brought over." in capsys.readouterr().out


def test_a_whole_wikipedia_that_answers_is_not_replaced_by_a_part(
    mirror: Mirror, estimating: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """Next month's dump of a Wikipedia that answers is ingested as a whole."""
    CorpusSnapshot.objects.update(name="simplewiki", articles=250_000)
    call_command("wikipedia", "--language=simple", f"--mirror={mirror.url}")
    assert f"ingests {NAME}" in (said := capsys.readouterr().out) and "and it answers." in said
    assert not Job.objects.get().parameters["articles_at_most"] and Schedule.objects.get().deploy


def test_page_and_rest_say_which_share_of_wikipedia_the_corpus_has(
    answering: Deployment,  # noqa: F811
    client: Client,
) -> None:
    """An answer goes on saying it where the files of its corpus have gone."""

    def ask() -> dict[str, Any]:
        told: dict[str, Any] = client.post("/api/v1/ask", {"question": "What is Mars?"}, "application/json").json()
        return told

    assert ask()["corpus_share"] == 1 and " is in so far" not in client.get("/").content.decode()
    CorpusSnapshot.objects.update(share=0.0312)
    holder().close()
    holder().refresh(wait=True)  # what answers is read once
    assert re.search(r"3\.1.% of <bdi>tiny</bdi> is in so far", client.get("/").content.decode())
    answer = ask()
    assert answer["corpus_share"] == 0.0312
    CorpusSnapshot.objects.update(path="corpora/gone", removed_at=timezone.now())
    assert client.get(f"/api/v1/answers/{answer['id']}").json()["corpus_share"] == 0.0312
    page = client.get(f"/answers/{answer['id']}/").content.decode()
    assert re.search(r"answered from the first 3\.1.% of <bdi>tiny</bdi>", page)
