"""The heavy part of ingesting: clean, pack, hash. Also a process of its own, `python -m realm_core.corpus.worker`.

As a process it reads requests from its standard input and answers on its standard output until the input
ends, as it does when the parent is gone, by whatever cause. A frame is a length (8 bytes, big-endian) and
so many bytes; a request is raw articles as JSON, an answer is two frames, articles and blocks as Arrow
streams, or an empty frame and a traceback.
"""

from __future__ import annotations

import json
import os
import signal
import struct
import sys
import traceback
from dataclasses import astuple
from functools import lru_cache
from typing import IO

import pyarrow as pa

from realm_core.corpus.cleaning import article_of
from realm_core.corpus.packing import Packer
from realm_core.corpus.records import RawArticle
from realm_core.corpus.tables import article_rows, block_rows
from realm_core.text.wordpieces import Wordpieces

_LENGTH = struct.Struct(">Q")


def to_request(articles: list[RawArticle]) -> bytes:
    """Raw articles as JSON."""
    return json.dumps([astuple(article) for article in articles]).encode("ascii")


def prepare(request: bytes) -> tuple[bytes, bytes]:
    """Articles and their blocks, each an Arrow stream of one batch; block rows count articles from the first."""
    raw = [RawArticle(*fields) for fields in json.loads(request)]
    articles = [article for article in map(article_of, raw) if article is not None]
    spans = _packer().pack(articles)
    return _to_bytes(article_rows(articles)), _to_bytes(block_rows(articles, spans))


def read_frame(stream: IO[bytes]) -> bytes | None:
    """The next frame; None at the end of the stream."""
    header = stream.read(_LENGTH.size)
    if len(header) < _LENGTH.size:
        return None
    length: int = _LENGTH.unpack(header)[0]
    content = stream.read(length)
    return content if len(content) == length else None


def write_frame(stream: IO[bytes], content: bytes) -> None:
    stream.write(_LENGTH.pack(len(content)))
    stream.write(content)


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
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the other workers have the other processors
    for number in (signal.SIGINT, signal.SIGTERM):  # meant for the parent, which closes our input in its own time
        signal.signal(number, signal.SIG_IGN)
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    while (request := read_frame(requests)) is not None:
        try:
            first, second = prepare(request)
        except Exception:
            first, second = b"", traceback.format_exc().encode()
        write_frame(answers, first)
        write_frame(answers, second)
        answers.flush()


if __name__ == "__main__":
    main()
