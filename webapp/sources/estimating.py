"""Estimates for a dump, measured on this machine: fetching, ingesting, what its search needs, the disk.

    beginning of the dump ──▶ rate of the connection
                          └─▶ articles, as ingested ──▶ seconds and bytes of the whole, by its share of the bytes

Nothing is kept of the beginning. The whole is assumed to be like it, so these are estimates.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

import pyarrow as pa

from realm_core.corpus.mediawiki import MediaWikiSource
from realm_core.corpus.records import RawArticle
from realm_core.errors import RealmError
from realm_core.files import disk_errors
from realm_core.index.choice import EXACT_ROWS, choose
from webapp.sources.dumps import Dump, beginning, there_bytes
from webapp.storage.places import sources_dir

MEASURED_S: Final = 5.0  # for the connection, and again for ingesting
_ARTICLES_AT_ONCE: Final = 32
_VECTOR_BYTES: Final = 2  # of each dimension, as stored
_POSTINGS_BYTES: Final = 570  # of a block; docs/results.md, “Words in larger corpora”


@dataclass(frozen=True)
class Ingesting:
    """How the beginning of a dump was ingested, with one processor.

    share: of the bytes of the whole dump. reading_s: unpacking and parsing, which one process does. cleaning_s:
    cleaning and packing, which all processes share. block_bytes: of a corpus, for each block. words_s: for each block,
    in which its wordpieces are found, so that words find it.
    """

    share: float
    reading_s: float
    cleaning_s: float
    block_bytes: float
    words_s: float

    @property
    def whole_s(self) -> float:
        """Seconds for the whole dump on all processors of this machine."""
        shared_s = (self.reading_s + self.cleaning_s) / (os.cpu_count() or 1)
        return max(self.reading_s, shared_s) / self.share


@dataclass(frozen=True)
class Disk:
    """Bytes of the data folder's disk. fetched: what is still to be fetched. lists: of approximate search, 0 without.

    words: by which a corpus of up to a million blocks is searched, beside it.
    parts: earlier parts of a corpus that answers part by part.
    """

    fetched: float
    corpus: float
    vectors: float
    words: float
    lists: float
    parts: float
    free: int

    @property
    def needed(self) -> float:
        """At the moment that takes most: a corpus and its lists are there twice while they are written."""
        index = self.vectors + self.words + 2 * self.lists
        return self.fetched + self.parts + self.corpus + max(self.corpus, index)


def fetching_s(dump: Dump, bytes_a_second: float) -> float:
    """Seconds that fetching takes; what is here already does not count."""
    return (dump.size_bytes - there_bytes(dump)) / bytes_a_second


def sampled(dump: Dump) -> tuple[Ingesting, float]:
    """How its beginning is ingested, and the bytes that come in a second. RealmError where it cannot be read."""
    head, rate = beginning(dump, MEASURED_S)
    with tempfile.TemporaryDirectory(prefix="realm-dump-") as folder:
        path = Path(folder, dump.name)
        with disk_errors(path):
            path.write_bytes(head)
        try:
            return _ingested(MediaWikiSource(path), len(head), dump), rate
        except RealmError as error:
            raise RealmError(str(error).replace(str(path), f"The beginning of {dump.name}")) from None


def _ingested(source: MediaWikiSource, head_bytes: int, dump: Dump) -> Ingesting:
    from realm_core.corpus.worker import prepare, to_request  # loads the tokenizer, which no web process needs
    from realm_core.text.wordpieces import Wordpieces

    reading_s = cleaning_s = words_s = 0.0
    tables_bytes = blocks = 0
    articles = _until_cut(source, head_bytes < dump.size_bytes)
    while reading_s + cleaning_s < MEASURED_S:
        began = time.monotonic()
        if not (raw := list(islice(articles, _ARTICLES_AT_ONCE))):
            break
        reading_s += time.monotonic() - began
        if not cleaning_s:
            prepare(to_request(raw))  # the first time loads the wordpieces
        began = time.monotonic()
        made = prepare(to_request(raw))
        cleaning_s += time.monotonic() - began
        texts = pa.ipc.open_stream(made[0]).read_all()["text"].to_pylist()
        began = time.monotonic()
        Wordpieces.default().ids(texts)
        words_s += time.monotonic() - began
        tables_bytes += sum(map(len, made))
        blocks += pa.ipc.open_stream(made[1]).read_all().num_rows
    if not blocks:
        raise RealmError(f"The beginning of {dump.name} holds no article, so this is no dump of articles.")
    share = (source.share_read() or 1.0) * head_bytes / dump.size_bytes
    return Ingesting(share, reading_s, cleaning_s, tables_bytes / blocks, words_s / blocks)


def _until_cut(source: MediaWikiSource, is_cut: bool) -> Iterator[RawArticle]:
    """Its articles, up to where a beginning ends in the middle of something."""
    try:
        yield from source.articles(0)
    except RealmError:
        if not is_cut:
            raise


def words_s(blocks: int, ingesting: Ingesting) -> float:
    """Seconds until words find blocks; 0 where so many are found by their vectors alone."""
    return blocks * ingesting.words_s if _has_words(blocks) else 0.0


def _has_words(blocks: int) -> bool:
    return blocks <= EXACT_ROWS  # `MOST_ROWS` of `postings.py`, which loads torch


def lists_s(blocks: int, dimension: int) -> float:
    """Seconds that the lists of approximate search take; 0 where so many blocks are searched exactly."""
    choice = choose(blocks, dimension)
    if choice.kind == "exact":
        return 0.0
    from realm_core.index.approximate_build import expected_s  # loads torch

    return expected_s(blocks, dimension, choice)


def disk(dump: Dump, ingesting: Ingesting, blocks: int, dimension: int, *, in_parts: bool) -> Disk:
    """The disk space that is needed, and that is free. in_parts: earlier parts stay, an eighth of the next one each."""
    from realm_core.index.approximate_build import lists_bytes  # loads torch

    corpus, vectors = blocks * ingesting.block_bytes, float(blocks * dimension * _VECTOR_BYTES)
    lists = float(lists_bytes(blocks, dimension, choose(blocks, dimension)))
    words = float(blocks * _POSTINGS_BYTES) if _has_words(blocks) else 0.0
    words_of_parts = min(blocks / 7, EXACT_ROWS) * _POSTINGS_BYTES
    folder = sources_dir()
    while not folder.exists():
        folder = folder.parent
    return Disk(
        fetched=float(dump.size_bytes - there_bytes(dump)),
        corpus=corpus,
        vectors=vectors,
        words=words,
        lists=lists,
        parts=(corpus + vectors + lists) / 7 + words_of_parts if in_parts else 0.0,
        free=shutil.disk_usage(folder).free,
    )
