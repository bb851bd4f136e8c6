"""The Model Context Protocol against a running server, by the official client library, in both ways of speaking."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

from tests.clients.conftest import Running
from tests.tiny import ARTICLES

QUESTION = "What is the capital of Bhutan?"


def speak(running: Running, mode: str, work: Callable[[Client], Awaitable[None]], **headers: str) -> None:
    """Do something with a client that has connected."""

    async def connected() -> None:
        async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
            transport = streamable_http_client(f"{running.address}/mcp", http_client=http)
            async with Client(transport, mode=mode) as client:
                await work(client)

    asyncio.run(connected())


@pytest.mark.parametrize(("mode", "version"), [("legacy", "2025-11-25"), ("auto", "2026-07-28")])
def test_an_agent_asks_retrieves_and_reads(running: Running, mode: str, version: str) -> None:
    async def work(client: Client) -> None:
        assert client.protocol_version == version
        assert client.server_info is not None and client.server_info.name == "realm-qa"
        assert client.instructions is not None and "permanent link" in client.instructions
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools] == ["ask", "retrieve", "read_block", "collections"]

        # The library checks what comes back against the tool's output schema.
        asked = await client.call_tool("ask", {"question": QUESTION, "k": 3})
        answer: Any = asked.structured_content
        assert not asked.is_error and answer["question"] == QUESTION and len(answer["evidence"]) == 3
        assert sum(block["prior"] for block in answer["evidence"]) == pytest.approx(1)
        async with httpx2.AsyncClient() as http:
            page = await http.get(answer["link"])
            kept = (await http.get(f"{running.address}/api/v1/answers/{answer['id']}")).json()
        assert page.status_code == 200 and QUESTION in page.text
        assert kept["model"] == answer["model"] and [b["block_id"] for b in kept["evidence"]] == [
            b["block_id"] for b in answer["evidence"]
        ]
        for block in answer["evidence"]:
            assert block["quote"] is None or block["quote"] in block["text"]

        found: Any = (await client.call_tool("retrieve", {"question": QUESTION, "k": 2})).structured_content
        assert [block["rank"] for block in found["blocks"]] == [1, 2]
        block_id = found["blocks"][0]["block_id"]
        block: Any = (await client.call_tool("read_block", {"block_id": block_id})).structured_content
        assert block["title"] in ARTICLES and block["text"] == found["blocks"][0]["text"]

    speak(running, mode, work)


def test_what_a_model_does_wrong_it_is_told(running: Running) -> None:
    async def work(client: Client) -> None:
        for tool, arguments, said in (
            ("ask", {"question": "", "k": 5}, "Write a question"),
            ("ask", {"question": "Who?", "k": 99}, "between 1 and 50"),
            ("ask", {"question": "Who?", "top_k": 5}, "top_k: There is no such field."),
            ("retrieve", {}, "question: This field is required."),
            ("read_block", {"block_id": "f" * 32}, "There is no block"),
        ):
            result = await client.call_tool(tool, arguments)
            assert result.is_error and said in result.content[0].text, result  # type: ignore[union-attr]
        with pytest.raises(MCPError, match="no tool"):
            await client.call_tool("delete_everything", {})

    speak(running, "legacy", work)


def test_with_a_token_the_answer_is_ones_own(running: Running) -> None:
    async def work(client: Client) -> None:
        asked: Any = (await client.call_tool("ask", {"question": "Who was Marie Curie?"})).structured_content
        async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {running.asker}"}) as http:
            own = (await http.get(f"{running.address}/api/v1/answers?page_size=1")).json()["results"]
        assert own[0]["id"] == asked["id"]

    speak(running, "auto", work, Authorization=f"Bearer {running.asker}")
