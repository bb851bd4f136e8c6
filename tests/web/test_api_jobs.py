"""Jobs over REST."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from tests.web.conftest import Person
from tests.web.operating import TokenClient, job, post, problem, question_set, walk
from webapp.kinds import KINDS
from webapp.models import AuditEntry, IndexGeneration, Job, JobMetric, JobState, Purpose


def building(index: IndexGeneration, **more: Any) -> dict[str, Any]:
    return {"kind": "index", "parameters": {"model": index.model_id, "corpus": index.corpus_id, **more}}


def test_start(program: TokenClient, index: IndexGeneration, staff: Person) -> None:
    response = post(program, "jobs", building(index, shard_rows=1000))
    body = response.json()
    assert response.status_code == 201
    assert response["Location"] == f"http://testserver/api/v1/jobs/{body['id']}"
    started = Job.objects.get()
    assert (body["state"], body["queue"], body["created_by"], body["title"]) == (
        *("queued", "index", "Stella"),
        "build an index",
    )
    assert body["parameters"] == started.parameters
    assert body["parameters"]["shard_rows"] == 1000 and body["parameters"]["model"] == index.model_id
    assert program.get(response["Location"]).json() == body
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.by, entry.job) == ("job.start", staff.user, started)
    assert entry.details == {"parameters": started.parameters}


def test_a_duplicate_leads_to_the_running_job(program: TokenClient, index: IndexGeneration) -> None:
    first = post(program, "jobs", building(index))
    told = problem(post(program, "jobs", building(index)), 409)
    assert told["job"] == first["Location"] and program.get(told["job"]).json()["id"] == first.json()["id"]
    assert Job.objects.count() == 1


def test_wrong_parameters_are_all_named(program: TokenClient, index: IndexGeneration) -> None:
    told = problem(post(program, "jobs", building(index, model=10**9, shard_rows=0, speed="fast")), 400)
    assert {error["field"] for error in told["errors"]} == {
        *("parameters.model", "parameters.shard_rows", "parameters.speed"),
    }
    assert not Job.objects.exists()


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"kind": "refresh", "parameters": {}}, "kind"),
        ({"kind": "nonsense", "parameters": {}}, "kind"),
        ({"kind": 7, "parameters": {}}, "kind"),
        ({"kind": "index"}, "parameters"),
        ({"kind": "index", "parameters": []}, "parameters"),
        ({"kind": "index", "parameters": {}, "queue": "train"}, "queue"),
        ({"kind": "index", "parameters": {}, "settings_of": "x"}, "settings_of"),
        ({"kind": "index", "parameters": {}, "settings_of": "0b6f2f5e-3a64-4d0c-9a51-6a0f3a1c7c55"}, "settings_of"),
        ([], ""),
    ],
)
def test_what_is_no_job(program: TokenClient, body: Any, field: str) -> None:
    assert field in {error["field"] for error in problem(post(program, "jobs", body), 400)["errors"]}


def test_settings_of_an_earlier_job(program: TokenClient, index: IndexGeneration) -> None:
    earlier = post(program, "jobs", building(index, shard_rows=7)).json()
    again = {"kind": "index", "parameters": {"shard_rows": 8}, "settings_of": earlier["id"]}
    body = post(program, "jobs", again).json()
    assert body["parameters"] == earlier["parameters"] | {"shard_rows": 8}
    assert body["settings_of"] == earlier["id"]
    other = {"kind": "ingest", "parameters": {}, "settings_of": earlier["id"]}
    problem(post(program, "jobs", other), 400)


def test_settings_that_an_upgrade_removed_are_left_behind(program: TokenClient, index: IndexGeneration) -> None:
    inputs = {"model": index.model_id, "corpus": index.corpus_id}
    earlier = job(parameters={**inputs, "shard_rows": 7, "of_an_earlier_version": 1})
    body = post(program, "jobs", {"kind": "index", "parameters": {}, "settings_of": str(earlier.pk)}).json()
    assert body["parameters"] == {**inputs, "shard_rows": 7, "search": "auto"}
    told = post(program, "jobs", {"kind": "index", "parameters": {"of_an_earlier_version": 1}})
    assert "is no parameter" in str(problem(told, 400))  # but not what somebody says now


def test_stop_and_resume(program: TokenClient, index: IndexGeneration) -> None:
    address = f"jobs/{post(program, 'jobs', building(index)).json()['id']}"
    assert post(program, f"{address}/stop").json()["state"] == "stopped"
    assert "nothing to stop" in problem(post(program, f"{address}/stop"), 409)["detail"]
    assert post(program, f"{address}/resume").json()["state"] == "queued"
    assert "cannot be resumed" in problem(post(program, f"{address}/resume"), 409)["detail"]
    post(program, f"{address}/stop")
    other = post(program, "jobs", building(index))
    assert problem(post(program, f"{address}/resume"), 409)["job"] == other["Location"]
    problem(post(program, f"{address}/stop", {"now": True}), 400)
    actions = AuditEntry.objects.order_by("pk").values_list("action", flat=True)
    assert list(actions) == ["job.start", "job.stop", "job.resume", "job.stop", "job.start"]


def test_list(program: TokenClient) -> None:
    failed = job(state=JobState.FAILED)
    jobs = [failed, *(job(kind="ingest") for _ in range(6))]
    assert ids(program.get("/api/v1/jobs").json()) == [str(one.pk) for one in reversed(jobs)]
    assert ids(program.get("/api/v1/jobs?state=failed&kind=index").json()) == [str(failed.pk)]
    assert ids(program.get("/api/v1/jobs?state=failed&kind=ingest").json()) == []
    pages = list(walk(program, "/api/v1/jobs?kind=ingest&page_size=4"))
    assert [len(page["results"]) for page in pages] == [4, 2]
    assert [one for page in pages for one in ids(page)] == [str(one.pk) for one in reversed(jobs[1:])]
    job()  # what is new moves nothing
    assert program.get(pages[1]["previous"]).json()["results"] == pages[0]["results"]


@pytest.mark.parametrize(
    "parameter",
    ["state=x", "kind=x", "cursor=x", "cursor=cD14", "cursor=cD05OTk5LTEyLTMxVDIzOjU5OjU5LTIzOjAw", "page_size=0",
     "page_size=x", "page_size=501", "nonsense=1"],
)  # fmt: skip
def test_parameters_of_the_list_are_checked(program: TokenClient, parameter: str) -> None:
    job()
    assert problem(program.get(f"/api/v1/jobs?{parameter}"), 400)["errors"][0]["field"] == parameter.split("=")[0]


def test_progress_last_metrics_parts_and_what_was_made(program: TokenClient, index: IndexGeneration) -> None:
    running = job(state=JobState.RUNNING, progress={"done": 3, "total": 4})
    part = job(kind="index-shard", parent=running)
    for step in (10, 20):
        JobMetric.objects.create(job=running, step=step, time=timezone.now(), values={"loss": 1 / step})
    IndexGeneration.objects.update(job=running)
    body = program.get(f"/api/v1/jobs/{running.pk}").json()
    assert body["progress"] == {"done": 3, "total": 4}
    assert (body["last_metrics"]["step"], body["last_metrics"]["values"]) == (20, {"loss": 0.05})
    assert body["parts"] == [{"id": str(part.pk), "kind": "index-shard", "state": "queued"}]
    assert body["made"] == {"corpora": [], "models": [], "indexes": [index.pk], "span_sets": [], "evaluations": []}
    assert program.get(f"/api/v1/jobs/{part.pk}").json()["parent"] == str(running.pk)


def test_metrics_are_followed_by_cursor(program: TokenClient) -> None:
    running, other = job(), job()
    address = f"/api/v1/jobs/{running.pk}/metrics"
    assert program.get(address).json() == {"rows": [], "cursor": 0, "more": False}
    for step in range(5):
        for one in (running, other):
            JobMetric.objects.create(job=one, step=step, time=timezone.now(), values={})
    first = program.get(f"{address}?limit=3").json()
    assert [row["step"] for row in first["rows"]] == [0, 1, 2] and first["more"]
    second = program.get(f"{address}?limit=3&after={first['cursor']}").json()
    assert [row["step"] for row in second["rows"]] == [3, 4] and not second["more"]
    nothing = program.get(f"{address}?after={second['cursor']}").json()
    assert nothing == {"rows": [], "cursor": second["cursor"], "more": False}
    for wrong in ("limit=0", "limit=1001", "after=-1", "after=x", f"after={2**63}"):
        problem(program.get(f"{address}?{wrong}"), 400)


def test_a_log_is_followed_by_offset(program: TokenClient) -> None:
    running = job(state=JobState.RUNNING)
    running.run_dir.mkdir(parents=True)
    log = running.run_dir / "log.txt"
    text = "première ligne → €\n𝔘𝔫\n" * 3
    log.write_bytes(text.encode() + "é".encode()[:1])  # the process is in the middle of writing
    pieces = list(follow(program, running, limit=5))
    assert "".join(pieces) == text and all("\N{REPLACEMENT CHARACTER}" not in piece for piece in pieces)
    log.write_text(text + "é", encoding="utf-8")
    end = {"text": "é", "next_offset": len(text.encode()) + 2, "size": len(text.encode()) + 2, "active": True}
    assert program.get(f"/api/v1/jobs/{running.pk}/log?offset={len(text.encode())}").json() == end
    beyond = program.get(f"/api/v1/jobs/{running.pk}/log?offset={10**15}").json()
    assert beyond == end | {"text": ""}
    problem(program.get(f"/api/v1/jobs/{running.pk}/log?limit=3"), 400)


def test_half_a_character_at_the_end_of_a_dead_process(program: TokenClient) -> None:
    ended = job(state=JobState.FAILED)
    ended.run_dir.mkdir(parents=True)
    (ended.run_dir / "log.txt").write_bytes(b"caf\xc3")
    assert "".join(follow(program, ended, limit=4)) == "caf\N{REPLACEMENT CHARACTER}"


def test_the_log_of_a_removed_run_is_what_the_row_keeps(program: TokenClient) -> None:
    ended = job(state=JobState.SUCCEEDED, log="… and done")
    assert "".join(follow(program, ended, limit=5)) == "… and done"


def test_kinds_say_what_a_form_needs(program: TokenClient, index: IndexGeneration) -> None:
    kinds = {kind["kind"]: kind for kind in program.get("/api/v1/job-kinds").json()}
    assert kinds.keys() == {str(kind) for kind in KINDS if KINDS[kind].by_hand}
    tuning = kinds["finetune"]
    questions = next(one for one in tuning["inputs"] if one["name"] == "questions")
    assert (questions["list"], questions["many"], questions["required"]) == ("question-sets", True, True)
    assert questions["limit_to"] == {"purpose": "learn"}
    batch = next(one for one in tuning["settings"] if one["name"] == "batch")
    assert batch["type"] == "integer" and batch["limit"]["low"] == 1 and batch["help"]
    assert tuning["schema"]["properties"]["batch"]["default"] == batch["default"]
    assert set(tuning["schema"]["required"]) == {"model", "corpus", "questions"}
    # What is said to be a default is accepted, and is what the job gets.
    learnt = question_set("train", Purpose.LEARN)
    inputs = {"model": index.model_id, "corpus": index.corpus_id, "index": index.pk, "questions": [learnt.pk]}
    defaults = {one["name"]: one["default"] for one in tuning["settings"]}
    body = post(program, "jobs", {"kind": "finetune", "parameters": inputs | defaults}).json()
    assert body["parameters"] == inputs | defaults


def test_kinds_say_which_files_there_are_to_ingest(program: TokenClient, tmp_path: Path, settings: Any) -> None:
    settings.REALM_DATA = tmp_path

    def files() -> dict[str, Any]:
        (ingest,) = (kind for kind in program.get("/api/v1/job-kinds").json() if kind["kind"] == "ingest")
        return {one["name"]: one["files"] for one in ingest["settings"]}

    assert files() == {
        "file": [],
        **dict.fromkeys(("source", "language", "corpus_name", "licence", "attribution", "articles_at_most")),
    }
    folder = tmp_path / "sources"
    (folder / "a folder").mkdir(parents=True)
    for name in ("towns.jsonl", ".hidden.jsonl", "größe.jsonl", "a dump.xml.bz2"):
        (folder / name).write_bytes(b"seven b")
    assert files()["file"] == [
        {"name": "a dump.xml.bz2", "size_bytes": 7},
        {"name": "towns.jsonl", "size_bytes": 7},
    ]


def test_each_kind_has_a_schema_of_its_own() -> None:
    schema = json.loads(Client().get("/api/v1/schema/?format=json").content)
    request = schema["paths"]["/api/v1/jobs"]["post"]["requestBody"]["content"]["application/json"]
    components = schema["components"]["schemas"]
    new_job = components[request["schema"]["$ref"].rpartition("/")[2]]
    mapping = new_job["discriminator"]["mapping"]
    assert new_job["discriminator"]["propertyName"] == "kind"
    assert mapping.keys() == {str(kind) for kind in KINDS if KINDS[kind].by_hand}
    for kind, reference in mapping.items():
        properties = components[reference.rpartition("/")[2]]["properties"]
        assert properties["kind"]["allOf"][0]["enum"] == [kind]
        described = {one.name for one in KINDS[kind].inputs} | {one.name for one in KINDS[kind].described()}
        assert properties["parameters"]["properties"].keys() == described
    assert set(request["examples"]) and schema["components"]["securitySchemes"]["token"]["scheme"] == "bearer"


def ids(page: dict[str, Any]) -> list[str]:
    return [one["id"] for one in page["results"]]


def follow(program: TokenClient, of: Job, *, limit: int) -> Iterator[str]:
    """The pieces of a log until there is nothing more."""
    offset = 0
    while True:
        piece = program.get(f"/api/v1/jobs/{of.pk}/log?offset={offset}&limit={limit}").json()
        if piece["next_offset"] == offset:
            return
        yield piece["text"]
        offset = piece["next_offset"]
