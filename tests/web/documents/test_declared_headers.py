"""The header fields that the API's description declares are those that are sent."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

from django.conf import LazySettings
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from tests.core.documents.pdfs import column, pdf
from tests.web.conftest import Person
from tests.web.described import described
from tests.web.operating import TokenClient
from webapp.models import Deployment

TURKU = {"id": "turku", "title": "Turku", "text": "Turku is a city in Finland.", "licence": "CC0"}
QUESTION = {"question": "What is Turku?"}
# Of any server: the body, who may keep it, what a browser may do, which methods there are.
ORDINARY = {
    *("Content-Type", "Content-Length", "Content-Language", "Allow", "Vary", "Cache-Control", "X-Accel-Buffering"),
    *("Content-Security-Policy", "Cross-Origin-Opener-Policy", "Cross-Origin-Resource-Policy", "Permissions-Policy"),
    *("Referrer-Policy", "X-Content-Type-Options", "X-Frame-Options", "Expires"),
}


class Seen:
    """Compares responses with their declaration; sent: the names of fields by operation."""

    def __init__(self) -> None:
        self._description = described()
        self.sent: dict[str, set[str]] = defaultdict(set)

    def look(self, response: Any, path: str, *statuses: int) -> Any:
        """path: as the description has it, behind /api/v1/."""
        assert response.status_code in statuses, response.content
        method = response.wsgi_request.method.lower()
        operation = self._description["paths"][f"/api/v1/{path}"][method]
        declared = operation["responses"][str(response.status_code)].get("headers", {})
        names = set(response.headers) - ORDINARY
        assert names <= declared.keys(), (path, response.status_code, names - declared.keys())
        shared = self._description["components"]["headers"]
        required = {name for name in declared if shared[name].get("required")}
        assert required <= names, (path, response.status_code, required - names)
        self.sent[operation["operationId"]] |= names
        return response


def send(client: Client, path: str, body: Any, method: str = "post", **headers: str) -> Any:
    told = {name.replace("_", "-"): value for name, value in headers.items()}
    return getattr(client, method)(f"/api/v1/{path}", json.dumps(body), content_type="application/json", headers=told)


def test_what_is_sent_is_declared(
    answering: Deployment, staff: Person, no_workers: None, settings: LazySettings
) -> None:
    seen, program = Seen(), TokenClient(staff.user, "ask", "operate")
    document = "documents/{document_id}"
    asked = seen.look(send(program, "ask", QUESTION, Idempotency_Key="one"), "ask", 201)
    seen.look(send(program, "ask", QUESTION, Idempotency_Key="one"), "ask", 200)
    seen.look(send(program, "ask", {"question": "?!"}, Idempotency_Key="one"), "ask", 400, 422)
    seen.look(send(program, "ask", {}), "ask", 400)
    seen.look(send(program, "ask/batch", {"questions": ["What is Turku?"]}), "ask/batch", 200)
    address = asked["Location"]
    answer = seen.look(program.get(address), "answers/{answer_id}", 200)
    seen.look(program.get(address, headers={"If-None-Match": answer["ETag"]}), "answers/{answer_id}", 304)
    seen.look(Client(headers={"Authorization": "Bearer nonsense"}).get(address), "answers/{answer_id}", 401)

    made = seen.look(send(program, "documents", TURKU, Idempotency_Key="two"), "documents", 201)
    seen.look(send(program, "documents", TURKU, Idempotency_Key="two"), "documents", 200)
    seen.look(send(program, "documents", TURKU), "documents", 409)
    shown = seen.look(program.get(made["Location"]), document, 200)
    seen.look(program.get(made["Location"], headers={"If-None-Match": shown["ETag"]}), document, 304)
    seen.look(send(program, "documents/turku", TURKU, "put", If_Match='"0"'), document, 400, 412)
    seen.look(program.delete("/api/v1/documents/turku", headers={"Idempotency-Key": "three"}), document, 204)
    seen.look(program.delete("/api/v1/documents/turku", headers={"Idempotency-Key": "three"}), document, 204)
    seen.look(program.get("/api/v1/documents/turku"), document, 200)
    seen.look(send(program, "documents/turku/restore", {}), f"{document}/restore", 200)
    seen.look(send(program, "purges", {"documents": ["turku"]}), "purges", 201)
    report = SimpleUploadedFile("report.pdf", pdf([column(["Oulu."])], title="Oulu"), "application/pdf")
    seen.look(program.post("/api/v1/documents", {"file": report, "id": "oulu"}), "documents", 201)
    seen.look(program.get("/api/v1/originals/oulu"), "originals/{document_id}", 200)
    seen.look(program.get("/api/v1/feedback/export"), "feedback/export", 200)
    job = {"kind": "index", "parameters": {"model": answering.model_id, "corpus": answering.index.corpus_id}}
    seen.look(send(program, "jobs", job), "jobs", 201)
    seen.look(send(program, "jobs", job), "jobs", 409)
    settings.ASK_RATE = "1/hour"
    seen.look(send(program, "ask", QUESTION), "ask", 201)
    seen.look(send(program, "ask", QUESTION), "ask", 429)

    limited = {"RateLimit", "RateLimit-Policy", "X-Request-ID"}
    assert seen.sent["ask"] == limited | {"Location", "Idempotency-Replayed", "Server-Timing", "Retry-After"}
    assert seen.sent["answer"] == {"ETag", "WWW-Authenticate", "X-Request-ID"}
    assert seen.sent["document"] == {"ETag", "X-Request-ID"}
    assert seen.sent["add_document"] == limited | {"Location", "Idempotency-Replayed"}
    assert seen.sent["document_original"] == {"Content-Disposition", "X-Request-ID"}
