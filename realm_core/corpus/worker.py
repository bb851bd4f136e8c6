"""Cleans, packs and hashes articles: the worker process of ingesting, `python -m realm_core.corpus.worker`.

A request is raw articles as JSON; a response is articles and blocks as Arrow streams.
"""

from __future__ import annotations

import json
import os
from dataclasses import astuple
from functools import lru_cache

import pyarrow as pa

from realm_core.corpus.cleaning import article_of
from realm_core.corpus.packing import Packer
from realm_core.corpus.records import Article, RawArticle, Span, Stated
from realm_core.corpus.tables import block_rows, unfinished_rows
from realm_core.runs.pipes import serve
from realm_core.text.wordpieces import Wordpieces


def to_request(articles: list[RawArticle]) -> bytes:
    """Raw articles as JSON."""
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


@lru_cache(maxsize=1)
def _packer() -> Packer:
    return Packer(Wordpieces.default())


def main() -> None:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # each worker uses one processor
    serve(prepare)


if __name__ == "__main__":
    main()
