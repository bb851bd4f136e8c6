"""What is counted of questions, who may see it, and what the log says."""

from __future__ import annotations

import json
import logging
import os
import re
import socket
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.db import OperationalError
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from realm_core.errors import EngineUnavailable
from tests.web.asked import ask as ask_here
from tests.web.conftest import FakeEngine, Loader, Person
from tests.web.pages import stored
from webapp import request_id
from webapp.access.collections import CollectionAccess
from webapp.asking import service as asking
from webapp.logs import JSONLines, TextLines
from webapp.metrics.middleware import Asking
from webapp.models import FETCH_QUEUE, ApiToken, AskedAnswer, Job, JobMetric, JobState, Scheduler, WebProcess, Worker

ELSEWHERE = "203.0.113.7"


def read(client: Client, **headers: Any) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    response = client.get("/metrics", **headers)
    assert response.status_code == 200
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(response.content.decode())
        for sample in family.samples
    }


def ask(client: Client, question: str = "Who directed it?") -> dict[str, Any]:
    response = client.post("/api/v1/ask", json.dumps({"question": question}), content_type="application/json")
    body: dict[str, Any] = response.json()
    return body


def test_questions_are_counted_by_what_came_of_them(engine: FakeEngine, outsider: Person) -> None:
    client = outsider.client
    before = read(client)

    def more(name: str, **labels: str) -> float:
        key = (name, tuple(sorted(labels.items())))
        return now.get(key, 0.0) - before.get(key, 0.0)

    ask(client)
    ask(client)  # a repeat
    engine.value = stored.payload(explains="no_answer")
    ask(client, "Who did not?")
    engine.error = EngineUnavailable("128 questions are waiting already.", retry_after_s=7)
    refused = client.post("/api/v1/ask", '{"question": "Too many?"}', content_type="application/json")
    assert (refused.status_code, refused["Retry-After"]) == (503, "7")
    now = read(client)
    assert more("realm_questions_total", outcome="answered") == 2
    assert more("realm_questions_total", outcome="abstained") == 1
    assert more("realm_questions_total", outcome="refused") == 1
    assert more("realm_repeated_questions_total") == 1
    assert more("realm_question_seconds_count") == 3
    for stage in ("embed", "search", "read", "marginalise"):
        assert more("realm_stage_seconds_count", stage=stage) == 2  # not of the repeat
    for stage in ("store", "render"):
        assert more("realm_stage_seconds_count", stage=stage) == 3


def test_questions_that_nothing_is_there_to_answer_are_counted_as_refused(outsider: Person, loader: Loader) -> None:
    """Nothing is deployed, and a batch is refused as a whole or, where that changes under way, question by question."""
    outcome = ("realm_questions_total", (("outcome", "refused"),))
    before = read(outsider.client).get(outcome, 0.0)
    assert ask(outsider.client)["status"] == 503
    told = list(
        asking.ask_many([*(asking.checked(one, access=CollectionAccess()) for one in ("Who?", "When?")), KeyError()])
    )
    assert [type(one) for one in told] == [EngineUnavailable, EngineUnavailable, KeyError]
    assert read(outsider.client)[outcome] - before == 3


def test_storing_is_a_stage_of_each_question_of_a_batch(engine: FakeEngine, outsider: Person) -> None:
    stages = [("realm_stage_seconds_count", (("stage", stage),)) for stage in ("read", "store")]
    before = read(outsider.client)
    body = json.dumps({"questions": ["Who?", "When?", ""]})
    assert outsider.client.post("/api/v1/ask/batch", body, content_type="application/json").status_code == 200
    now = read(outsider.client)
    assert [now[stage] - before.get(stage, 0.0) for stage in stages] == [2, 2]


