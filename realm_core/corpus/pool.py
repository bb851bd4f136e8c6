"""Bundles of raw articles through several worker processes, out again in the order in which they went in."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from realm_core.corpus.records import RawArticle
from realm_core.corpus.worker import prepare, to_request
from realm_core.runs.pipes import Workers

# A bundle: enough work to outweigh sending it, little enough to keep progress and memory smooth.
_BUNDLE_ARTICLES = 256
_BUNDLE_CHARACTERS = 1 << 19


@dataclass(frozen=True)
class Bundle:
    """Finished articles and blocks; position: records of the source that lie behind with them."""

    articles: pa.RecordBatch
    blocks: pa.RecordBatch
    position: int


@contextmanager
def prepared(raw: Iterable[RawArticle], processes: int | None, first: int) -> Iterator[Iterator[Bundle]]:
    """Bundles of cleaned and packed articles in the source's order.

    processes: 1 works in this process; None takes a worker process for each processor.
    first: records of the source before `raw`.
    """
    processes = processes or os.cpu_count() or 1
    bundles = _bundles(raw, first)
    if processes == 1:
        yield (_finished(prepare(request), position) for request, position in bundles)
        return
    workers = Workers(processes, ["realm_core.corpus.worker"], "cleans articles")
    try:
        yield (_finished(tables, position) for tables, position in workers.answers(bundles))
    finally:
        workers.close()


def _bundles(raw: Iterable[RawArticle], first: int) -> Iterator[tuple[bytes, int]]:
    """Requests to a worker, each with the position behind it."""
    held: list[RawArticle] = []
    characters = 0
    position = first
    for article in raw:
        held.append(article)
        characters += len(article.text)
        position += 1
        if len(held) >= _BUNDLE_ARTICLES or characters >= _BUNDLE_CHARACTERS:
            yield to_request(held), position
            held, characters = [], 0
    if held:
        yield to_request(held), position


def _finished(tables: tuple[bytes, bytes], position: int) -> Bundle:
    articles, blocks = (pa.ipc.open_stream(table).read_next_batch() for table in tables)
    return Bundle(articles, blocks, position)
