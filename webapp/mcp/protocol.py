"""JSON-RPC as in the Model Context Protocol, without state between messages.

Two generations of the protocol are supported. Up to revision 2025-11-25 a client starts with `initialize` and then
sends the revision in a header field. Since 2026-07-28 every request carries its context in `_meta` and repeats method
and name in header fields. https://modelcontextprotocol.io/specification
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import realm_core
from webapp.mcp.tools import TOOLS, Tool, ToolError

log = logging.getLogger(__name__)

# Not 2025-03-26, the one revision whose servers must accept batches.
HANDSHAKE: Final = ("2024-11-05", "2025-06-18", "2025-11-25")
SELF_CONTAINED: Final = ("2026-07-28",)

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
HEADER_MISMATCH: Final = -32020
UNSUPPORTED_VERSION: Final = -32022

_META: Final = "io.modelcontextprotocol/"
_SERVER: Final = {"name": "realm-qa", "title": "REALM question answering", "version": realm_core.__version__}
_CAPABILITIES: Final = {"tools": {"listChanged": False}}
_INSTRUCTIONS: Final = (
    "Answers factual questions from a corpus of text. `ask` returns an answer with its probability, the blocks that it "
    "was read from, and a permanent link to cite; `retrieve` finds blocks without reading them; `read_block` returns "
    "one of them with its neighbours. An answer of null means that the blocks hold none: do not make one up."
)
_SAME_FOR_S: Final = 3600  # the list of tools only changes with a release


@dataclass(frozen=True)
class Reply:
    """An HTTP status, and a JSON-RPC message if there is one."""

    status: int
    body: dict[str, Any] | None = None


class RpcError(Exception):
    """A JSON-RPC error with its HTTP status."""

    def __init__(self, code: int, message: str, *, status: int = 200, data: Any = None) -> None:
        super().__init__(message)
        self.code, self.status, self.data = code, status, data

    def reply(self, message_id: str | int | None) -> Reply:
        error = {"code": self.code, "message": str(self)} | ({} if self.data is None else {"data": self.data})
        return Reply(self.status, {"jsonrpc": "2.0", "id": message_id, "error": error})


@dataclass(frozen=True)
class _Message:
    id: str | int
    method: str
    params: dict[str, Any]
    self_contained: bool


def answer(body: Any, headers: Mapping[str, str], call: Callable[[Tool, dict[str, Any]], dict[str, Any]]) -> Reply:
    """The reply to one message.

    call: runs a tool for the sender of the message; raises ToolError if it cannot be done.
    """
    message_id = body.get("id") if isinstance(body, dict) and _is_id(body.get("id")) else None
    try:
        message = _read(body, headers)
        if message is None:  # a notification or an unexpected reply: nothing to do
            return Reply(202)
        result = _result(message, call)
    except RpcError as error:
        return error.reply(message_id)
    except Exception:
        log.exception("A tool failed")
        return RpcError(INTERNAL_ERROR, "Something went wrong here; it is in the log.").reply(message_id)
    if message.self_contained:
        result = {"resultType": "complete", **result, "_meta": {f"{_META}serverInfo": _SERVER}}
    return Reply(200, {"jsonrpc": "2.0", "id": message.id, "result": result})


def _read(body: Any, headers: Mapping[str, str]) -> _Message | None:
    if not isinstance(body, dict) or body.get("jsonrpc") != "2.0":
        raise RpcError(INVALID_REQUEST, "This is no message of JSON-RPC 2.0 (batches are not taken).", status=400)
    method, params = body.get("method"), body.get("params", {})
    if method is None and ("result" in body or "error" in body):
        return None
    if not isinstance(method, str) or not isinstance(params, dict):
        raise RpcError(INVALID_REQUEST, "method must be a string and params an object.", status=400)
    if "id" not in body:
        return None
    if not _is_id(body["id"]):
        raise RpcError(INVALID_REQUEST, "id must be a string or a whole number.", status=400)
    return _Message(body["id"], method, params, _is_self_contained(method, params, headers))


def _is_id(value: Any) -> bool:
    return isinstance(value, str) or type(value) is int


def _is_self_contained(method: str, params: dict[str, Any], headers: Mapping[str, str]) -> bool:
    """Whether a message is of the newer generation; RpcError if its version is unknown or contradicts the header."""
    sent = params.get("_meta")
    meta: dict[str, Any] = sent if isinstance(sent, dict) else {}
    in_body = meta.get(f"{_META}protocolVersion")
    in_header = headers.get("MCP-Protocol-Version")
    version = in_body or in_header
    if version is None or method == "initialize":  # whose params name the version instead
        return False
    if version not in HANDSHAKE + SELF_CONTAINED:
        data = {"supported": [*HANDSHAKE, *SELF_CONTAINED], "requested": version}
        raise RpcError(UNSUPPORTED_VERSION, "Unsupported protocol version", status=400, data=data)
    if version in HANDSHAKE:
        return False
    if in_body is None or not isinstance(meta.get(f"{_META}clientCapabilities"), dict):
        missing = f"params._meta must name {_META}protocolVersion and {_META}clientCapabilities."
        raise RpcError(INVALID_PARAMS, missing, status=400)
    expected = {"MCP-Protocol-Version": in_body, "Mcp-Method": method}
    if method == "tools/call":
        expected["Mcp-Name"] = params.get("name")
    for name, value in expected.items():
        if headers.get(name) != value:
            raise RpcError(HEADER_MISMATCH, f"The header field {name} differs from the body.", status=400)
    return True


def _result(message: _Message, call: Callable[[Tool, dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    match message.method:
        case "tools/list":
            listed = {"tools": [tool.listed() for tool in TOOLS.values()]}
            return listed | (_kept_for() if message.self_contained else {})
        case "tools/call":
            return _called(message.params, call)
        case "server/discover" if message.self_contained:
            return {
                "supportedVersions": list(SELF_CONTAINED),
                "capabilities": _CAPABILITIES,
                "instructions": _INSTRUCTIONS,
                **_kept_for(),
            }
        case "initialize" if not message.self_contained:
            wanted = message.params.get("protocolVersion")
            return {
                "protocolVersion": wanted if wanted in HANDSHAKE else HANDSHAKE[-1],
                "capabilities": _CAPABILITIES,
                "serverInfo": _SERVER,
                "instructions": _INSTRUCTIONS,
            }
        case "ping" if not message.self_contained:
            return {}
    status = 404 if message.self_contained else 200
    raise RpcError(METHOD_NOT_FOUND, "Method not found", status=status, data=message.method)


def _kept_for() -> dict[str, Any]:
    return {"ttlMs": _SAME_FOR_S * 1000, "cacheScope": "public"}


def _called(params: dict[str, Any], call: Callable[[Tool, dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    name, arguments = params.get("name"), params.get("arguments", {})
    tool = TOOLS.get(name) if isinstance(name, str) else None
    if tool is None:
        raise RpcError(INVALID_PARAMS, f"There is no tool {name!r}.")
    if not isinstance(arguments, dict):
        raise RpcError(INVALID_PARAMS, "arguments must be an object.")
    try:
        content = call(tool, arguments)
    except ToolError as error:  # the calling model can read the error and try again
        return {"content": [{"type": "text", "text": str(error)}], "isError": True}
    text = json.dumps(content, ensure_ascii=False)
    return {"content": [{"type": "text", "text": text}], "structuredContent": content, "isError": False}
