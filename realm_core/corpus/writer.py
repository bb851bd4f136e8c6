"""Makes a published snapshot from finished parts: remove duplicates, concatenate, index the ids, publish.

It reads the parts twice, one at a time; sorting the ids takes about 24 bytes per block (0.3 GB for English Wikipedia).

Article ids are unique in a snapshot: the first of several articles with the same id is kept. So are block ids: of
several blocks with the same title and text the first is kept, because duplicates would displace other blocks from the
top k; which other articles have it is noted (`sharing.py`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
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
from realm_core.corpus.repetition import FirstOnly, IdPrefixes, id_digest, id_prefixes, recurring
from realm_core.corpus.sharing import SharedPassages
from realm_core.corpus.work import WorkFolder
from realm_core.errors import RealmError
from realm_core.files import disk_errors, read_json, remove_folder, sha256_of_file, write_json
from realm_core.object_store import publish, put_folder
from realm_core.runs.activity import Activity

Links = np.ndarray[Any, np.dtype[np.int32]]  # [M, 3], as in tables.LINKS_FILE
_UNFINISHED_LINKS_FILE = "links.part"  # raw numbers without a header: their count is known only at the end


class TablesWriter:
    """Writes the files of a snapshot, but for its manifest, into a folder; a context manager.

    shared: where a passage that several documents have is stored once. documents: whether there is a table of them.
    """

    def __init__(self, folder: Path, shared: SharedPassages | None = None, *, documents: bool = True) -> None:
        self._folder, self._shared = folder, shared
        self._schemas = {tables.ARTICLES_FILE: tables.ARTICLES_SCHEMA, tables.BLOCKS_FILE: tables.BLOCKS_SCHEMA}
        if documents:
            self._schemas[DOCUMENTS_FILE] = DOCUMENTS_SCHEMA
        self._stack = ExitStack()
        self._writers: list[Any] = []
        self._prefixes: list[IdPrefixes] = []
        self._links_ascend = True
        self._last_link = 0
        self.articles = self.blocks = self.links = self.shares = 0

    def __enter__(self) -> TablesWriter:
        for name, schema in self._schemas.items():
            file = self._stack.enter_context(open(self._folder / name, "wb"))
            self._writers.append(self._stack.enter_context(pa.ipc.new_file(file, schema)))
        return self

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        self._stack.close()
        if error is None:
            self._index_ids()
            self._finish_links()
            self.shares = 0 if self._shared is None else self._shared.save(self._folder)

    def add(
        self,
        articles: pa.RecordBatch,
        blocks: pa.RecordBatch,
        documents: pa.RecordBatch | None,
        others: pa.RecordBatch | None = None,
    ) -> None:
        """`articles` and `documents` have one row per article; the blocks count articles from the first of these.

        others: blocks of these articles that are stored with an earlier one.
        """
        blocks = tables.with_article_offset(blocks.select(tables.BLOCKS_SCHEMA.names), self.articles)
        for writer, batch in zip(self._writers, (articles, blocks, documents), strict=False):
            writer.write_batch(batch)
        ids = blocks.column("block_id").to_pylist()
        self._prefixes.append(id_prefixes(ids))
        if self._shared is not None:
            self._shared.stored(ids, blocks.column("article").to_pylist(), self.blocks)
            if others is not None:
                self._shared.others(tables.with_article_offset(others, self.articles))
        self.articles += articles.num_rows
        self.blocks += blocks.num_rows

    def add_links(self, links_M3: Links) -> None:
        """More links as in the published array; they may come in any order."""
        if not len(links_M3):
            return
        with open(self._folder / _UNFINISHED_LINKS_FILE, "ab") as file:
            file.write(links_M3.tobytes())
        rows = np.concatenate([[self._last_link], links_M3[:, 0]])
        self._links_ascend &= bool((rows[1:] >= rows[:-1]).all())
        self._last_link = int(rows[-1])
        self.links += len(links_M3)

    def manifest(self, snapshot_id: str, about: Mapping[str, Any], *other_files: str) -> dict[str, Any]:
        """The folder's manifest as a snapshot, with the checksums of all its files."""
        files = [*self._schemas, tables.PREFIXES_FILE, tables.ROWS_FILE, *other_files]
        files += ([tables.LINKS_FILE] if self.links else []) + ([tables.SHARED_FILE] if self.shares else [])
        return {
            "format": tables.FORMAT,
            "snapshot_id": snapshot_id,
            "articles": self.articles,
            "blocks": self.blocks,
            **({"links": self.links} if self.links else {}),
            **({} if self._shared is None else {"shared": self.shares}),
            "max_wordpieces": MAX_WORDPIECES,
            **about,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "files": {name: sha256_of_file(self._folder / name) for name in files},
        }

    def _index_ids(self) -> None:
        """Write the table that `Snapshot.row_of` searches; of equal ids the first row comes first."""
        prefixes_N = np.concatenate([np.array([], np.uint64), *self._prefixes])
        order_N = np.argsort(prefixes_N, kind="stable").astype(np.int64)
        save_array(self._folder / tables.ROWS_FILE, order_N)
        save_array(self._folder / tables.PREFIXES_FILE, prefixes_N[order_N])

    def _finish_links(self) -> None:
        unfinished = self._folder / _UNFINISHED_LINKS_FILE
        if self.links:  # memory-mapped: those of a large wiki do not fit into memory
            links_M3 = np.memmap(unfinished, np.int32, "r", shape=(self.links, 3))
            by_row = links_M3 if self._links_ascend else links_M3[np.argsort(links_M3[:, 0], kind="stable")]
            save_array(self._folder / tables.LINKS_FILE, by_row)
        unfinished.unlink(missing_ok=True)


