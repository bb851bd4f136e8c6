"""A real web server under faults: too many askers, who hang up, an engine that does not get on, damaged files, its
death, a clock that is set.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from benchmarks.askers import Askers, asker, operate
from benchmarks.web import request, server, serving
from realm_client import Client
from tests import forked
from tests.nightly import NIGHTLY
from tests.tiny import QUESTIONS
from tests.waiting import alive, wait_until
from tests.workers.work import deployed_pair, rival_of
from webapp.deployments.service import check
from webapp.models import ApiToken, AskedAnswer, Deployment, Feedback, IdempotencyKey, IndexGeneration
from webapp.rest import idempotency
from workers.guards import HOST
from workers.services import web

HOUR_S = 3600
THINKS_S = 0.2  # without a pause the askers would take the processors from the other tests
PATIENT = "A patient question"


@pytest.fixture
def deployed(database_url: str, tmp_path: Path) -> IndexGeneration:
    return deployed_pair(tmp_path)


def hang_up(port: int, question: str) -> None:
    """Ask, and close the connection without waiting."""
    body = json.dumps({"question": question}).encode()
    head = f"POST /api/v1/ask HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    with socket.create_connection((HOST, port)) as asking:
        asking.sendall(head.encode() + b"\r\n\r\n" + body)


def put(path: Path, content: bytes) -> None:
    """Another file in the place of this one; whoever has that open keeps it."""
    other = path.with_name("other")
    other.write_bytes(content)
    other.replace(path)


def one_bit_flipped(content: bytes) -> bytes:
    return content[:-1] + bytes([content[-1] ^ 1])


def cut_short(content: bytes) -> bytes:
    return content[: len(content) // 2]


def metric(port: int, sample: str) -> float:
    """One line of /metrics; 0 where there is none."""
    for line in request(port, "GET", "/metrics")[2].decode().splitlines():
        if line.startswith(f"{sample} "):
            return float(line.rpartition(" ")[2])
    return 0.0


def answering(master: int) -> int:
    """The web process that answers."""
    return int(Path(f"/proc/{master}/task/{master}/children").read_text(encoding="utf-8").split()[0])


def sockets(pid: int) -> int:
    """How many a process has open."""
    count = 0
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            count += str(path.readlink()).startswith("socket:")
    return count


def given_up(port: int, hold: Path) -> None:
    """A question past its deadline is, also one that is being computed; its asker is told so, and when to come back."""
    asked = {"question": QUESTIONS[0], "k": 3}
    hold.touch()
    with ThreadPoolExecutor(3) as threads:
        began = time.monotonic()
        paths = [f"/api/v1/{path}" for path in ("ask", "retrieve", "ask")]
        told = [threads.submit(request, port, "POST", path, asked) for path in paths]
        assert request(port, "GET", "/healthz")[0] == 200
        for status, headers, content in [one.result() for one in told]:
            assert (status, headers["content-type"]) == (503, "application/problem+json")
            assert 1 <= int(headers["retry-after"]) <= 2
            problem = json.loads(content)
            assert (problem["status"], problem["title"]) == (503, "Service Unavailable")
            assert "no answer within 2 seconds" in problem["detail"]
        assert time.monotonic() - began >= 2
    batch = request(port, "POST", "/api/v1/ask/batch", {"questions": [QUESTIONS[0]]})
    (result,) = json.loads(batch[2])["results"]
    assert result["problem"]["status"] == 503 and 1 <= result["problem"]["retry_after_s"] <= 2
    kept = AskedAnswer.objects.count()
    hold.unlink()
    wait_until(lambda: asker(port, "id", k=3)(QUESTIONS[0])[0] == 201)
    assert AskedAnswer.objects.count() == kept + 1  # nothing is kept of what was given up


@pytest.mark.nightly  # attacks/test_server.py has the rude, test_deploy_under_load.py the crowd
@pytest.mark.timeout(600)
def test_the_crowd_the_rude_the_late_and_the_damaged(
    web_environment: dict[str, str], deployed: IndexGeneration, tmp_path: Path
) -> None:
    limited = {**web_environment, "ASK_QUEUE": "2", "ASK_DEADLINE_S": "2"}
    with server(limited, tmp_path / "web.log", forked.start, application="tests.workers.held_wsgi") as (process, port):
        ask = asker(port, "id", k=3)
        wait_until(lambda: ask(QUESTIONS[0])[0] == 201)
        given_up(port, tmp_path / "hold")

        refused = 'realm_questions_total{outcome="refused"}'
        earlier = metric(port, refused)
        # More askers than may wait: answered, or sent away with a time; nothing else, and everything else goes on.
        with Askers(ask, QUESTIONS, count=16) as askers:
            time.sleep(1)
            assert request(port, "GET", "/healthz")[0] == 200
        everything = askers.since(0)
        assert {one.status for one in everything} == {201, 503}
        assert all(int(one.answered_by) >= 1 for one in everything if one.status == 503)
        assert metric(port, refused) - earlier == sum(one.status == 503 for one in everything)

        # Askers who hang up at once leave neither a place in the line nor a connection behind.
        pid = answering(process.pid)
        open_before = sockets(pid)
        for number in range(30):
            hang_up(port, f"{QUESTIONS[0]} {number}")
        wait_until(lambda: metric(port, "realm_waiting_questions") == 0)
        wait_until(lambda: sockets(pid) <= open_before + 16)  # the pool of connections to PostgreSQL may have grown
        wait_until(lambda: ask(QUESTIONS[0])[0] == 201)  # the last of them may still have been on their way

        # A pair that was damaged after it was looked at: the last good one goes on answering.
        second = rival_of(deployed, tmp_path)
        folder, rival, corpus = (tmp_path / one.path for one in (second, second.model, deployed.corpus))

        def told() -> str:
            status, _, body = request(port, "GET", "/readyz")
            assert status == 200
            return str(json.loads(body).get("reason", ""))

        def index_answering() -> str:
            status, answer_id = ask(QUESTIONS[1])
            return str(AskedAnswer.objects.get(pk=answer_id).payload["index"]) if status == 201 else f"status {status}"

        vectors = folder / "vectors-00000.safetensors"
        files = [vectors, rival / "model.safetensors", corpus / "blocks.arrow"]
        records = [folder / "manifest.json", corpus / "manifest.json", rival / "config.json"]
        # No two after one another have the same reason. At night each file has each damage.
        damages = [(vectors, one_bit_flipped), (rival / "config.json", cut_short)]
        if NIGHTLY:
            damages = [(path, damage) for damage in (one_bit_flipped, cut_short) for path in (*files, *records)]
        for path, damage in damages:
            whole = path.read_bytes()
            put(path, damage(whole))
            Deployment.activate(second, model=second.model)
            wait_until(lambda path=path: str(path) in told())
            assert index_answering() == deployed.generation
            put(path, whole)
        assert metric(port, 'realm_deployment_load_seconds_count{outcome="failed"}') >= len(damages)

        # And if the active pair's files are cut short where they lie, and the process that answers dies.
        Deployment.activate(second, model=second.model)
        wait_until(lambda: index_answering() == second.generation)
        os.truncate(vectors, vectors.stat().st_size // 2)
        os.kill(answering(process.pid), signal.SIGKILL)
        wait_until(lambda: index_answering() == deployed.generation)
        assert str(vectors) in told()

    lines = [json.loads(line) for line in (tmp_path / "web.log").read_text(encoding="utf-8").splitlines()]
    requests = [line for line in lines if line["message"] == "request" and line["path"] == "/api/v1/ask"]
    assert requests and all(line["request_id"] and line["ms"] > 0 for line in requests)
    assert all(("serving_ms" in line) == (line["status"] == 201) for line in requests)


@contextlib.contextmanager
def patient_askers(port: int) -> Iterator[list[str]]:
    """Two threads that ask one question after another with the Python client, and the answers' ids. None may fail."""
    answers: list[str] = []
    over = threading.Event()

    def ask(name: int) -> None:
        with Client(f"http://{HOST}:{port}") as realm:
            number = 0
            while not over.wait(THINKS_S):
                answers.append(realm.ask(f"{PATIENT} {name}, {number}", k=3).id)
                number += 1

    with ThreadPoolExecutor(2) as threads:
        asking = [threads.submit(ask, name) for name in range(2)]
        try:
            yield answers
        finally:
            over.set()
        for one in asking:
            one.result()


