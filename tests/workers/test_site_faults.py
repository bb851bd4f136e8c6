"""A whole site of real processes whose database or broker goes and comes back, and its backup while people ask."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.askers import Askers
from tests.migrated import migrated
from tests.tiny import ARTICLES, QUESTIONS
from tests.waiting import wait_until
from tests.workers.site import Site, site
from workers.guards import HOST

ASKERS = 4
_KEPT = """
import django, json, sys
django.setup()
from django.core.management import call_command
from django.test import Client
for command in json.loads(sys.argv.pop(1)):
    call_command(*command, stdout=sys.stderr)
from webapp.models import Feedback
client = Client(HTTP_HOST="127.0.0.1")
answers = {name: client.get(f"/api/v1/answers/{name}").content.decode() for name in sys.argv[1:]}
said = Feedback.objects.filter(answer__in=answers).order_by("pk")
said = said.values_list("answer", "by__username", "right", "better_answer")
print(json.dumps({"answers": answers, "said": [[str(answer), *word] for answer, *word in said]}))
"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site(tmp_path_factory.mktemp("site")) as running:
        yield running


class Critic:
    """Asks, and says what it thinks of the answer. asked: answers; said: answer → word; statuses: of what it said."""

    def __init__(self, whole: Site) -> None:
        self._whole, self._ask = whole, whole.asker()
        self.asked: set[str] = set()
        self.said: dict[str, str] = {}
        self.statuses: set[int] = set()

    def __call__(self, question: str) -> tuple[int, str]:
        status, answer = self._ask(question)
        if status == 201:
            self.asked.add(answer)
            path, word = f"/api/v1/answers/{answer}/feedback", f"Better than {answer}"
            body = {"right": False, "better_answer": word}
            said = self._whole.call("POST", path, body, self._whole.tokens["asker"])[0]
            self.statuses.add(said)
            if said == 201:
                self.said[answer] = word
        return status, answer


def asking(ask: Callable[[str], tuple[int, str]], count: int = 1) -> Askers:
    """People who ask, with a pause: without one they would take the processors from the other tests."""
    return Askers(ask, QUESTIONS, count, thinks_s=0.4)


class Stream(threading.Thread):
    """A batch whose answers come one after another; it returns when the first has come."""

    def __init__(self, whole: Site, questions: int) -> None:
        super().__init__()
        self._connection = http.client.HTTPConnection(HOST, whole.port, timeout=60)
        body = {"questions": [f"{QUESTIONS[0]} {number}" for number in range(questions)], "k": 3}
        headers = {"Content-Type": "application/json", "Accept": "application/jsonl"}
        self._connection.request("POST", "/api/v1/ask/batch", json.dumps(body), headers)
        self._response = self._connection.getresponse()
        self._lines = [self._response.readline()]
        self.start()

    def run(self) -> None:
        self._lines += self._response.readlines()

    def results(self) -> list[dict[str, Any]]:
        """All of them."""
        self.join()
        self._connection.close()
        return [json.loads(line) for line in self._lines]


def kept(whole: Site, answers: list[str], *commands: list[str], **environment: str) -> dict[str, Any]:
    """What a site of this environment tells of answers, and what was said of them, after some of manage.py's commands.

    One process does all of it, because each would load Django anew.
    """
    told: dict[str, Any] = json.loads(
        whole.run("-c", _KEPT, json.dumps(commands), *answers, DJANGO_SETTINGS_MODULE="webapp.settings", **environment)
    )
    return told


@pytest.mark.timeout(600)
def test_the_database_crashes_and_comes_back(whole: Site) -> None:
    before = {answer for (answer,) in whole.rows("SELECT id::text FROM webapp_askedanswer")}
    critic = Critic(whole)
    with asking(critic), asking(whole.asker(), ASKERS) as askers:
        wait_until(lambda: len(critic.said) >= 3)
        stream = Stream(whole, 300)
        whole.database.stop(at_once=True)
        gone_at = time.perf_counter()
        wait_until(lambda: any(one.status == 503 for one in askers.since(gone_at)))
        status, _, content = whole.call("GET", "/readyz")
        assert status == 503 and json.loads(content)["database"] == "unavailable"
        assert whole.call("GET", "/healthz")[0] == 200
        for path, kind in (
            (f"/answers/{min(critic.asked)}/", "text/html"),
            ("/api/v1/answers", "application/problem+json"),
        ):
            status, headers, content = whole.call("GET", path, token="realm_x" * (kind != "text/html"))
            assert status == 503 and headers["content-type"].startswith(kind) and int(headers["retry-after"]) > 0
            assert b"The database does not answer." in content
        time.sleep(2)  # by then the pool of connections has given up looking for it
        whole.database.start()
        back_at = time.perf_counter()
        wait_until(lambda: any(one.status == 201 for one in askers.since(back_at)))
        found_back_s = time.perf_counter() - back_at
        known = len(critic.said)
        wait_until(lambda: len(critic.said) >= known + 3)
    everything, streamed = askers.since(0), stream.results()
    print(f"{len(everything)} questions; answered again after {found_back_s:.1f} s")
    assert {one.status for one in everything} == {201, 503} and critic.statuses <= {201, 503}
    assert all(int(one.answered_by) > 0 for one in everything if one.status == 503)
    assert max(one.took_ms for one in everything) < 15_000
    assert found_back_s < 10
    given = [one.answered_by for one in everything if one.status == 201]
    assert [one["index"] for one in streamed] == list(range(300))
    assert {one["problem"]["status"] for one in streamed if "problem" in one} == {503}
    assert "answer" in streamed[0] and "answer" in streamed[-1]
    given += [one["answer"]["id"] for one in streamed if "answer" in one]
    stored = {answer for (answer,) in whole.rows("SELECT id::text FROM webapp_askedanswer")}
    assert len(set(given)) == len(given) and set(given) <= stored
    # Where the database went between keeping an answer and saying so, whoever asked was sent away.
    assert len(stored - before - set(given) - critic.asked) <= ASKERS + 1 + sum("answer" not in one for one in streamed)
    words = dict(whole.rows("SELECT answer_id::text, better_answer FROM webapp_feedback"))
    assert critic.said.items() <= words.items()
    assert whole.call("GET", "/readyz")[0] == 200


