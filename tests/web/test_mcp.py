"""The protocol's corners: what is no message, what contradicts itself, who may not, what is too much."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from realm_core.errors import RealmError
from tests.web.conftest import FakeEngine, Loader, Person
from tests.web.operating import TokenClient, problem
from webapp.mcp.tools import TOOLS
from webapp.models import AskedAnswer

VERSION = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
}
ASK = {"name": "ask", "arguments": {"question": "Who directed it?"}}


def send(client: Client, message: Any, **headers: str) -> Any:
    accepted = {"Accept": "application/json, text/event-stream"}
    body = message if isinstance(message, str) else json.dumps(message)
    return client.post("/mcp", body, content_type="application/json", headers={**accepted, **headers})


def call(client: Client, method: str, params: dict[str, Any] | None = None, **headers: str) -> Any:
    return send(client, {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}, **headers)


def newer(client: Client, method: str, params: dict[str, Any] | None = None, **headers: str) -> Any:
    fields = {"MCP-Protocol-Version": VERSION, "Mcp-Method": method}
    if params and "name" in params:
        fields["Mcp-Name"] = params["name"]
    return call(client, method, {**(params or {}), "_meta": META}, **{**fields, **headers})


@pytest.mark.parametrize(
    ("message", "status", "code"),
    [
        ("{", 400, -32700),
        ("[" * 100_000, 400, -32700),
        ("[]", 400, -32600),
        ("7", 400, -32600),
        ({"id": 1, "method": "ping"}, 400, -32600),
        ({"jsonrpc": "2.0", "id": 1}, 400, -32600),
        ({"jsonrpc": "2.0", "id": 1, "method": 7}, 400, -32600),
        ({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}, 400, -32600),
        ({"jsonrpc": "2.0", "id": None, "method": "ping"}, 400, -32600),
        ({"jsonrpc": "2.0", "id": True, "method": "ping"}, 400, -32600),
        ({"jsonrpc": "2.0", "id": 1, "method": "resources/list"}, 200, -32601),
        ({"jsonrpc": "2.0", "id": 1, "method": "server/discover"}, 200, -32601),
        ({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "no"}}, 200, -32602),
        ({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": ["ask"]}}, 200, -32602),
        ({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "ask", "arguments": 5}}, 200, -32602),
    ],
)
def test_an_invalid_message_is_refused_with_its_code(
    client: Client, engine: FakeEngine, message: Any, status: int, code: int
) -> None:
    response = send(client, message)
    assert response.status_code == status and response.json()["error"]["code"] == code
    assert response.json()["jsonrpc"] == "2.0" and engine.asked == []


@pytest.mark.django_db
@pytest.mark.parametrize("message", [{"method": "notifications/initialized"}, {"id": 3, "result": {}}])
def test_notifications_and_responses_get_no_reply(client: Client, message: dict[str, Any]) -> None:
    response = send(client, {"jsonrpc": "2.0", **message})
    assert (response.status_code, response.content) == (202, b"")


@pytest.mark.django_db
def test_the_handshake_settles_on_a_version(client: Client) -> None:
    offered = ("2024-11-05", "2025-06-18", "2025-11-25")
    others = ("2025-03-26", "1999-01-01")  # the first exists, but its servers must take batches
    for wanted in (*offered, *others, VERSION):
        result = call(client, "initialize", {"protocolVersion": wanted}).json()["result"]
        assert result["protocolVersion"] == (wanted if wanted in offered else offered[-1])
    for version in offered:
        assert call(client, "ping", **{"MCP-Protocol-Version": version}).json()["result"] == {}
    for version in others:
        refused = call(client, "ping", **{"MCP-Protocol-Version": version})
        assert refused.status_code == 400 and refused.json()["error"]["code"] == -32022
        assert refused.json()["error"]["data"] == {"supported": [*offered, VERSION], "requested": version}


def test_newer_requests_carry_all_there_is_to_know(client: Client, engine: FakeEngine) -> None:
    result = newer(client, "server/discover").json()["result"]
    assert result["supportedVersions"] == [VERSION] and result["resultType"] == "complete" and result["ttlMs"] > 0
    assert newer(client, "tools/call", ASK).json()["result"]["structuredContent"]["answer"] == "Stanley Kubrick"
    assert newer(client, "ping").status_code == 404


@pytest.mark.parametrize(
    "headers", [{"MCP-Protocol-Version": "2025-11-25"}, {"Mcp-Method": "tools/list"}, {"Mcp-Name": "retrieve"}]
)
def test_header_and_body_must_agree(client: Client, engine: FakeEngine, headers: dict[str, str]) -> None:
    response = newer(client, "tools/call", ASK, **headers)
    assert response.status_code == 400 and response.json()["error"]["code"] == -32020 and engine.asked == []


@pytest.mark.django_db
def test_a_newer_request_without_its_envelope(client: Client) -> None:
    response = call(client, "tools/list", **{"MCP-Protocol-Version": VERSION, "Mcp-Method": "tools/list"})
    assert response.status_code == 400 and response.json()["error"]["code"] == -32602


def test_a_result_has_the_fields_of_its_description(client: Client, engine: FakeEngine) -> None:
    given = call(client, "tools/call", ASK).json()["result"]
    assert json.loads(given["content"][0]["text"]) == given["structuredContent"]
    assert given["structuredContent"].keys() == TOOLS["ask"].gives["properties"].keys()
    evidence = given["structuredContent"]["evidence"][0]
    assert evidence["quote"] == "Stanley Kubrick"
    described = TOOLS["ask"].gives["properties"]["evidence"]["items"]["properties"]
    assert evidence.keys() == described.keys()


def test_an_answer_says_how_sure_it_is_and_had_to_be(client: Client, engine: FakeEngine) -> None:
    engine.value |= {"min_confidence": 0.455, "confidence_offset": 3.0}
    told = call(client, "tools/call", ASK).json()["result"]["structuredContent"]
    kept = client.get(f"/api/v1/answers/{told['id']}").json()
    names = ("confidence", "min_confidence", "min_probability")
    assert [told[name] for name in names] == [kept[name] for name in names] and told["min_confidence"] == 0.455


# ---- who may, and how much


def test_where_not_everybody_may_ask_a_token_is_needed(
    client: Client, engine: FakeEngine, member: Person, settings: Any
) -> None:
    settings.REALM_PUBLIC = False
    for someone in (client, member.client):  # a session is no token: a page could use it
        refused = call(someone, "tools/call", ASK)
        problem(refused, 401)
        assert refused["WWW-Authenticate"].startswith("Bearer")
    problem(call(TokenClient(member.user, "feedback"), "tools/call", ASK), 403)
    assert engine.asked == []
    assert "result" in call(TokenClient(member.user, "ask"), "tools/call", ASK).json()
    assert AskedAnswer.objects.get().asker == member.user


def test_calls_are_counted_as_questions(client: Client, engine: FakeEngine, settings: Any) -> None:
    settings.ASK_RATE = "1/hour"
    first = call(client, "tools/call", ASK)
    assert first["RateLimit"].startswith('"ask";r=0;')
    refused = call(client, "tools/call", {**ASK, "name": "retrieve"})
    result = refused.json()["result"]
    assert result["isError"] and "Too many questions" in result["content"][0]["text"]
    assert 0 < int(refused["Retry-After"]) <= 3600 and len(engine.asked) == 1
    assert "tools" in call(client, "tools/list").json()["result"]


def test_pages_of_other_sites_are_refused(client: Client, engine: FakeEngine, settings: Any) -> None:
    assert call(client, "ping", Origin="http://testserver").status_code == 200
    problem(call(client, "tools/call", ASK, Origin="https://evil.example"), 403)
    settings.CORS_ALLOWED_ORIGINS = ["https://example.org"]
    assert call(client, "tools/call", ASK, Origin="https://example.org").status_code == 200
    assert len(engine.asked) == 1


@pytest.mark.django_db
@pytest.mark.parametrize("headers", [{}, {"Origin": "http://elsewhere.example"}])
def test_a_host_that_is_not_ours_is_refused(client: Client, engine: FakeEngine, headers: dict[str, str]) -> None:
    """Also where a page of that host sends it, as after DNS rebinding."""
    problem(call(client, "tools/call", ASK, Host="elsewhere.example", **headers), 400)
    assert engine.asked == []


@pytest.mark.django_db
def test_there_is_nothing_to_get(client: Client) -> None:
    for method in ("get", "delete"):
        problem(getattr(client, method)("/mcp", headers={"Accept": "application/json"}), 405)


# ---- what fails


@pytest.mark.django_db
def test_nothing_to_answer_with(client: Client, loader: Loader) -> None:
    result = call(client, "tools/call", ASK).json()["result"]
    assert result["isError"] and "Nothing is deployed" in result["content"][0]["text"]


def test_refusals_are_told_and_bugs_are_not(client: Client, engine: FakeEngine) -> None:
    engine.error = RealmError("All blocks are excluded.")
    result = call(client, "tools/call", ASK).json()["result"]
    assert result["isError"] and result["content"][0]["text"] == "All blocks are excluded."
    engine.error = KeyError("secret detail")
    response = call(client, "tools/call", ASK)
    assert response.json()["error"]["code"] == -32603 and b"secret" not in response.content