def critic(port: int, token: str, said: dict[str, str]) -> Callable[[str], tuple[int, str]]:
    """Asks, then says what is wrong with the answer until that is acknowledged. said: answer → what was said of it."""
    ask = asker(port, "id", k=3)

    def ask_and_say(question: str) -> tuple[int, str]:
        status, answer = ask(question)
        if status == 201:
            word = {"right": False, "better_answer": f"Better than {answer}"}
            path = f"/api/v1/answers/{answer}/feedback"
            wait_until(lambda: request(port, "POST", path, word, token)[0] in (200, 201))
            said[answer] = f"Better than {answer}"
        return status, answer

    return ask_and_say


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("deployed")
def test_killed_under_load_it_loses_and_doubles_nothing(web_environment: dict[str, str], tmp_path: Path) -> None:
    """First the process that answers, which its parent starts again; then the parent, and a server begins anew."""
    _, token = ApiToken.issue(User.objects.create_user("Cora"), "test", ["feedback"])
    said: dict[str, str] = {}
    with (
        server(web_environment, tmp_path / "web.log", forked.start) as (process, port),
        Askers(asker(port, "id", k=3), QUESTIONS, count=4, thinks_s=THINKS_S) as askers,
        contextlib.ExitStack() as others,
    ):
        critics = others.enter_context(Askers(critic(port, token, said), QUESTIONS, count=2, thinks_s=THINKS_S))

        def answers_again() -> None:
            now = time.perf_counter()
            wait_until(lambda: sum(one.status == 201 for one in askers.since(now) if one.at > now) >= 8)

        answers_again()
        os.kill(answering(process.pid), signal.SIGKILL)
        answers_again()
        patient = others.enter_context(patient_askers(port))
        wait_until(lambda: len(patient) >= 6)
        orphan = answering(process.pid)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        wait_until(lambda: not alive(orphan))  # it finishes what it has begun, and holds the port meanwhile
        # What was under way when its server died is waited for; here that minute is over.
        IdempotencyKey.objects.filter(answer=None).update(since=timezone.now() - 2 * idempotency.longest())
        with serving(web(port).command, port, web_environment, tmp_path / "web-again.log", forked.start):
            answers_again()
            others.close()  # when each has the answer to its last question, and its last word is acknowledged
    told = askers.since(0) + critics.since(0)
    given = [one.answered_by for one in told if one.status == 201]
    assert len(given) == len(set(given)) >= 30 and {one.status for one in told} <= {0, 201, 503}
    kept = {str(answer.pk): answer for answer in AskedAnswer.objects.prefetch_related("evidence")}
    assert set(given) <= set(kept)
    own = {key: value for key, value in kept.items() if value.question.startswith(PATIENT)}
    assert sorted(patient) == sorted(own) and len(own) == len({one.question for one in own.values()})
    assert len(kept) <= len(given) + len(own) + 3 * 6  # those whose asker died waiting for the last byte
    assert {answer.evidence.count() for answer in kept.values()} == {3}
    words = [(str(answer), word) for answer, word in Feedback.objects.values_list("answer", "better_answer")]
    assert sorted(words) == sorted(said.items()) and len(said) >= 5