@dataclass(frozen=True)
class _Survey:
    """A first look at the parts: prefixes that several article ids share, and several block ids; whether rows state
    anything of their articles."""

    articles: IdPrefixes
    blocks: IdPrefixes
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
            writer, snapshot_id = self._concatenate(self._survey())
            if writer.blocks == 0:
                raise RealmError(f"The source {self._description['source']} contains no article with text.")
        final = name_folder / snapshot_id
        if final.exists():
            if writer.links and not read_json(final / tables.MANIFEST_FILE).get("links"):
                self._activity.say(f"{final} was made without links; ingest under another name to have them too.")
            put_folder(final)
            return final, False
        manifest = writer.manifest(snapshot_id, self._description)
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
        articles: list[IdPrefixes] = []
        blocks: list[IdPrefixes] = []
        stated = False
        for article_batch, block_batch in self._parts():
            stated |= article_batch.column("stated").null_count < article_batch.num_rows
            articles.append(id_prefixes([id_digest(article_id) for article_id in article_batch.column(0).to_pylist()]))
            blocks.append(id_prefixes(block_batch.column(0).to_pylist()))
        return _Survey(recurring(articles), recurring(blocks), stated)

    def _concatenate(self, survey: _Survey) -> tuple[TablesWriter, str]:
        """Write all files without duplicates; returns their writer and the snapshot's id."""
        digest = hashlib.sha256()
        unique_articles, unique_blocks = FirstOnly(survey.articles), FirstOnly(survey.blocks)
        shared = SharedPassages(survey.blocks)
        repeated_articles = repeated_blocks = 0
        with TablesWriter(self._folder, shared, documents=survey.stated) as writer:
            for articles, blocks in self._parts():
                article_ids = [id_digest(article_id) for article_id in articles.column(0).to_pylist()]
                kept_articles = unique_articles.mask(article_ids, np.ones(len(article_ids), np.bool_))
                owners = blocks.column(1).to_numpy()
                in_kept_article = kept_articles[owners]
                kept_blocks = unique_blocks.mask(blocks.column(0).to_pylist(), in_kept_article)
                blocks = tables.with_articles(blocks, (np.cumsum(kept_articles) - 1)[owners])
                repeated = blocks.filter(pa.array(in_kept_article & ~kept_blocks))
                articles, blocks = articles.filter(pa.array(kept_articles)), blocks.filter(pa.array(kept_blocks))
                digest.update("".join(blocks.column("block_id").to_pylist()).encode("ascii"))
                documents = None
                if survey.stated:
                    urls = articles.column("url").to_pylist()
                    documents = completed(articles.column("stated"), urls, self._description)
                    digest.update(json.dumps(documents.to_pylist(), default=str).encode("ascii"))
                writer.add_links(_links(blocks, writer.blocks))
                writer.add(articles.select(tables.ARTICLES_SCHEMA.names), blocks, documents, repeated)
                repeated_articles += len(kept_articles) - articles.num_rows
                repeated_blocks += repeated.num_rows
        if writer.shares:  # documents without a block of their own are part of the corpus, too
            digest.update(shared.table().tobytes())
        if repeated_articles:
            self._activity.say(f"{repeated_articles:,} articles repeat an earlier id and were left out.")
        if repeated_blocks:
            self._activity.say(f"{repeated_blocks:,} blocks repeat an earlier title and text: stored once.")
        return writer, digest.hexdigest()[:16]


def _links(blocks: pa.RecordBatch, first_row: int) -> Links:
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
