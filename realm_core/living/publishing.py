"""A new base, that is a snapshot and its generation, from the living documents of one view or several.

Folding makes one of a single state, joining of several; otherwise they are the same.

Nothing is packed or embedded: rows of tables and vectors are copied in parts. Files that were published completely are
kept, so an interrupted job resumes after them; the next one removes unfinished files.

Legend: A documents, N blocks and M links of a layer, R vectors of a part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from torch import Tensor

from realm_core.arrays import Mask, open_array
from realm_core.corpus import tables
from realm_core.corpus.repetition import IdPrefixes, id_prefixes
from realm_core.corpus.sharing import SharedPassages
from realm_core.corpus.store import Snapshot
from realm_core.corpus.writer import TablesWriter
from realm_core.files import disk_errors, read_json, remove_folder, write_json
from realm_core.index.approximate_build import build_search, end_build
from realm_core.index.choice import SearchKind
from realm_core.index.manifest import generation_manifest
from realm_core.index.postings import keep_postings
from realm_core.living.layer import Layer
from realm_core.living.state import BASE, Base
from realm_core.living.store import FOLDING, Store
from realm_core.living.view import CorpusView
from realm_core.living.writing import copy_rows, vectors_of, write_vectors
from realm_core.object_store import publish, put_folder
from realm_core.runs.activity import Activity

_LINKS_AT_ONCE: Final = 1 << 20


class PartLayer(NamedTuple):
    """articles_A, rows_N: the documents that a base takes, and the blocks that it stores with them.

    others_N: their blocks that are stored with an earlier document. new_ids: by the layer's article rows.
    """

    layer: Layer
    articles_A: Mask
    rows_N: Mask
    others_N: Mask
    new_ids: dict[int, str]


@dataclass(frozen=True)
class BasePart:
    """The part of a view that a base takes.

    live_articles, live_rows: through all layers of the view; default: the view's own.
    new_ids: of documents that are called otherwise in the base, by article row. collection: of documents without one.
    """

    view: CorpusView
    live_articles: Mask
    live_rows: Mask
    new_ids: Mapping[int, str] = field(default_factory=dict)
    collection: str = ""

    @classmethod
    def whole(cls, view: CorpusView) -> BasePart:
        """All living documents, as they are."""
        return cls(view, view.live_articles, view.live_rows)

    def layers(self) -> Iterator[PartLayer]:
        for layer in self.view.layers:
            articles = self.view.articles_of_layer(layer)
            own = {
                row - articles.start: one for row, one in self.new_ids.items() if articles.start <= row < articles.stop
            }
            articles_A, rows_N = self.live_articles[articles], self.live_rows[self.view.rows_of_layer(layer)]
            yield PartLayer(layer, articles_A, rows_N, articles_A[layer.owners_N] & ~rows_N, own)


@dataclass(frozen=True)
class NewBase:
    """A base that is to be made. about: of the snapshot's manifest, its name among it. search: what is wanted."""

    base: Base
    parts: Sequence[BasePart]
    about: Mapping[str, Any]
    search: SearchKind

    @property
    def block_hash(self) -> str:
        """The hash of the block embedder that made all vectors."""
        return self.parts[0].view.state.block_hash

    @property
    def first(self) -> Layer:
        """The layer that comes first: its index tells what all have in common."""
        return self.parts[0].view.layers[0]


@dataclass(frozen=True)
class PublishedBase:
    base: Base
    snapshot: Path
    generation: Path

    @classmethod
    def in_store(cls, store: Store, name: str, base: Base) -> PublishedBase:
        """Where the base of a corpus is or will be. name: of the corpus."""
        return cls(base, store.corpora / name / base.snapshot, store.indexes / base.generation)


@contextmanager
def publishing(store: Store) -> Iterator[None]:
    """Hold the folding lock of a store; unfinished files of a killed holder are removed first."""
    with store.lock(FOLDING):
        _sweep(store)
        yield


def publish_base(store: Store, new: NewBase, activity: Activity) -> PublishedBase:
    """Publish a base in a store that the caller is `publishing` in; complete folders of an earlier attempt are kept."""
    made = PublishedBase.in_store(store, new.about["name"], new.base)
    write_json(
        store.folding_file, {"snapshot": str(_partial(made.snapshot)), "generation": str(_partial(made.generation))}
    )
    if made.snapshot.exists():
        put_folder(made.snapshot)
    else:
        _publish_snapshot(new, made.snapshot, activity)
    if made.generation.exists():
        put_folder(made.generation)
    else:
        _publish_generation(new, made, activity)
    store.folding_file.unlink()
    return made