@pytest.mark.nightly  # test_clock_faults.py sets a worker's every day
@pytest.mark.timeout(600)
def test_questions_are_answered_while_the_clock_is_set(
    web_environment: dict[str, str], deployed: IndexGeneration, tmp_path: Path
) -> None:
    second = rival_of(deployed, tmp_path)
    _, token = ApiToken.issue(User.objects.create_user("Stella", is_staff=True), "test", ["operate"])
    clock = tmp_path / "clock"
    clock.write_text("0")
    limited = {**web_environment, "ASK_RATE": "1000000/hour", "ASK_CACHE_S": "300"}
    ahead_s = (HOUR_S, 0, -HOUR_S, 400 * 24 * HOUR_S, -HOUR_S)
    with (
        server(limited, tmp_path / "web.log", forked.start, application="tests.workers.jumping_web") as (_, port),
        patient_askers(port) as answers,
        Client(f"http://{HOST}:{port}") as realm,
    ):
        for number, seconds in enumerate(ahead_s):
            key = f"key-{number}"
            before = realm.ask(QUESTIONS[0], idempotency_key=key).id
            clock.write_text(str(seconds))
            done = len(answers)
            wait_until(lambda done=done: len(answers) >= done + 3)
            # The same key has the same answer still, unless it has become too old by the clock.
            assert (realm.ask(QUESTIONS[0], idempotency_key=key).id == before) is (seconds <= HOUR_S)
            status, headers, _ = request(port, "POST", "/api/v1/ask", {"question": QUESTIONS[1]})
            assert status == 201 and 1 <= int(headers["ratelimit"].partition("t=")[2]) <= HOUR_S
            # Another pair is taken up, though its deployment may be older than the one before it.
            pair = (second, deployed)[number % 2]
            operate(port, token, "deployments", {"index": pair.pk, "confirm": check(pair).digest})
            wait_until(lambda pair=pair: realm.ask(QUESTIONS[2]).index == pair.generation)
    kept = AskedAnswer.objects.filter(question__startswith=PATIENT).values_list("pk", flat=True)
    assert sorted(map(str, kept)) == sorted(answers)
    # The latest is the one that answers, whatever the clock said when.
    assert [one.is_active for one in Deployment.objects.all()] == [True, *[False] * len(ahead_s)]
