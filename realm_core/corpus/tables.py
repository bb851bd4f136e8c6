"""The files of a snapshot, and how articles and their blocks become rows of its two Arrow tables.

Legend: M links.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from realm_core.arrays import Rows
from realm_core.corpus.metadata import stated_column, stated_field
from realm_core.corpus.records import Article, Span, Stated, block_id

FORMAT = 1
ARTICLES_FILE = "articles.arrow"
BLOCKS_FILE = "blocks.arrow"
# Sorted first halves of the block ids, and the rows that they stand for: a lookup without a dictionary.
PREFIXES_FILE = "block_prefixes.npy"
ROWS_FILE = "block_rows.npy"
# int32 [M, 3]: block row, start and end in characters of the block's text; in order. Only where the source has links.
LINKS_FILE = "links.npy"
# int64 [R, 4], of `sharing.py`: passages that later articles share with the one that their block is stored with.
SHARED_FILE = "shared.npy"
MANIFEST_FILE = "manifest.json"

ARTICLES_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("title", pa.string()),
        ("url", pa.string()),
        ("text", pa.large_string()),
        ("sections", pa.list_(pa.struct([("heading", pa.string()), ("start", pa.int64())]))),
    ]
)
BLOCKS_SCHEMA = pa.schema(
    [("block_id", pa.string()), ("article", pa.int64()), ("start", pa.int64()), ("end", pa.int64())]
)
# Articles on their way to a snapshot bring along what is stated of each beside its text, and blocks their links: start,
# end, start, end, … in each block's text.
UNFINISHED_ARTICLES_SCHEMA = ARTICLES_SCHEMA.append(stated_field())
UNFINISHED_BLOCKS_SCHEMA = BLOCKS_SCHEMA.append(pa.field("links", pa.list_(pa.int32())))


def tokens_folder(snapshot: Path) -> Path:
    """Where the wordpieces of a snapshot are cached: hidden, beside its folder."""
    return snapshot.with_name(f".{snapshot.name}.tokens")


def postings_folder(snapshot: Path) -> Path:
    """Where its blocks by wordpiece are kept: hidden, beside its folder."""
    return snapshot.with_name(f".{snapshot.name}.postings")


def derived_folders(snapshot: Path) -> list[Path]:
    """What else has the words of a snapshot and goes with it; also what a killed process left unfinished."""
    kept = (tokens_folder(snapshot), postings_folder(snapshot))
    return [path for folder in kept for path in (folder, folder.with_name(f"{folder.name}.tmp")) if path.exists()]


def article_rows(articles: Sequence[Article]) -> pa.RecordBatch:
    columns = {name: [getattr(article, name) for article in articles] for name in ("id", "title", "url", "text")}
    sections = [[{"heading": one.heading, "start": one.start} for one in article.sections] for article in articles]
    return pa.RecordBatch.from_pydict({**columns, "sections": sections}, ARTICLES_SCHEMA)


def unfinished_rows(articles: Sequence[Article], stated: Sequence[Stated]) -> pa.RecordBatch:
    columns = [*article_rows(articles).columns, stated_column(stated)]
    return pa.RecordBatch.from_arrays(columns, schema=UNFINISHED_ARTICLES_SCHEMA)


def block_rows(
    articles: Sequence[Article], spans: Sequence[Sequence[Span]], links: Sequence[Sequence[Span]]
) -> pa.RecordBatch:
    """One row a block, with its links; `article` counts from the first of `articles`.

    spans: the blocks of each article. links: the links of each, of which those count that lie within one block.
    """
    ids: list[str] = []
    owners: list[int] = []
    starts: list[int] = []
    ends: list[int] = []
    links_within: list[list[int]] = []
    for row, (article, article_spans, article_links) in enumerate(zip(articles, spans, links, strict=True)):
        number = 0
        for start, end in article_spans:
            within: list[int] = []
            while number < len(article_links) and article_links[number][0] < end:
                link_start, link_end = article_links[number]
                if link_start >= start and link_end <= end:
                    within += (link_start - start, link_end - start)
                number += 1
            links_within.append(within)
            ids.append(block_id(article.title, article.text[start:end]))
            owners.append(row)
            starts.append(start)
            ends.append(end)
    columns = {"block_id": ids, "article": owners, "start": starts, "end": ends, "links": links_within}
    return pa.RecordBatch.from_pydict(columns, UNFINISHED_BLOCKS_SCHEMA)


def with_article_offset(blocks: pa.RecordBatch, offset: int) -> pa.RecordBatch:
    """The same blocks, their article rows counted from `offset` earlier ones."""
    return with_articles(blocks, blocks.column("article").to_numpy() + offset)


def with_articles(blocks: pa.RecordBatch, rows: Rows) -> pa.RecordBatch:
    """The same blocks in other article rows."""
    return blocks.set_column(1, BLOCKS_SCHEMA.field("article"), pa.array(rows, pa.int64()))