def test_a_question_can_be_taken_apart_afterwards(
    engine: FakeEngine, outsider: Person, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "webapp.metrics.middleware")
    caplog.handler.setFormatter(JSONLines())
    body = ask(outsider.client)
    kept = AskedAnswer.objects.get(pk=body["id"])
    assert kept.serving_ms.keys() == {"store", "render"} and min(kept.serving_ms.values()) > 0
    assert kept.payload["timings_ms"] == stored.payload()["timings_ms"]  # what the engine said stays as it was
    (told,) = (json.loads(line) for line in caplog.text.splitlines() if " took " in line)
    assert told["stages_ms"] == {**kept.payload["timings_ms"], **kept.serving_ms}
    assert told["answer_id"] == body["id"] and told["latency_ms"] == kept.latency_ms
    page = outsider.client.get(reverse("answer", args=[kept.pk])).content.decode()
    for stage in ("Reading the passages", "Storing the answer", "Writing the page or the JSON"):
        assert stage in page


def test_the_seconds_of_storing_are_kept_with_the_answer(engine: FakeEngine, outsider: Person) -> None:
    """The time of rendering is known only afterwards: a header has it, and no later response of this address."""
    body = {"question": "Who directed it?"}
    response = outsider.client.post("/api/v1/ask", body, content_type="application/json")
    told = response.json()
    stages = dict(one.split(";dur=") for one in response["Server-Timing"].split(", "))
    assert stages.keys() == {"store", "render"} and told["serving_ms"].keys() == {"store"}
    assert float(stages["store"]) == pytest.approx(told["serving_ms"]["store"], abs=0.06)
    address = f"/api/v1/answers/{told['id']}"
    first = outsider.client.get(address)
    assert first.json() == told and "Server-Timing" not in first
    AskedAnswer.objects.filter(pk=told["id"]).update(serving_ms={**told["serving_ms"], "render": 1e6})
    assert outsider.client.get(address, headers={"If-None-Match": first["ETag"]}).status_code == 304
    assert outsider.client.get(f"{address}?without={stored.ODYSSEY[0].block_id}").json()["serving_ms"]
    assert outsider.client.get(f"/api/v1/answers/{stored.store().pk}").json()["serving_ms"] == {}


def test_an_answer_for_the_command_line_says_what_storing_took(engine: FakeEngine) -> None:
    asked = ask_here("Who directed it?")
    assert AskedAnswer.objects.get(pk=asked.pk).serving_ms == asked.serving_ms and asked.serving_ms.keys() == {"store"}


def test_exact_repeats_are_not_computed_again(engine: FakeEngine, outsider: Person, settings: Any) -> None:
    first, again, other = (ask(outsider.client, question) for question in ("Who?", " Who? ", "Who else?"))
    assert [question for question, *_ in engine.asked] == ["Who?", "Who else?"]
    assert first["id"] != again["id"]  # a link of its own
    same = ("question", "answer", "evidence", "model", "index", "corpus")
    assert {name: first[name] for name in same} == {name: again[name] for name in same}
    assert again["timings_ms"].keys() == {"repeat"} and again["latency_ms"] == again["timings_ms"]["repeat"]
    assert other["timings_ms"].keys() != {"repeat"}
    pages = [outsider.client.get(f"/answers/{told['id']}/").content.decode() for told in (first, again)]
    assert ["passages read a short while ago" in page for page in pages] == [False, True]  # nothing was read in "0 ms"
    for options in ({"k": 2}, {"exclude": ["0" * 32]}):
        body = json.dumps({"question": "Who?", **options})
        told = outsider.client.post("/api/v1/ask", body, content_type="application/json").json()
        assert told["timings_ms"].keys() != {"repeat"}


def test_metrics_of_jobs_are_read_from_records(engine: FakeEngine, outsider: Person) -> None:
    job = Job.objects.create(kind="pretrain", parameters={}, state=JobState.RUNNING)
    for step, lag in ((10, 5.0), (20, 9.0)):
        values = {"pretrain.loss": 1.0, "pretrain.index_lag_steps": lag, "pretrain.index_lag_s": 2 * lag}
        JobMetric.objects.create(job=job, step=step, time=job.queued_at, values=values)
        JobMetric.objects.create(job=job, step=step, time=job.queued_at, values={"pretrain.held_out.loss": 1.0})
    now = read(outsider.client)
    assert now["realm_jobs", (("kind", "pretrain"), ("state", "running"))] == 1
    assert now["realm_index_lag_steps", (("job", str(job.pk)),)] == 9
    assert now["realm_index_lag_seconds", (("job", str(job.pk)),)] == 18
    assert now["realm_deployment", ()] == engine.deployment_id