def keep_words(new: NewBase, made: PublishedBase, activity: Activity) -> None:
    """Make what finds its blocks by words, if a part has it: now, rather than when a web server loads the index."""
    if any(tables.postings_folder(layer.snapshot.folder).exists() for part in new.parts for layer in part.view.layers):
        keep_postings(Snapshot.open(made.snapshot), activity)


def _partial(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.fold")


def _sweep(store: Store) -> None:
    if not store.folding_file.exists():
        return
    noted = read_json(store.folding_file)
    for place in ("snapshot", "generation"):
        path = Path(str(noted.get(place, ""))) if isinstance(noted, dict) else Path()
        if path.name.startswith(".") and path.name.endswith(".fold"):
            remove_folder(path)
    store.folding_file.unlink()


def _publish_snapshot(new: NewBase, final: Path, activity: Activity) -> None:
    folder = _partial(final)
    documents = sum(int(np.count_nonzero(part.live_articles)) for part in new.parts)
    with disk_errors(final.parent):
        folder.mkdir(parents=True)
        with TablesWriter(folder, SharedPassages(_recurring(new.parts))) as writer:
            for part in new.parts:
                for layer, articles_A, rows_N, others_N, new_ids in part.layers():
                    activity.check()
                    copy_rows(
                        layer,
                        articles_A,
                        rows_N,
                        writer,
                        others_N=others_N,
                        new_ids=new_ids,
                        collection=part.collection,
                    )
                    activity.progress(writer.articles, documents, "documents", f"{writer.blocks:,} blocks")
            _add_links(new.parts, writer)
        write_json(folder / tables.MANIFEST_FILE, writer.manifest(final.name, new.about), sealed=True)
    publish(folder, final)


def _recurring(parts: Sequence[BasePart]) -> IdPrefixes:
    """Prefixes of the block ids that several documents have."""
    found = [np.array([], np.uint64)]
    for part in parts:
        for layer, _, _, others_N, _ in part.layers():
            ids = layer.block_rows(np.flatnonzero(others_N)).column("block_id").to_pylist()
            found.append(id_prefixes(ids))
    return np.unique(np.concatenate(found))


def _add_links(parts: Sequence[BasePart], writer: TablesWriter) -> None:
    """The links of living blocks, at their new rows. Only bases have links."""
    before = 0
    for layer, _, rows_N, _, _ in (one for part in parts for one in part.layers()):
        links = layer.snapshot.manifest.get("links", 0) if layer.name == BASE else 0
        rows_M = np.flatnonzero(rows_N)
        if links:
            links_M3 = open_array(layer.snapshot.folder / tables.LINKS_FILE, np.int32, (links, 3))
            # A passage keeps its links, whichever document it is stored with.
            new_row_V = np.full(len(layer.snapshot), -1)
            new_row_V[layer.stored(rows_M)] = np.arange(len(rows_M)) + before
            for start in range(0, links, _LINKS_AT_ONCE):
                some_M3 = np.array(links_M3[start : start + _LINKS_AT_ONCE])
                some_M3[:, 0] = new_row_V[some_M3[:, 0]]
                writer.add_links(some_M3[some_M3[:, 0] >= 0])
        before += len(rows_M)


def _publish_generation(new: NewBase, made: PublishedBase, activity: Activity) -> None:
    folder = _partial(made.generation)
    layers, rows = [], []
    for part in new.parts:
        for one in part.layers():
            layers.append(one.layer)
            rows.append(np.flatnonzero(one.rows_N))
    total = sum(map(len, rows))

    def pieces() -> Iterator[Tensor]:
        done = 0
        for vectors_RD in vectors_of(layers, rows):
            activity.check()
            yield vectors_RD
            done += len(vectors_RD)
            activity.progress(done, total, "blocks")

    with disk_errors(made.generation.parent):
        folder.mkdir(parents=True)
        shards = write_vectors(folder, pieces())
    vectors = new.first.vectors
    model_hash = str(vectors.manifest.get("model_hash", ""))
    names = made.generation.name, made.snapshot.name, new.block_hash
    manifest = generation_manifest(*names, model_hash, vectors.dimension, shards)
    manifest["search"] = build_search(folder, shards, manifest["dim"], activity, wanted=new.search)
    write_json(folder / "manifest.json", manifest, sealed=True)
    end_build(folder)
    publish(folder, made.generation)
