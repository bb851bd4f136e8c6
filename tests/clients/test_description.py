"""The client package beside docs/openapi.yaml: every operation has a method, which calls it and reads its example."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import httpx
import pytest
import yaml

from realm_client import AsyncClient, Client, NewDocument
from tests.clients.conftest import TOP
from webapp.ledger.examples import CHANGE_ANSWERS, TOUCHED

ID = "0b6f2f5e-3a64-4d0c-9a51-6a0f3a1c7c55"
# What is called otherwise in Python: a stream of results, the names that Python has for such things, and what it means.
METHODS = {
    "ask_batch": "ask_many",
    "giveFeedback": "give_feedback",
    "takeFeedbackBack": "take_feedback_back",
    "roll_back": "activate",
}
# What a method must be told; of the others nothing.
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("ask", "retrieve", "fill"), ("What [MASK]?",)),
    "ask_many": (["What?", "Who?"],),
    **dict.fromkeys(("answer", "block", "article", "feedback", "give_feedback", "take_feedback_back"), (ID,)),
    "why": (ID, "Arthur C. Clarke"),
    **dict.fromkeys(("job", "stop_job", "resume_job", "job_log", "job_metrics"), (ID,)),
    "start_job": ("index", {"model": 3, "corpus": 1}),
    **dict.fromkeys(("corpus", "model", "index", "question_set", "span_set", "evaluation", "deployment"), (7,)),
    **dict.fromkeys(("remove_corpus", "remove_model", "remove_index", "remove_question_set"), (7,)),
    "deploy": (4,),
    **dict.fromkeys(
        ("document", "document_original", "remove_document", "restore_document", "document_touched"), ("d-1",)
    ),
    "add_document": (NewDocument("A text.", title="A title"),),
    "add_documents": ([NewDocument("A text.", title="A title")],),
    "put_documents": ([NewDocument("A text.", title="A title", id="d-1")],),
    "remove_documents": (["d-1", "d-2"],),
    "change_document": ("d-1", NewDocument("A text.", title="A title")),
    "preview_change": ("d-1", NewDocument("A text.", title="A title")),
    "describe_document": ("d-1", NewDocument(licence="CC0", tags=("a",))),
    **dict.fromkeys(("collection", "set_collection", "remove_collection"), ("board",)),
    "purge_documents": (["d-1"],),
    "purge": (ID,),
    **dict.fromkeys(("change_answers", "predictions"), (7,)),
    "activate": (12,),
    **dict.fromkeys(("schedule", "change_schedule", "remove_schedule", "run_schedule"), (2,)),
    "add_model": ("realm-mini",),
    "add_question_set": (("dev.jsonl", b"{}"), "measure"),
    "add_source_file": (("towns.jsonl", b"{}"),),
    "remove_source_file": ("towns.jsonl",),
    "create_schedule": ("handbook", "new-model"),
}


def described() -> dict[str, tuple[str, str, dict[str, Any]]]:
    """By the operation's id: its method, address and description."""
    schema = yaml.load((TOP / "docs" / "openapi.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader)
    return {
        operation["operationId"]: (method.upper(), path, operation)
        for path, methods in schema["paths"].items()
        for method, operation in methods.items()
    }


OPERATIONS = described()


def name_of(operation: str) -> str:
    """What the client calls an operation."""
    return METHODS.get(operation, operation)


def answering(operation: str) -> Callable[[httpx.Request], httpx.Response]:
    """A server that has one operation, and answers with its example; the following page of a list is empty."""
    method, path, told = OPERATIONS[operation]
    address = re.compile(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(path)))
    parameters = {one["name"] for one in told.get("parameters", []) if one["in"] == "query"}

    def handle(request: httpx.Request) -> httpx.Response:
        assert request.method == method and address.fullmatch(request.url.path), request
        assert set(request.url.params) <= parameters, request.url
        if "cursor" in request.url.params:
            return httpx.Response(200, json={"next": None, "previous": None, "results": []})
        if "204" in told["responses"]:
            return httpx.Response(204)
        status, media, example = examples(told)[0]
        if operation == "ask_batch":
            return httpx.Response(status, content="".join(json.dumps(one) + "\n" for one in example["results"]))
        return httpx.Response(status, json=example, headers={"Content-Type": media})

    return handle


def examples(told: dict[str, Any]) -> list[tuple[int, str, Any]]:
    """Status, media type and value of what an operation gives where all is well."""
    return [
        (int(status), media, one["value"])
        for status, response in told["responses"].items()
        if status.startswith("2")
        for media, content in response.get("content", {}).items()
        for one in content.get("examples", {}).values()
    ]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_operation_has_a_method(operation: str) -> None:
    name = name_of(operation)
    transport = httpx.MockTransport(answering(operation))
    with Client("http://realm", transport=transport) as realm:
        told = getattr(realm, name)(*ARGUMENTS.get(name, ()))
        waited = list(told) if isinstance(told, Iterator) else told

    async def work() -> Any:
        async with AsyncClient("http://realm", transport=transport) as realm:
            told = getattr(realm, name)(*ARGUMENTS.get(name, ()))
            return [one async for one in told] if isinstance(told, AsyncIterator) else await told

    awaited = asyncio.run(work())
    if name == "ask_many":  # an error is itself alone
        assert [one.answer for one in waited] == [one.answer for one in awaited] and waited[0].answer
    else:
        assert waited == awaited and (waited or "204" in OPERATIONS[operation][2]["responses"])


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_list_names_its_filters(operation: str) -> None:
    _, _, told = OPERATIONS[operation]
    names = {one["name"] for one in told.get("parameters", []) if one["in"] == "query"}
    if "cursor" in names:
        method = getattr(Client, name_of(operation))
        about = inspect.getdoc(method) or ""
        filters = about.partition("Filters: ")[2].rstrip(".").split(", ")
        assert set(filters) - {""} == names - {"cursor", "page_size"} - set(inspect.signature(method).parameters)


def test_as_many_touched_answers_as_are_wanted_are_fetched_page_after_page() -> None:
    asked: list[dict[str, str]] = []
    row = TOUCHED["results"][0]

    def handle(request: httpx.Request) -> httpx.Response:
        asked.append(dict(request.url.params))
        first = len(asked) - 1
        rows = [row | {"answer": f"{first}-{number}"} for number in range(500)]
        following = f"http://realm{request.url.path}?cursor={first}&page_size=500&differing=true"
        return httpx.Response(200, json=CHANGE_ANSWERS | {"results": rows, "next": following})

    with Client("http://realm", transport=httpx.MockTransport(handle)) as realm:
        told = realm.change_answers(7, most=1200, differing=True)
    assert [one.answer for one in told.results[::300]] == ["0-0", "0-300", "1-100", "1-400"] and len(
        told.results
    ) == 1200
    first = {"page_size": "500", "differing": "true"}
    assert asked == [first, {**first, "cursor": "0"}, {**first, "cursor": "1"}]


def test_what_is_exported_is_what_was_sent() -> None:
    sent = b'{"question": "Who?", "answers": ["Nobody"]}\n'
    with Client("http://realm", transport=httpx.MockTransport(lambda _: httpx.Response(200, content=sent))) as realm:
        assert realm.feedback_export() == sent


def test_metrics_are_read_to_their_end() -> None:
    def handle(request: httpx.Request) -> httpx.Response:
        after = int(request.url.params["after"])
        row = {"id": after + 1, "step": after, "time": "2026-01-31T12:00:00Z", "values": {"loss": None}}
        return httpx.Response(200, json={"rows": [row], "cursor": after + 1, "more": after < 7})

    with Client("http://realm", transport=httpx.MockTransport(handle)) as realm:
        assert [one.id for one in realm.job_metrics(ID, after=5)] == [6, 7, 8]
