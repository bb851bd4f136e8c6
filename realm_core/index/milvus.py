"""The vectors of a generation in Milvus, an existing vector database: filled once, then searched.

    collection realm_GENERATION_DIGEST  `row` (the primary key) and `vector`, metric IP; the digest is of the files
    alias      realm_GENERATION         given to a collection when all its rows are there and indexed

A collection without its alias is unfinished, and is filled further. A search names the collection and
not the alias, so that rows of two generations never mix while one replaces the other.

Loads neither torch nor FAISS, and pymilvus only when it connects. Legend: B queries, R rows of a batch, D dimension,
C candidates.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from realm_core.arrays import Rows
from realm_core.errors import EngineUnavailable, RealmError
from realm_core.index.choice import MilvusServer

Vectors = np.ndarray[Any, np.dtype[np.float32]]

MOST_FOUND = 16_384  # Milvus's limit of results for one query
_SEARCH_WITHIN_S = 10.0  # then waiting questions are refused
_WORK_WITHIN_S = 120.0  # any other call; long enough for a server to restart
_NOT_LOADED = 101  # Milvus's code for a collection that was released, say by an operator or a restart
_LOOK_S = 0.2  # between two looks at an index that the server builds
_BATCH_BYTES = 4 << 20  # a server of Milvus takes messages of 64 MB at most
# A server that is back is noticed within a second, where gRPC would wait for up to two minutes; and pymilvus's pings
# without a call under way are more than servers of gRPC take unless they are configured so.
_CONNECTION = {"grpc.max_reconnect_backoff_ms": 1000, "grpc.keepalive_permit_without_calls": False}
_ROW, _VECTOR = "row", "vector"


class MilvusVectors:
    """One generation on a server. Every method raises `EngineUnavailable` if the server fails.

    manifest: the generation's. For several threads at once.
    """

    def __init__(self, server: MilvusServer, manifest: Mapping[str, Any]) -> None:
        self.server = server
        self.generation, self.rows, self._dimension = str(manifest["generation"]), manifest["rows"], manifest["dim"]
        files = json.dumps([shard["sha256"] for shard in manifest["shards"]])
        self.alias = _alias(self.generation)
        self.collection = f"{self.alias}_{hashlib.sha256(files.encode()).hexdigest()[:16]}"
        self._client = _connected(server)

    def is_complete(self) -> bool:
        """Whether all rows are there and indexed."""
        with _asking(self.server):
            if not self._client.has_collection(self.collection, timeout=_WORK_WITHIN_S):
                return False
            listed = self._client.list_aliases(self.collection, timeout=_WORK_WITHIN_S)
            return self.alias in listed["aliases"]

    def fill(self, read: Callable[[int, int], Vectors], progress: Callable[[int], object]) -> None:
        """Insert what is missing, and have it indexed. Ended anywhere, the next call goes on from there.

        read: vectors [R, D] of the rows from one to another. progress: called with the number of rows there; may raise.
        """
        with _asking(self.server):
            begun = self._client.has_collection(self.collection, timeout=_WORK_WITHIN_S)
            if not begun:
                self._create()
            self._client.load_collection(self.collection, timeout=_WORK_WITHIN_S)
            batch = max(1, _BATCH_BYTES // (4 * self._dimension))
            for start in range(0, self.rows, batch):
                stop = min(start + batch, self.rows)
                progress(start)
                if not (begun and self._count(f"{_ROW} >= {start} and {_ROW} < {stop}") == stop - start):
                    # Milvus would keep rows twice that are inserted twice, and two processes may fill one collection.
                    rows = zip(range(start, stop), read(start, stop), strict=True)
                    data = [{_ROW: row, _VECTOR: vector_D} for row, vector_D in rows]
                    self._client.upsert(self.collection, data, timeout=_WORK_WITHIN_S)
            self._client.flush(self.collection, timeout=_WORK_WITHIN_S)
            while self._client.describe_index(self.collection, _VECTOR, timeout=_WORK_WITHIN_S)["pending_index_rows"]:
                progress(self.rows)
                time.sleep(_LOOK_S)
            if (found := self._count("")) != self.rows:
                raise EngineUnavailable(
                    f"Milvus at {self.server.uri} has {found:,} vectors of the index {self.generation}, "
                    f"not {self.rows:,}."
                )
            progress(self.rows)
            known = self.alias in self._client.list_aliases(timeout=_WORK_WITHIN_S)["aliases"]
            name = self._client.alter_alias if known else self._client.create_alias
            name(self.collection, self.alias, timeout=_WORK_WITHIN_S)

    def search(self, queries_BD: Vectors, count: int, expression: str = "") -> list[Rows]:
        """Rows [C ≤ count] for each query, the best first. expression: which rows may be found, as Milvus writes it."""
        from pymilvus.exceptions import MilvusException

        with _asking(self.server):
            try:
                return self._find(queries_BD, count, expression)
            except MilvusException as error:
                if error.code != _NOT_LOADED:
                    raise
                self._client.load_collection(self.collection, timeout=_WORK_WITHIN_S)
                return self._find(queries_BD, count, expression)

    def _find(self, queries_BD: Vectors, count: int, expression: str) -> list[Rows]:
        found = self._client.search(
            self.collection,
            data=list(queries_BD),
            anns_field=_VECTOR,
            filter=expression,
            limit=min(count, MOST_FOUND),
            output_fields=[_ROW],
            timeout=_SEARCH_WITHIN_S,
        )
        return [np.fromiter((hit[_ROW] for hit in hits), np.int64) for hits in found]

    def _create(self) -> None:
        from pymilvus import DataType, MilvusClient

        schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field(_ROW, DataType.INT64, is_primary=True)
        schema.add_field(_VECTOR, DataType.FLOAT_VECTOR, dim=self._dimension)
        index = MilvusClient.prepare_index_params()
        index.add_index(_VECTOR, index_type="AUTOINDEX", metric_type="IP")
        self._client.create_collection(self.collection, schema=schema, index_params=index, timeout=_WORK_WITHIN_S)

    def _count(self, expression: str) -> int:
        """The number of rows, with those just inserted."""
        found = self._client.query(
            self.collection,
            filter=expression,
            output_fields=["count(*)"],
            consistency_level="Strong",
            timeout=_WORK_WITHIN_S,
        )
        return int(found[0]["count(*)"])


def drop(server: MilvusServer, generation: str) -> list[str]:
    """Remove a generation from a server; the names of its collections. `EngineUnavailable` as above."""
    client, alias = _connected(server), _alias(generation)
    with _asking(server):
        own = re.compile(rf"{alias}_[0-9a-f]{{16}}")
        gone = [name for name in client.list_collections(timeout=_WORK_WITHIN_S) if own.fullmatch(name)]
        if alias in client.list_aliases(timeout=_WORK_WITHIN_S)["aliases"]:  # Milvus drops no collection that has one
            client.drop_alias(alias, timeout=_WORK_WITHIN_S)
        for name in gone:
            client.drop_collection(name, timeout=_WORK_WITHIN_S)
    return gone


def not_among(rows: Sequence[int]) -> str:
    """The expression that excludes some rows."""
    return f"{_ROW} not in {list(rows)}"


def within(runs: Iterable[tuple[int, int]]) -> str:
    """The expression of the rows from one to another, in one of several runs."""
    return " or ".join(f"({_ROW} >= {start} and {_ROW} < {stop})" for start, stop in runs)


def _alias(generation: str) -> str:
    return "realm_" + re.sub(r"\W", "_", generation, flags=re.ASCII)


def _connected(server: MilvusServer) -> Any:
    try:
        from pymilvus import MilvusClient
    except ImportError:
        raise RealmError("To search in Milvus, install the package pymilvus (docs/operations.md, Milvus).") from None
    # It would log each failure with a traceback; here it is one sentence.
    logging.getLogger("pymilvus").setLevel(logging.CRITICAL)
    with _asking(server):
        return MilvusClient(server.uri, token=server.token, timeout=_SEARCH_WITHIN_S, grpc_options=_CONNECTION)


@contextmanager
def _asking(server: MilvusServer) -> Iterator[None]:
    """Turn errors of pymilvus into a sentence that names the server."""
    import grpc
    from pymilvus.exceptions import MilvusException

    try:
        yield
    except grpc.RpcError as error:
        raise _unavailable(server, error.code(), str(error.details())) from None
    except MilvusException as error:
        raise _unavailable(server, error.code, error.message) from None


def _unavailable(server: MilvusServer, code: Any, message: str) -> EngineUnavailable:
    import grpc
    from pymilvus.client.types import Status

    away = (Status.CONNECT_FAILED, grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
    if code in away:
        return EngineUnavailable(f"Milvus at {server.uri} does not answer.")
    said = (message.strip().splitlines() or ["no reason is given"])[0].rstrip(".")
    return EngineUnavailable(f"Milvus at {server.uri} refuses: {said}.")
