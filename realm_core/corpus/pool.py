"""Prepares batches of raw articles in several worker processes and yields the results in the order of the input."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

import pyarrow as pa

from realm_core.corpus.records import RawArticle
from realm_core.corpus.worker import prepare, to_request
from realm_core.runs.pipes import Workers

# A batch is large enough to outweigh the cost of sending it, and small enough for steady progress and memory.
_BATCH_ARTICLES = 256
_BATCH_CHARACTERS = 1 << 19


@dataclass(frozen=True)
class PreparedBatch:
    """Finished articles and blocks; position: records of the source read up to the end of this batch."""

    articles: pa.RecordBatch
    blocks: pa.RecordBatch
    position: int


@contextmanager
def prepared(raw: Iterable[RawArticle], processes: int | None, first: int) -> Iterator[Iterator[PreparedBatch]]:
    """Batches of cleaned and packed articles in the source's order.

    processes: 1 works in this process; None starts a worker process per processor.
    first: records of the source before `raw`.
    """
    processes = processes or os.cpu_count() or 1
    requests = _requests(raw, first)
    if processes == 1:
        yield (_prepared_batch(prepare(request), position) for request, position in requests)
        return
    with closing(Workers(processes, ["realm_core.corpus.worker"], "cleans articles")) as workers:
        yield (_prepared_batch(tables, position) for tables, position in workers.answers(requests))


def _requests(raw: Iterable[RawArticle], first: int) -> Iterator[tuple[bytes, int]]:
    """Requests to a worker, each with the source position after its articles."""
    held: list[RawArticle] = []
    characters = 0
    position = first
    for article in raw:
        held.append(article)
        characters += len(article.text)
        position += 1
        if len(held) >= _BATCH_ARTICLES or characters >= _BATCH_CHARACTERS:
            yield to_request(held), position
            held, characters = [], 0
    if held:
        yield to_request(held), position


def _prepared_batch(tables: tuple[bytes, bytes], position: int) -> PreparedBatch:
    articles, blocks = (pa.ipc.open_stream(table).read_next_batch() for table in tables)
    return PreparedBatch(articles, blocks, position)