@pytest.mark.timeout(600)
def test_the_broker_goes_and_comes_back(whole: Site) -> None:
    """Meanwhile questions are answered without a rate limit; a job that is started waits for the broker, and runs once.

    The broker has a password, which no message or log contains.
    """
    whole.start_workers()
    wait_until(lambda: whole.rows("SELECT 1 FROM webapp_worker"))
    articles = whole.data / "sources" / "articles.jsonl"
    articles.parent.mkdir()
    articles.write_text(
        "".join(json.dumps({"id": t, "title": t, "text": f"{x} More."}) + "\n" for t, x in ARTICLES.items())
    )
    admin = whole.tokens["admin"]
    with asking(whole.asker(), 2) as askers:
        assert "ratelimit" in whole.call("POST", "/api/v1/ask", {"question": QUESTIONS[0]})[1]
        whole.stop_broker()
        status, headers, _ = whole.call("POST", "/api/v1/ask", {"question": QUESTIONS[0]})
        assert status == 201 and "ratelimit" not in headers
        assert whole.call("GET", "/readyz")[0] == 200
        parameters = {"source": "jsonl", "file": articles.name, "corpus_name": "again"}
        started_at = time.monotonic()
        status, _, content = whole.call("POST", "/api/v1/jobs", {"kind": "ingest", "parameters": parameters}, admin)
        assert status == 201, content
        assert time.monotonic() - started_at < 5
        path = f"/api/v1/jobs/{json.loads(content)['id']}"
        wait_until(lambda: whole.rows("SELECT state, sent_at FROM webapp_job") == [("queued", None)])
        whole.start_broker()
        wait_until(lambda: json.loads(whole.call("GET", path, token=admin)[2])["state"] == "succeeded")
        assert "ratelimit" in whole.call("POST", "/api/v1/ask", {"question": QUESTIONS[0]})[1]
    assert {one.status for one in askers.since(0)} == {201}
    assert whole.rows("SELECT attempt FROM webapp_job") == [(1,)]
    assert whole.rows("SELECT count(*) FROM webapp_corpussnapshot WHERE name = 'again'") == [(1,)]
    told = "".join(path.read_text() for path in whole.data.parent.glob("*.log"))
    assert f":{whole.broker.port}" in told and whole.broker.password not in told


@pytest.mark.timeout(600)
@pytest.mark.nightly  # web/test_backups.py backs up and restores every day, without a site that is in use
def test_a_backup_while_people_ask_keeps_every_link(whole: Site, tmp_path: Path) -> None:
    """Restored into SQLite, and from there into another PostgreSQL, every answer is the same to the byte."""
    critic = Critic(whole)
    with asking(critic), asking(whole.asker(), 2) as askers:
        wait_until(lambda: len(critic.said) >= 5)
        given = [one.answered_by for one in askers.since(0) if one.status == 201]
        said = list(critic.said)
        whole.run("manage.py", "backup", str(tmp_path / "0.tar"))
    first = kept(whole, [*given, *said])
    assert len(first["said"]) == len(said)
    for answer, content in first["answers"].items():
        assert whole.call("GET", f"/api/v1/answers/{answer}")[2].decode() == content
    whole.execute("CREATE DATABASE another")
    urls = [migrated(tmp_path / "db.sqlite3"), f"{whole.database.url.removesuffix('postgres')}another"]
    for number, url in enumerate(urls):
        there = {"REALM_DATA": str(tmp_path / f"data-{number}"), "DATABASE_URL": url}
        migrate, restore = ["migrate", "--no-input", "--verbosity=0"], ["restore", str(tmp_path / f"{number}.tar")]
        backup = ["backup", str(tmp_path / f"{number + 1}.tar")]
        assert kept(whole, [*given, *said], migrate, restore, backup, **there) == first