@pytest.mark.django_db
def test_strangers_see_no_metrics(outsider: Person, member: Person, staff: Person, settings: Any) -> None:
    settings.METRICS_OPEN = False
    far: Any = {"REMOTE_ADDR": ELSEWHERE}
    _, operating = ApiToken.issue(staff.user, "Prometheus", ["operate"])
    _, measuring = ApiToken.issue(staff.user, "Prometheus alone", ["metrics"])
    _, asking = ApiToken.issue(staff.user, "asks", ["ask"])
    _, of_member = ApiToken.issue(member.user, "not an admin", ["metrics", "operate"])
    refused: list[tuple[Client, dict[str, Any]]] = [
        (outsider.client, far),
        (member.client, far),
        (outsider.client, {**far, "HTTP_AUTHORIZATION": f"Bearer {asking}"}),
        (outsider.client, {**far, "HTTP_AUTHORIZATION": f"Bearer {of_member}"}),
        (outsider.client, {**far, "HTTP_AUTHORIZATION": "Bearer realm_guess"}),
        (outsider.client, {"REMOTE_ADDR": "127.0.0.1"}),  # which may be a proxy on this machine
    ]
    for client, extra in refused:
        response = client.get("/metrics", **extra)
        assert response.status_code == 403 and b"realm_" not in response.content
    for token in (operating, measuring):
        assert read(outsider.client, **far, HTTP_AUTHORIZATION=f"Bearer {token}")
    assert read(staff.client, **far)
    settings.METRICS_OPEN = True
    assert read(outsider.client, **far)


def test_the_dashboard_and_the_alerts_use_metrics_that_exist(engine: FakeEngine, outsider: Person) -> None:
    ask(outsider.client)
    Job.objects.create(kind="index", parameters={}, state=JobState.SUCCEEDED)
    response = outsider.client.get("/metrics")
    families = {family.name: family.type for family in text_string_to_metric_families(response.content.decode())}
    there = {
        name + ending
        for name, kind in families.items()
        for ending in {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}.get(kind, ("",))
    }
    docs = Path(__file__).resolve().parents[2] / "docs"
    (alerts,) = yaml.safe_load((docs / "alerts.yaml").read_text(encoding="utf-8"))["groups"]
    for expressions in (
        _expressions(json.loads((docs / "grafana.json").read_text(encoding="utf-8"))),
        [rule["expr"] for rule in alerts["rules"]],
    ):
        shown = set(re.findall(r"realm_[a-z_]+", " ".join(expressions)))
        assert shown and shown <= there


def test_what_is_alerted_on(engine: FakeEngine, outsider: Person) -> None:
    now, long_ago = timezone.now(), timezone.now() - timedelta(minutes=10)
    Job.objects.create(kind="index", parameters={}, state=JobState.SUCCEEDED)
    Job.objects.create(kind="of an earlier version", parameters={}, state=JobState.FAILED)
    Scheduler.objects.create(name="a:1", host="a", seen_at=long_ago)
    for name, queue in (("a:5", "default"), ("a:6", FETCH_QUEUE), ("a:7", FETCH_QUEUE)):
        Worker.objects.create(name=name, host="a", queues=[queue], slots=1)
    for name, deployment, seen in (("a:2", engine.deployment_id, now), ("a:3", None, now), ("a:4", None, long_ago)):
        WebProcess.objects.create(name=name, host="a", state="ready", deployment_id=deployment, seen_at=seen)
    told = read(outsider.client)
    assert told["realm_jobs", (("kind", "index"), ("state", "failed"))] == 0
    assert told["realm_jobs", (("kind", "ingest"), ("state", "failed"))] == 0  # before there is one of its kind
    assert told["realm_jobs", (("kind", "of an earlier version"), ("state", "failed"))] == 1
    assert told["realm_schedulers", ()] == 0
    assert (told["realm_workers", ()], told["realm_fetchers", ()]) == (1, 2)
    assert [told["realm_web_processes", (("state", state),)] for state in ("ready", "behind")] == [1, 1]
    assert 0 < told["realm_data_free_bytes", ()] < told["realm_data_size_bytes", ()]
    assert all(("realm_questions_total", (("outcome", one),)) in told for one in ("refused", "failed"))


