"""Hostile texts in everything that can be sent: a right answer or a 4xx that says why, and nothing injected."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from tests.attacks.texts import SHORT, TEXTS, TYPED, in_turn
from tests.web.conftest import FakeEngine, Person
from tests.web.console import question_set
from tests.web.operating import TokenClient, job
from tests.web.pages import stored
from webapp.kinds import KINDS
from webapp.models import AskedAnswer, Deployment, Feedback, Job, JobState, Schedule

pytestmark = pytest.mark.postgresql_only

FORGED = ("Set-Cookie", "stolen", "forged")
# Each page with the parameters that it looks at.
PARAMETERS = {
    "ask": ("q",),
    "answer": ("without",),
    "fill": ("sentence", "truth"),
    "block": ("answer",),
    "history": ("page", "changed"),
    "login": ("next",),
    "how-it-works": ("answer",),
    "manage-jobs": ("show", "kind", "queue", "part_of", "page"),
    "manage-job-new": ("from", "model", "corpus"),
    "manage-job-log": ("offset", "from"),
    "manage-feedback": ("show", "page"),
    "manage-compare": ("first", "second", "questions", "corpus", "sample"),
    "manage-deploy": ("index", "model", "note"),
    "manage-deployments": ("page",),
    "manage-audit": ("name", "action", "day", "page"),
}


def refused_or_right(response: Any) -> None:
    """Not an error of ours, no header that the client wrote, and below /api/ a problem that says what is wrong."""
    assert response.status_code < 500, response.content[:500]
    for name, value in response.headers.items():
        assert not any(word in name or word in value for word in FORGED), (name, value)
        assert "\n" not in value and "\r" not in value
    if response.status_code >= 400 and response.request["PATH_INFO"].startswith("/api/"):
        assert response["Content-Type"] == "application/problem+json"
        assert json.loads(response.content)["detail"]


@pytest.fixture
def ends(engine: FakeEngine) -> dict[str, list[Any]]:
    """What stands in the address of the pages that are about one thing."""
    asked = stored.store()
    return {
        "answer": [asked.pk],
        "block": [asked.payload["evidence"][0]["block_id"]],
        "manage-job-new": ["index"],
        "manage-job-log": [job(state=JobState.STOPPED).pk],
    }


@pytest.mark.parametrize("text", in_turn(SHORT, 6))
def test_parameters_of_pages(text: str, ends: dict[str, list[Any]], staff: Person) -> None:
    for name, parameters in PARAMETERS.items():
        for parameter in parameters:
            refused_or_right(staff.client.get(reverse(name, args=ends.get(name)), {parameter: text}))


@pytest.mark.parametrize("text", in_turn(SHORT, 11))
def test_addresses(text: str, engine: FakeEngine, staff: Person) -> None:
    for template in (
        *("/{}", "/blocks/{}/", "/answers/{}/", "/manage/jobs/new/{}/", "/manage/jobs/{}/", "/manage/models/{}/"),
        *("/api/v1/{}", "/api/v1/blocks/{}", "/api/v1/blocks/{}/article", "/api/v1/jobs/{}", "/api/v1/models/{}"),
        *("/static/{}", "/manage/evaluations/1/{}.svg", "/admin/{}"),
    ):
        for escaped in (quote(text, safe=""), quote(text, safe="/%")):
            response = staff.client.get(template.format(escaped))
            refused_or_right(response)
            assert response.status_code in (302, 301, 400, 404, 405), template


@pytest.mark.parametrize("text", in_turn(TYPED, 9))
def test_forms(text: str, ends: dict[str, list[Any]], staff: Person, client: Client) -> None:
    asked = AskedAnswer.objects.get(pk=ends["answer"][0])
    said = Feedback.objects.create(answer=asked, right=True)
    schedule = Schedule.objects.create(corpus_name=asked.deployment.index.corpus.name, trigger="every", hours=1)
    index = Deployment.objects.get().index
    forms: list[tuple[str, dict[str, Any]]] = [
        (reverse("ask"), {"question": text}),
        (reverse("ask"), {"example": text}),
        (reverse("feedback", args=[asked.pk]), {"better_answer": text, "right": text}),
        (reverse("feedback", args=[asked.pk]), {"block_id": text}),
        (reverse("answer-why", args=[asked.pk]), {"right_answer": text}),
        (reverse("account-token-make"), {"name": text, "scopes": ["ask"]}),
        (reverse("account-token-make"), {"name": "n", "scopes": [text], "days": text}),
        (reverse("account-password"), {"old_password": text, "new_password1": text, "new_password2": text}),
        (reverse("manage-feedback-review", args=[said.pk]), {"verdict": "accepted", "seen": text, "back": text}),
        (reverse("manage-questions-from-feedback"), {"name": text}),
        (reverse("manage-source-remove"), {"name": text}),
        (reverse("manage-deploy"), {"index": index.pk, "note": text, "confirmed": text}),
        (reverse("manage-deploy-measure"), {"index": index.pk, "note": text, "questions": text, "sample": text}),
        (reverse("manage-compare-measure"), {"first": text, "second": text, "questions": text, "sample": text}),
        (reverse("manage-schedule", args=[schedule.pk]), {"corpus_name": text, "trigger": text, "hours": text}),
        (reverse("manage-retention"), {"generations": text, "run_days": text, "answer_days": text}),
        (reverse("manage-job-new", args=["ingest"]), {"source": "vital", "licence": text, "corpus_name": text}),
        (reverse("manage-job-new", args=["ingest"]), {"source": "jsonl", "file": text, "language": text}),
        (reverse("manage-job-new", args=["ablate"]), {"rows": text, "ict.steps": text, "finetune.repeat": text}),
    ]
    for address, form in forms:
        refused_or_right(staff.client.post(address, form))
    refused_or_right(client.post(reverse("login"), {"username": text, "password": text, "next": text}))


@pytest.mark.parametrize("text", in_turn(TYPED, 8))
def test_uploads(text: str, engine: FakeEngine, staff: Person) -> None:
    question_set("other")
    row = json.dumps({"question": f"Who? {text}", "answers": [text], "title": text, "context": text})
    for content, name in ((row.encode(), "plain.jsonl"), (text.encode(), "plain.jsonl"), (row.encode(), text[:200])):
        for given in ("", text):
            file = SimpleUploadedFile(name.strip("/") or "f", content)
            form = {"file": file, "purpose": "learn", "name": given, "origin": text[:200]}
            response = staff.client.post(reverse("manage-questions"), form)
            refused_or_right(response)
            if response.status_code == 302:
                refused_or_right(staff.client.get(response["Location"]))
        file = SimpleUploadedFile(name.strip("/") or "f", content)
        refused_or_right(staff.client.post(reverse("manage-sources"), {"file": file}))
    client = TokenClient(staff.user, "operate")
    for address, more in (("question-sets", {"purpose": text, "name": text, "origin": text}), ("source-files", {})):
        file = SimpleUploadedFile(text[:200].strip("/") or "f", row.encode())
        refused_or_right(client.post(f"/api/v1/{address}", {"file": file, **more}))
        refused_or_right(client.post(f"/api/v1/{address}", {"file": text, "replace": text, text[:200]: text}))
    refused_or_right(client.delete(f"/api/v1/source-files/{quote(text[:200], errors='replace', safe='')}"))


@pytest.mark.parametrize("text", in_turn(TEXTS, 3))
def test_bodies_of_the_api(text: str, engine: FakeEngine, staff: Person) -> None:
    client = TokenClient(staff.user, "ask", "feedback", "operate")
    asked = stored.store()
    index = asked.deployment.index
    settings = {"source": "vital", "licence": text, "attribution": text}
    bodies: list[tuple[str, Any]] = [
        ("ask", {"question": text}),
        ("ask", {"question": "Who?", "exclude": [text]}),
        ("ask", {"question": "Who?", text[:500]: text[:500]}),
        ("ask", text),
        ("ask/batch", {"questions": [text, {"question": text}, {text[:500]: 1}], "exclude": []}),
        ("retrieve", {"question": text}),
        ("fill", {"sentence": f"{text} [MASK]", "truth": text}),
        (f"answers/{asked.pk}/feedback", {"better_answer": text}),
        (f"answers/{asked.pk}/feedback", {"block_id": text}),
        (f"answers/{asked.pk}/why", {"answer": text}),
        ("jobs", {"kind": text}),
        ("jobs", {"kind": "ingest", "parameters": settings}),
        ("jobs", {"kind": "ingest", "parameters": {"source": text, "file": text, "corpus_name": text}}),
        ("jobs", {"kind": "ablate", "parameters": {"rows": [text], "pretrain.refresh": text, text[:500]: text}}),
        ("deployments", {"index": index.pk, "note": text, "confirm": text}),
        ("deployments", {"index": text, "model": text}),
    ]
    for address, body in bodies:
        refused_or_right(client.post(f"/api/v1/{address}", json.dumps(body), content_type="application/json"))
    for method, parameters in (
        ("tools/call", {"name": "ask", "arguments": {"question": text, "exclude": [text]}}),
        ("tools/call", {"name": "read_block", "arguments": {"block_id": text}}),
        ("tools/call", {"name": text[:500], "arguments": {text[:500]: text}}),
        (text[:500], {text[:500]: text}),
        ("initialize", {"protocolVersion": text}),
    ):
        message = {"jsonrpc": "2.0", "id": text[:500], "method": method, "params": parameters}
        response = client.post("/mcp", json.dumps(message), content_type="application/json")
        refused_or_right(response)
        assert response.status_code == 413 or json.loads(response.content)["jsonrpc"] == "2.0"


@pytest.mark.parametrize("text", in_turn(TEXTS, 1))
def test_header_fields(text: str, engine: FakeEngine, client: Client) -> None:
    value = text.encode(errors="surrogatepass").decode("latin-1")
    for name in ("X-Request-ID", "Idempotency-Key", "If-None-Match", "Accept", "Origin", "Accept-Language", "Cookie"):
        response = client.post(
            "/api/v1/ask", json.dumps({"question": "Who?"}), content_type="application/json", headers={name: value}
        )
        refused_or_right(response)
        assert value not in response.headers.values() or value.isalnum()
        message = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        versions = {"MCP-Protocol-Version": value, "Mcp-Name": value, name: value}
        refused_or_right(client.post("/mcp", message, content_type="application/json", headers=versions))
        refused_or_right(client.get("/", headers={name: value, "HX-Current-URL": value, "HX-Request": "true"}))
    for kind in (value, f"application/json; charset={value}"):
        refused_or_right(client.generic("POST", "/api/v1/ask", b"{}", content_type=kind))


@pytest.mark.parametrize("charset", ["zlib", "bz2", "hex", "idna", "undefined", "unicode_escape", "utf-7", "utf-16"])
def test_other_encodings(charset: str, engine: FakeEngine, client: Client) -> None:
    """Python has codecs that decompress, that fail whatever comes, and that make what is no text."""
    for kind in ("text/plain", "multipart/form-data; boundary=x", "application/x-www-form-urlencoded"):
        said = {"content_type": f"{kind}; charset={charset}"}
        assert client.generic("POST", "/?q=%41%FF", b"--x--", **said).status_code == 415
    response = client.generic("POST", "/api/v1/ask", b"{}", content_type=f"application/json; charset={charset}")
    refused_or_right(response)
    assert response.status_code == 415


def test_more_than_an_address_takes(engine: FakeEngine, staff: Person, member: Person, client: Client) -> None:
    """Refused by its length, before any of it is read; only curators may send a whole file of questions."""
    for sender, address, most in (
        (client, "/", 1 << 20),
        (member.client, "/manage/questions/", 1 << 20),
        (staff.client, "/manage/questions/", 65 << 20),
        (client, "/api/v1/ask", 1 << 20),
        (client, "/mcp", 1 << 20),
    ):
        kind = "application/json" if address in ("/mcp", "/api/v1/ask") else "multipart/form-data; boundary=x"
        for length in (str(most + 1), "9" * 400, "²"):
            response = sender.generic("POST", address, b"--x--", content_type=kind, CONTENT_LENGTH=length)
            refused_or_right(response)
            assert response.status_code == 413, (address, length)
        body = b"x" * min(most, 2 << 20)
        response = sender.generic("POST", address, body, content_type=kind)
        refused_or_right(response)
        assert response.status_code != 413, address


@pytest.mark.parametrize("place", "../db.sqlite3 /etc/passwd http://127.0.0.1:6379/ file:///etc/passwd ..".split())
def test_nothing_is_read_from_elsewhere(place: str, engine: FakeEngine, staff: Person) -> None:
    """The one field of a job that names a file takes the name of one in `sources/`; no field takes an address."""
    client = TokenClient(staff.user, "operate")
    wrong = [
        {"kind": "ingest", "parameters": {"source": "jsonl", "file": place}},
        {"kind": "ingest", "parameters": {"source": place, "file": "a.jsonl"}},
        {"kind": "ingest", "parameters": {"source": "jsonl", "file": "a.jsonl", "corpus_name": f"/{place}"}},
        {"kind": "spans", "parameters": {"corpus": 1, "tagger": place}},
    ]
    for body in wrong:
        response = client.post("/api/v1/jobs", json.dumps(body), content_type="application/json")
        refused_or_right(response)
        assert response.status_code == 400, body
    assert not Job.objects.exists()
    fetched = [setting.name for one in KINDS.values() for setting in one.described() if "url" in setting.name.lower()]
    assert fetched == []
