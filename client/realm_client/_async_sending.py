"""A connection to the server: what is sent, and sent again. `python -m client.generate` derives `_sending.py`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Self, TypeVar

import httpx

from realm_client._calls import (
    TIMEOUT,
    Call,
    Filters,
    Json,
    Patience,
    checked,
    following_page,
    list_call,
    parsed,
)
from realm_client._errors import ApiError
from realm_client._reading import record

T = TypeVar("T")


class AsyncSending:
    """The connection of an `AsyncClient`, which explains the arguments."""

    def __init__(
        self,
        address: str,
        *,
        token: str | None = None,
        retries: int | None = None,
        patience_s: float = 120.0,
        timeout: httpx.Timeout = TIMEOUT,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._http = httpx.AsyncClient(base_url=address, headers=headers, timeout=timeout, transport=transport)
        self._patience = partial(Patience, patience_s, retries)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close its connections."""
        await self._http.aclose()

    async def _do(self, call: Call[T]) -> T:
        patience = self._patience()
        while True:
            try:
                return parsed(call, checked(await self._http.request(**call.arguments())))
            except (ApiError, httpx.TransportError) as error:
                if patience.was_done(error, call):
                    return None  # type: ignore[return-value]  # T is None then
                await asyncio.sleep(patience.pause_s(error, call, self._http.base_url))

    async def _list(self, path: str, kind: type[T], filters: Mapping[str, Filters | None]) -> AsyncIterator[T]:
        call: Call[Json] | None = list_call(path, filters)
        while call is not None:
            page = await self._do(call)
            for one in page["results"]:
                yield record(kind, one)
            call = following_page(call, page)
