"""What the tests of the operators' API share: clients with tokens, and records to work on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from django.contrib.auth.models import User
from django.http import HttpResponse
from django.test import Client

from tests.web.pages import stored
from webapp.models import (
    ApiToken,
    CorpusChange,
    CorpusState,
    Document,
    Evaluation,
    IndexGeneration,
    Job,
    JobKind,
    Purpose,
    QuestionSet,
    SpanSet,
)


class TokenClient(Client):
    """A program with a token; without cookies, and with the checks that a browser would meet."""

    def __init__(self, user: User, *scopes: str, **more: Any) -> None:
        self.record, token = ApiToken.issue(user, "test", list(scopes), **more)
        super().__init__(enforce_csrf_checks=True, headers={"Authorization": f"Bearer {token}"})


def post(client: Client, address: str, body: Any = None) -> Any:
    """POST a body as JSON, or nothing."""
    if body is None:
        return client.post(f"/api/v1/{address}", content_type="application/json")
    return client.post(f"/api/v1/{address}", json.dumps(body), content_type="application/json")


def problem(response: HttpResponse, status: int) -> dict[str, Any]:
    """The problem that a response tells, after a look at its form."""
    assert response.status_code == status, response.content
    assert response["Content-Type"] == "application/problem+json"
    told: dict[str, Any] = json.loads(response.content)
    assert told["status"] == status and told["type"] == "about:blank" and told["title"] and told["detail"]
    return told


def walk(client: Client, address: str | None) -> Iterator[dict[str, Any]]:
    """The pages of a list, from the one at this address on."""
    while address:
        page = client.get(address).json()
        yield page
        address = page["next"]


def call_tool(client: Client, name: str, **arguments: Any) -> dict[str, Any]:
    """The result of a tool for language models."""
    params = {"name": name, "arguments": arguments}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    result: dict[str, Any] = client.post("/mcp", body, content_type="application/json").json()["result"]
    return result


def question_set(name: str = "dev", purpose: str = Purpose.MEASURE) -> QuestionSet:
    """A question set's row."""
    return QuestionSet.objects.create(name=name, purpose=purpose, path=f"questions/{name}.jsonl", questions=3)


def evaluation(index: IndexGeneration, questions: QuestionSet, **more: Any) -> Evaluation:
    """A measurement's row."""
    values = {
        "model": index.model,
        "corpus": index.corpus,
        "index": index,
        "questions": questions,
        "retriever": "dense",
        "k": 5,
        "normalisation": "block+null",
        "sample": 0,
        "asked": 3,
        "exact_match": 0.5,
        "recall_at_5": 0.75,
        "figures": {"exact_match": 0.5},
        "predictions": "runs/x/p.jsonl",
    }
    return Evaluation.objects.create(**values | more)


def span_set(index: IndexGeneration) -> SpanSet:
    """A span set's row."""
    return SpanSet.objects.create(corpus=index.corpus, path="spans/x", tagger="spacy", spans=9, blocks=3)


def job(**more: Any) -> Job:
    """A job's row that no worker hears of."""
    return Job.objects.create(**{"kind": JobKind.INDEX, "queue": "index"} | more)


def taken(one: Job | None = None, owner: str = "one", seconds: int = 60) -> Job:
    """A queued job that a worker has claimed."""
    claimed = Job.claim((one or job()).pk, owner, seconds)
    assert claimed is not None
    return claimed


def ablation() -> dict[str, Any]:
    """The records of an ablation."""
    index = stored.deployment().index
    learn, dev = question_set("learnt", Purpose.LEARN), question_set("dev")
    records = {"model": index.model_id, "corpus": index.corpus_id, "spans": span_set(index).pk}
    return {**records, "questions": [learn.pk], "dev": [dev.pk]}


def corpus_change(index: IndexGeneration) -> CorpusChange:
    """The removal of a document, as the ledger has it; files of the corpus are not needed."""
    state = CorpusState.objects.filter(index=index).first()
    state = state or CorpusState.objects.create(index=index, state_id="s", state={}, has_edits=True)
    document = Document.objects.filter(index=index).first()
    document = document or Document.objects.create(index=index, document_id="d", title="D", format="text", blocks=0)
    return CorpusChange.objects.create(kind="removed", document=document, before=state, after=state)