@pytest.mark.django_db
def test_without_a_database_nobody_is_called_a_stranger(
    outsider: Person, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.METRICS_OPEN = False

    def away(_given: str) -> ApiToken | None:
        raise OperationalError

    monkeypatch.setattr(ApiToken, "of", away)
    response = outsider.client.get("/metrics", headers={"Authorization": "Bearer realm_1"})
    assert (response.status_code, response["Retry-After"]) == (503, "5")


def _expressions(dashboard: dict[str, Any]) -> list[str]:
    return [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]


def test_several_processes_count_together(tmp_path: Path) -> None:
    """Two processes that are gone, and one that tells: as web processes of one server do."""
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    count = "from webapp import metrics; metrics.REPEATS.inc(3); metrics.WAITING.set(4)"
    for _ in range(2):
        subprocess.run([sys.executable, "-c", count], env=environment, check=True)
    for left in tmp_path.glob("gauge_livesum_*"):  # as `child_exit` of webapp/server.py does
        left.unlink()
    tell = "from webapp import metrics; metrics.WAITING.set(2); print(metrics.exposition().decode())"
    told = subprocess.run([sys.executable, "-c", tell], env=environment, check=True, capture_output=True, text=True)
    lines = told.stdout.splitlines()
    assert "realm_repeated_questions_total 6.0" in lines and "realm_waiting_questions 2.0" in lines


@pytest.mark.parametrize("close", [True, False])
def test_a_closed_connection_is_noticed(close: bool) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        current = Asking(ours)
        assert current.listens()
        theirs.sendall(b"GET / HTTP/1.1")  # the next request, already
        assert current.listens() and current.listens()
        ours.recv(100)
        (theirs.close if close else lambda: theirs.shutdown(socket.SHUT_RDWR))()
        assert not current.listens()
    assert not current.listens()  # the server closed it
    assert Asking(None).listens()


def record(message: str, **extra: Any) -> logging.LogRecord:
    made = logging.getLogger("test").makeRecord(
        "webapp.serving.engine", logging.INFO, __file__, 1, message, ("x",), None
    )
    made.__dict__.update(extra)
    return made


def test_log_lines_name_request_answer_and_job() -> None:
    request_id.set_request_id("r-1")
    request_id.set_answer_id("a-1")
    request_id.set_job_id("j-1")
    try:
        line = JSONLines().format(record("said %s\nand more", fields={"status": 200}))
        assert "\n" not in line
        told = json.loads(line)
        assert told.pop("time").endswith("+00:00")
        assert told == {
            "level": "INFO",
            "logger": "webapp.serving.engine",
            "message": "said x\nand more",
            "status": 200,
            "request_id": "r-1",
            "answer_id": "a-1",
            "job_id": "j-1",
        }
        said = TextLines("{levelname} {message}", style="{").format(record("said %s\nand more"))
        assert said == r"INFO said x\nand more [request_id=r-1 answer_id=a-1 job_id=j-1]"
        request_id.set_request_id("r-2")  # another request: no answer yet
        assert "answer_id" not in json.loads(JSONLines().format(record("said %s")))
    finally:
        request_id.set_request_id("")
        request_id.set_job_id("")
    assert JSONLines().format(record("said %s")).count("_id") == 0
    assert TextLines("{message}", style="{").format(record("said %s")) == "said x"


def test_an_error_is_in_its_line() -> None:
    try:
        raise KeyError("gone")
    except KeyError:
        line = JSONLines().format(record("said %s", exc_info=sys.exc_info()))
    assert "KeyError: 'gone'" in json.loads(line)["error"]
