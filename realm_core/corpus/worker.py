"""Cleans, packs and hashes articles, in order, in several worker processes: `python -m realm_core.corpus.worker`.

A request is raw articles as JSON; a response is articles and blocks as Arrow streams.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import astuple, dataclass
from functools import lru_cache

import pyarrow as pa

from realm_core.corpus.cleaning import article_of
from realm_core.corpus.packing import Packer
from realm_core.corpus.records import Article, RawArticle, Span, Stated
from realm_core.corpus.tables import block_rows, unfinished_rows
from realm_core.runs.pipes import Workers, serve
from realm_core.text.wordpieces import Wordpieces

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


def to_request(articles: list[RawArticle]) -> bytes:
    return json.dumps([astuple(article) for article in articles]).encode("ascii")


def prepare(request: bytes) -> tuple[bytes, bytes]:
    """Articles and their blocks, each an Arrow stream of one batch; article rows are relative to the batch."""
    articles: list[Article] = []
    links: list[tuple[Span, ...]] = []
    stated: list[Stated] = []
    for raw in map(RawArticle.of, json.loads(request)):
        if (cleaned := article_of(raw)) is not None:
            articles.append(cleaned[0])
            links.append(cleaned[1])
            stated.append(raw.stated)
    spans = _packer().pack(articles)
    return _to_bytes(unfinished_rows(articles, stated)), _to_bytes(block_rows(articles, spans, links))


def _to_bytes(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _prepared_batch(tables: tuple[bytes, bytes], position: int) -> PreparedBatch:
    articles, blocks = (pa.ipc.open_stream(table).read_next_batch() for table in tables)
    return PreparedBatch(articles, blocks, position)


@lru_cache(maxsize=1)
def _packer() -> Packer:
    return Packer(Wordpieces.default())


def main() -> None:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # each worker uses one processor
    serve(prepare)


if __name__ == "__main__":
    main()
