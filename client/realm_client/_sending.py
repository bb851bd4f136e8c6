"""Generated from _async_sending.py by `python -m client.generate`: do not edit."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
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


class Sending:
    """The connection of an `AsyncClient`, which explains the arguments."""

    def __init__(
        self,
        address: str,
        *,
        token: str | None = None,
        retries: int | None = None,
        patience_s: float = 120.0,
        timeout: httpx.Timeout = TIMEOUT,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._http = httpx.Client(base_url=address, headers=headers, timeout=timeout, transport=transport)
        self._patience = partial(Patience, patience_s, retries)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close its connections."""
        self._http.close()

    def _do(self, call: Call[T]) -> T:
        patience = self._patience()
        while True:
            try:
                return parsed(call, checked(self._http.request(**call.arguments())))
            except (ApiError, httpx.TransportError) as error:
                if patience.was_done(error, call):
                    return None  # type: ignore[return-value]  # T is None then
                time.sleep(patience.pause_s(error, call, self._http.base_url))

    def _list(self, path: str, kind: type[T], filters: Mapping[str, Filters | None]) -> Iterator[T]:
        call: Call[Json] | None = list_call(path, filters)
        while call is not None:
            page = self._do(call)
            for one in page["results"]:
                yield record(kind, one)
            call = following_page(call, page)
