"""Writing a layer: the files of a snapshot, a table of documents, and the vectors of a generation.

A segment is one folder that is both a snapshot and a generation; a folded base is two folders. Texts are written in
batches, so that a base may have any size.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from realm_core.arrays import Mask, Rows
from realm_core.corpus import tables
from realm_core.corpus.metadata import DOCUMENTS_SCHEMA
from realm_core.corpus.records import Span
from realm_core.corpus.store import Snapshot
from realm_core.corpus.writer import TablesWriter
from realm_core.files import new_folder, sha256_of_file, write_json
from realm_core.index.manifest import generation_manifest
from realm_core.index.tasks import SHARD_ROWS
from realm_core.living.documents import LivingDocument, document_rows
from realm_core.living.layer import HeldVectors, Layer
from realm_core.tensors import save_tensors

_ARTICLES_AT_ONCE = 4096


def write_vectors(folder: Path, pieces: Iterator[Tensor]) -> list[dict[str, Any]]:
    """Write vectors, float16 [rows, D] per part, as the shards of a generation; returns their manifest entries."""
    shards: list[dict[str, Any]] = []
    start = 0
    for number, vectors_RD in enumerate(pieces):
        path, stop = folder / f"vectors-{number:05d}.safetensors", start + len(vectors_RD)
        save_tensors(path, {"vectors": vectors_RD})
        shards.append({"file": path.name, "start": start, "stop": stop, "sha256": sha256_of_file(path)})
        start = stop
    return shards


def segment_id(documents: Sequence[LivingDocument], block_ids: Sequence[Sequence[str]], block_hash: str) -> str:
    """The name of a segment: a hash of its documents, their blocks and the embedder of its vectors."""
    digest = hashlib.sha256(block_hash.encode())
    for document, ids in zip(documents, block_ids, strict=True):
        digest.update(f"\n{document.canonical()}\n{' '.join(ids)}".encode())
    return digest.hexdigest()[:16]


def segment_blocks(documents: Sequence[LivingDocument], spans: Sequence[Sequence[Span]]) -> pa.RecordBatch:
    """The blocks of a segment, article rows counted from its first."""
    articles = [document.article() for document in documents]
    return tables.block_rows(articles, spans, [()] * len(articles))


def segment_in_memory(
    segment: str,
    documents: Sequence[LivingDocument],
    blocks: pa.RecordBatch,
    vectors_ND: Tensor,
    *,
    name: str,
    block_hash: str,
) -> Layer:
    """The layer that `write_segment` would publish, without a file. segment: its id."""
    articles = tables.article_rows([document.article() for document in documents])
    snapshot = Snapshot.in_memory(segment, articles, blocks, name)
    metadata = pa.Table.from_batches([document_rows(documents)])
    return Layer(segment, snapshot, HeldVectors(vectors_ND, block_hash, segment), metadata)


def write_segment(
    folder: Path,
    documents: Sequence[LivingDocument],
    blocks: pa.RecordBatch,
    vectors_ND: Tensor,
    *,
    name: str,
    block_hash: str,
) -> None:
    """Publish a segment as `folder`, whose name is its id; name: of the corpus."""
    with _published(folder, vectors_ND, name, block_hash) as writer:
        articles = tables.article_rows([document.article() for document in documents])
        writer.add(articles, blocks, document_rows(documents))


def copy_of_segment(folder: Path, layer: Layer, articles_A: Mask, *, name: str, block_hash: str) -> None:
    """Publish a segment with some of the documents of another; nothing is packed or embedded again."""
    rows_N = articles_A[layer.owners_N]
    with _published(folder, layer.vectors_at(np.flatnonzero(rows_N)), name, block_hash) as writer:
        copy_rows(layer, articles_A, rows_N, writer)


@contextmanager
def _published(folder: Path, vectors_ND: Tensor, name: str, block_hash: str) -> Iterator[TablesWriter]:
    with new_folder(folder, folder.with_name(f".{folder.name}.partial")) as temporary:
        with TablesWriter(temporary) as writer:
            yield writer
        shards = write_vectors(temporary, iter([vectors_ND]))
        about = generation_manifest(folder.name, folder.name, block_hash, "", vectors_ND.shape[1], shards)
        manifest = writer.manifest(folder.name, {"name": name, **about}, *(shard["file"] for shard in shards))
        write_json(temporary / tables.MANIFEST_FILE, manifest, sealed=True)


def copy_rows(
    layer: Layer,
    articles_A: Mask,
    rows_N: Mask,
    writer: TablesWriter,
    *,
    others_N: Mask | None = None,
    new_ids: Mapping[int, str] = MappingProxyType({}),
    collection: str = "",
) -> None:
    """Add the marked articles and blocks of a layer, with the articles' metadata.

    others_N: blocks of these articles that are stored with an earlier one.
    new_ids: of articles that are called otherwise from now on, by row. collection: of articles without one.
    """
    for start in range(0, layer.articles, _ARTICLES_AT_ONCE):
        stop = min(start + _ARTICLES_AT_ONCE, layer.articles)
        kept = articles_A[start:stop]
        if not kept.any():
            continue
        articles = layer.article_table.slice(start, stop - start)
        if renamed := {row - start: new_ids[row] for row in range(start, stop) if row in new_ids}:
            ids = [renamed.get(row, one) for row, one in enumerate(articles.column("id").to_pylist())]
            articles = articles.set_column(0, tables.ARTICLES_SCHEMA.field("id"), pa.array(ids, pa.string()))
        known = layer.known_rows(start, stop)
        if collection:
            names = [name or collection for name in known.column("collection").to_pylist()]
            place = DOCUMENTS_SCHEMA.get_field_index("collection")
            known = known.set_column(place, DOCUMENTS_SCHEMA.field(place), pa.array(names, pa.string()))
        marked = pa.array(kept)
        writer.add(
            _batch(articles.filter(marked)),
            _blocks(layer, rows_N, start, kept),
            _batch(known.filter(marked)),
            None if others_N is None else _blocks(layer, others_N, start, kept),
        )


def _blocks(layer: Layer, rows_N: Mask, first_article: int, kept_A: Mask) -> pa.RecordBatch:
    """The marked blocks of consecutive articles, of which some are kept; articles counted from the first kept one."""
    first, last = np.searchsorted(layer.owners_N, [first_article, first_article + len(kept_A)]).tolist()
    rows_M = np.flatnonzero(rows_N[first:last]) + first
    owners = (np.cumsum(kept_A) - 1)[layer.owners_N[rows_M] - first_article]
    return _batch(tables.with_articles(layer.block_rows(rows_M), owners))


def _batch(table: pa.Table) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


def vectors_of(layers: Sequence[Layer], rows: Sequence[Rows]) -> Iterator[Tensor]:
    """The vectors of some rows of each layer, layer by layer, in parts of a shard."""

    total = sum(map(len, rows))
    firsts = np.cumsum([0, *map(len, rows)])
    for start in range(0, total, SHARD_ROWS):
        stop = min(start + SHARD_ROWS, total)
        parts = [
            layer.vectors_at(own[max(start - first, 0) : max(stop - first, 0)])
            for layer, own, first in zip(layers, rows, firsts.tolist(), strict=False)
        ]
        yield torch.cat(parts)
