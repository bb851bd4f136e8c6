"""Makes a published snapshot from finished parts: remove duplicates, concatenate, index the ids, publish.

It reads the parts twice, one at a time; sorting the ids takes about 24 bytes per block (0.3 GB for English Wikipedia).

Article ids are unique in a snapshot: the first of several articles with the same id is kept. So are block ids: of
several blocks with the same title and text the first is kept, because duplicates would displace other blocks from the
top k; which other articles have it is noted (`sharing.py`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from realm_core.arrays import save_array
from realm_core.corpus import tables
from realm_core.corpus.metadata import DOCUMENTS_FILE, DOCUMENTS_SCHEMA, completed
from realm_core.corpus.packing import MAX_WORDPIECES
from realm_core.corpus.repetition import FirstOnly, Numbers, id_digest, id_prefixes, recurring
from realm_core.corpus.sharing import SharedPassages
from realm_core.corpus.work import WorkFolder
from realm_core.errors import RealmError
from realm_core.files import disk_errors, read_json, remove_folder, sha256_of_file, write_json
from realm_core.object_store import publish, put_folder
from realm_core.runs.activity import Activity

_UNFINISHED_LINKS_FILE = "links.part"  # raw numbers without a header: their count is known only at the end


@dataclass
class _Counts:
    articles: int = 0
    blocks: int = 0
    links: int = 0
    repeated_articles: int = 0
    repeated_blocks: int = 0
    shared: int = 0


@dataclass(frozen=True)
class _Survey:
    """A first look at the parts: prefixes that several article ids share, and several block ids; whether rows state
    anything of their articles."""

    articles: Numbers
    blocks: Numbers
    stated: bool


class SnapshotWriter:
    """Makes one snapshot of the parts in `work`.

    description: fields of the manifest besides counts and checksums: name, source, language, licence, …
    """

    def __init__(self, work: WorkFolder, description: dict[str, Any], activity: Activity) -> None:
        self._work = work
        self._description = description
        self._activity = activity
        self._folder = work.path / "snapshot"

    def publish(self, name_folder: Path) -> tuple[Path, bool]:
        """Publish `name_folder`/SNAPSHOT_ID; returns the path, and False if the same snapshot existed already."""
        remove_folder(self._folder)
        with disk_errors(self._folder):
            self._folder.mkdir()
            survey = self._survey()
            counts, snapshot_id = self._concatenate(survey)
            if counts.blocks == 0:
                raise RealmError(f"The source {self._description['source']} contains no article with text.")
            self._index_ids(counts.blocks)
            self._finish_links(counts.links)
        if counts.repeated_articles:
            self._activity.say(f"{counts.repeated_articles:,} articles repeat an earlier id and were left out.")
        if counts.repeated_blocks:
            self._activity.say(f"{counts.repeated_blocks:,} blocks repeat an earlier title and text: stored once.")
        final = name_folder / snapshot_id
        if final.exists():
            if counts.links and not read_json(final / tables.MANIFEST_FILE).get("links"):
                self._activity.say(f"{final} was made without links; ingest under another name to have them too.")
            put_folder(final)
            return final, False
        files = [tables.ARTICLES_FILE, tables.BLOCKS_FILE, tables.PREFIXES_FILE, tables.ROWS_FILE]
        if survey.stated:
            files.append(DOCUMENTS_FILE)
        if counts.links:
            files.append(tables.LINKS_FILE)
        if counts.shared:
            files.append(tables.SHARED_FILE)
        manifest = {
            "format": tables.FORMAT,
            "snapshot_id": snapshot_id,
            "articles": counts.articles,
            "blocks": counts.blocks,
            **({"links": counts.links} if counts.links else {}),
            "shared": counts.shared,
            "max_wordpieces": MAX_WORDPIECES,
            **self._description,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "files": {file: sha256_of_file(self._folder / file) for file in files},
        }
        write_json(self._folder / tables.MANIFEST_FILE, manifest, sealed=True)
        with disk_errors(name_folder):
            name_folder.mkdir(parents=True, exist_ok=True)
        publish(self._folder, final)
        return final, True

    def _parts(self) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
        """Articles and blocks of each part; the blocks' article rows are relative to the part."""
        for part in self._work.parts:
            self._activity.check()
            yield (
                _read_part(self._work.articles_file(part.number), tables.UNFINISHED_ARTICLES_SCHEMA),
                _read_part(self._work.blocks_file(part.number), tables.UNFINISHED_BLOCKS_SCHEMA),
            )

    def _survey(self) -> _Survey:
        articles: list[Numbers] = []
        blocks: list[Numbers] = []
        stated = False
        for article_batch, block_batch in self._parts():
            stated |= article_batch.column("stated").null_count < article_batch.num_rows
            articles.append(id_prefixes([id_digest(article_id) for article_id in article_batch.column(0).to_pylist()]))
            blocks.append(id_prefixes(block_batch.column(0).to_pylist()))
        return _Survey(recurring(articles), recurring(blocks), stated)

    def _concatenate(self, survey: _Survey) -> tuple[_Counts, str]:
        """Write all tables and the links without duplicates; returns counts and the snapshot's id."""
        counts = _Counts()
        digest = hashlib.sha256()
        unique_articles, unique_blocks = FirstOnly(survey.articles), FirstOnly(survey.blocks)
        shared = SharedPassages(survey.blocks)
        with (
            self._documents_writer() if survey.stated else nullcontext() as documents_writer,
            open(self._folder / tables.ARTICLES_FILE, "wb") as articles_file,
            open(self._folder / tables.BLOCKS_FILE, "wb") as blocks_file,
            open(self._folder / _UNFINISHED_LINKS_FILE, "wb") as links_file,
            pa.ipc.new_file(articles_file, tables.ARTICLES_SCHEMA) as articles_writer,
            pa.ipc.new_file(blocks_file, tables.BLOCKS_SCHEMA) as blocks_writer,
        ):
            for articles, blocks in self._parts():
                article_ids = [id_digest(article_id) for article_id in articles.column(0).to_pylist()]
                kept_articles = unique_articles.mask(article_ids, np.ones(len(article_ids), np.bool_))
                owners = blocks.column(1).to_numpy()
                in_kept_article = kept_articles[owners]
                kept_blocks = unique_blocks.mask(blocks.column(0).to_pylist(), in_kept_article)
                new_rows = counts.articles + np.cumsum(kept_articles) - 1
                blocks = blocks.set_column(1, tables.BLOCKS_SCHEMA.field(1), pa.array(new_rows[owners], pa.int64()))
                repeated = blocks.filter(pa.array(in_kept_article & ~kept_blocks))
                articles, blocks = articles.filter(pa.array(kept_articles)), blocks.filter(pa.array(kept_blocks))
                ids = blocks.column("block_id").to_pylist()
                shared.stored(ids, blocks.column("article").to_numpy(), counts.blocks)
                shared.others(repeated)
                articles_writer.write_batch(articles.select(tables.ARTICLES_SCHEMA.names))
                blocks_writer.write_batch(blocks.select(tables.BLOCKS_SCHEMA.names))
                links_M3 = _links(blocks, counts.blocks)
                links_file.write(links_M3.tobytes())
                digest.update("".join(ids).encode("ascii"))
                if documents_writer is not None:
                    urls = articles.column("url").to_pylist()
                    documents = completed(articles.column("stated"), urls, self._description)
                    documents_writer.write_batch(documents)
                    digest.update(json.dumps(documents.to_pylist(), default=str).encode("ascii"))
                counts.articles += articles.num_rows
                counts.blocks += blocks.num_rows
                counts.links += len(links_M3)
                counts.repeated_articles += len(kept_articles) - articles.num_rows
                counts.repeated_blocks += repeated.num_rows
        counts.shared = shared.save(self._folder)
        if counts.shared:  # documents without a block of their own are part of the corpus, too
            digest.update(shared.table().tobytes())
        return counts, digest.hexdigest()[:16]

    @contextmanager
    def _documents_writer(self) -> Iterator[Any]:
        path = self._folder / DOCUMENTS_FILE
        with open(path, "wb") as file, pa.ipc.new_file(file, DOCUMENTS_SCHEMA) as writer:
            yield writer

    def _index_ids(self, blocks: int) -> None:
        """Write the sorted id prefixes and their rows; `Snapshot.row_of` searches them."""
        prefixes = np.empty(blocks, np.uint64)
        first = 0
        with pa.memory_map(str(self._folder / tables.BLOCKS_FILE)) as source:
            reader = pa.ipc.open_file(source)
            for number in range(reader.num_record_batches):
                ids = reader.get_batch(number).column(0).to_pylist()
                prefixes[first : first + len(ids)] = id_prefixes(ids)
                first += len(ids)
        order = np.argsort(prefixes, kind="stable").astype(np.int64)
        save_array(self._folder / tables.ROWS_FILE, order)
        save_array(self._folder / tables.PREFIXES_FILE, prefixes[order])

    def _finish_links(self, links: int) -> None:
        """Make an array of the links, if the source has any."""
        unfinished = self._folder / _UNFINISHED_LINKS_FILE
        if links:  # memory-mapped: those of a large wiki do not fit into memory
            links_M3 = np.memmap(unfinished, np.int32, "r", shape=(links, 3))
            save_array(self._folder / tables.LINKS_FILE, links_M3)
        unfinished.unlink()


def _links(blocks: pa.RecordBatch, first_row: int) -> np.ndarray[Any, np.dtype[np.int32]]:
    """Links of these blocks as in the published array, int32 [M, 3]; first_row: row of the first block."""
    links = blocks.column("links")
    places_M2 = links.flatten().to_numpy().reshape(-1, 2)
    counts = links.value_lengths().to_numpy() // 2
    rows_M = np.repeat(np.arange(first_row, first_row + len(counts), dtype=np.int32), counts)
    return np.column_stack([rows_M, places_M2])


def _read_part(path: Path, schema: pa.Schema) -> pa.RecordBatch:
    try:
        with pa.memory_map(str(path)) as source:
            batches = pa.ipc.open_file(source).read_all().combine_chunks().to_batches()
    except (pa.ArrowInvalid, OSError) as error:
        raise RealmError(f"{path} is damaged: {error}; remove its folder and start again.") from error
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=schema)
