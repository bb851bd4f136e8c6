"""Small living corpora for tests, and what a corpus built anew from their documents answers.

Vectors are whole numbers drawn by a hash of the block, so that every score is exact and many are equal.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from realm_core.corpus.ingest import ingest
from realm_core.corpus.records import RawArticle, Stated
from realm_core.corpus.store import Snapshot
from realm_core.files import sha256_of_file, write_json
from realm_core.index.approximate_build import build_search
from realm_core.index.choice import SearchKind
from realm_core.index.manifest import read_manifest
from realm_core.index.postings import LexicalPart, Postings
from realm_core.index.search import ExactSearch
from realm_core.living.documents import Changes, LivingDocument
from realm_core.living.editing import Embed, edit
from realm_core.living.index import LivingIndex
from realm_core.living.state import Base, LivingState
from realm_core.living.store import Store
from realm_core.living.view import CorpusView
from realm_core.runs.activity import Activity
from realm_core.tensors import save_tensors
from tests.in_memory_source import InMemorySource

DIMENSION = 6
BLOCK_HASH = "of-the-tests"
NAME = "tests"


def quiet() -> Activity:
    return Activity(quiet=True)


def paragraph(number: int) -> str:
    """A text so long that no two of them fit into a block: each becomes one of its own."""
    return f"Paragraph {number} " + f"w{number} and so on " * 36 + "ends."


def document(document_id: str, title: str, *paragraphs: int, **known: object) -> LivingDocument:
    return LivingDocument(document_id, title, "\n".join(map(paragraph, paragraphs)), **known)  # type: ignore[arg-type]


class CountingEmbedder:
    """Embeds by a hash; seen: every block that it was asked for."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []

    def __call__(self, blocks: Sequence[tuple[str, str]]) -> Tensor:
        self.seen += blocks
        return vectors(blocks)


def vectors(blocks: Sequence[tuple[str, str]]) -> Tensor:
    """A vector of −1, 0 and 1 for each block."""
    digests = [hashlib.blake2b(f"{title}\0{text}".encode(), digest_size=DIMENSION).digest() for title, text in blocks]
    return torch.tensor([[byte % 3 - 1 for byte in digest] for digest in digests], dtype=torch.float32).view(
        -1, DIMENSION
    )


def queries(count: int = 4, seed: int = 0) -> Tensor:
    return torch.randint(-2, 3, (count, DIMENSION), generator=torch.Generator().manual_seed(seed)).float()


def raw(documents: Sequence[LivingDocument]) -> InMemorySource:
    articles = [RawArticle(one.id, one.title, one.url, one.text, stated=stated(one)) for one in documents]
    return InMemorySource(articles, name=NAME)


def stated(one: LivingDocument) -> Stated:
    """What a row that is ingested says of the document; the language only where it is not the corpus's."""
    language = "" if one.language == "en" else one.language
    day = one.date.isoformat() if one.date else ""
    return Stated(language, day, one.tags, one.licence or None, one.attribution or None, one.collection)


def built_anew(documents: Sequence[LivingDocument], folder: Path, name: str = NAME) -> tuple[Snapshot, Tensor]:
    """A snapshot of the documents as ingesting makes it, and its vectors."""
    snapshot = Snapshot.open(ingest(raw(documents), name=name, output=folder, activity=quiet(), processes=1))
    return snapshot, vectors(list(zip(*snapshot.titles_texts(0, len(snapshot)), strict=True)))


def base_of(
    store: Store, documents: Sequence[LivingDocument], *, search: SearchKind = "auto", name: str = NAME
) -> LivingState:
    """The state of a base that was ingested from the documents. name: of the corpus."""
    snapshot, _ = built_anew(documents, store.corpora, name)
    folder = generation_of(store, snapshot, search=search)
    return first_state(store, name, Base(snapshot.snapshot_id, folder.name))


def generation_of(store: Store, snapshot: Snapshot, *, search: SearchKind = "auto") -> Path:
    """A generation of the snapshot."""
    vectors_ND = vectors(list(zip(*snapshot.titles_texts(0, len(snapshot)), strict=True)))
    folder = store.indexes / f"{snapshot.snapshot_id}-{BLOCK_HASH}"
    folder.mkdir(parents=True, exist_ok=True)
    save_tensors(folder / "vectors-00000.safetensors", {"vectors": vectors_ND.half()})
    shard = {
        "file": "vectors-00000.safetensors",
        "start": 0,
        "stop": len(snapshot),
        "sha256": sha256_of_file(folder / "vectors-00000.safetensors"),
    }
    manifest = {
        "format": 1,
        "generation": folder.name,
        "snapshot_id": snapshot.snapshot_id,
        "model_hash": "model",
        "block_hash": BLOCK_HASH,
        "rows": len(snapshot),
        "dim": DIMENSION,
        "shards": [shard],
        "search": build_search(folder, [shard], DIMENSION, quiet(), wanted=search),
    }
    write_json(folder / "manifest.json", manifest, sealed=True)
    return folder


def first_state(store: Store, name: str, base: Base) -> LivingState:
    """The state of an unchanged base; name: of the corpus, in whose folder the snapshot is."""
    return LivingState(name, read_manifest(store.indexes / base.generation)["block_hash"], base)


class StateStore(Store):
    """A store with its current state in a file beside it, as the web application has it in its database."""

    def current(self) -> LivingState | None:
        path = self.folder / "current.json"
        return LivingState.load(path) if path.exists() else None

    def commit(self, state: LivingState, *_told: object) -> None:
        state.save(self.folder / "current.json")


def edit_current(store: StateStore, changes: Changes, embed: Embed) -> LivingState:
    """The store's current state, edited; the new one is the current one then."""
    state = store.current()
    assert state is not None
    after = edit(store, state, changes, embed)
    store.commit(after)
    return after


def store_in(folder: Path, living: str = "living") -> StateStore:
    return StateStore(folder / living, corpora=folder / "corpora", indexes=folder / "indexes")


def documents_of(view: CorpusView) -> list[LivingDocument]:
    """The living documents in their order."""
    return [view.document(listed.row) for listed in view.listed(0, view.documents)]


Answers = list[tuple[list[str], list[float]]]


def lexical_part(asked: Tensor) -> LexicalPart:
    """Of a question for each query, with words of titles and paragraphs."""
    return LexicalPart.of([f"What does paragraph {n} of title {n + 1} say of w{n}?" for n in range(len(asked))], 0.5)


def answers(index: LivingIndex, asked: Tensor, k: int, *, lexical: bool = False) -> Answers:
    """Block ids and scores for each query. lexical: with the lexical part of a question."""
    rows_BK, scores_BK = index.search(asked, k, lexical_part(asked) if lexical else None)
    return [
        ([index.corpus.block(row).block_id for row in rows], scores)
        for rows, scores in zip(rows_BK.tolist(), scores_BK.tolist(), strict=True)
    ]


def answers_anew(
    documents: Sequence[LivingDocument], folder: Path, asked: Tensor, k: int, *, lexical: bool = False
) -> Answers:
    """The same of a corpus that is built anew."""
    if not documents:
        return [([], []) for _ in asked]
    snapshot, vectors_ND = built_anew(documents, folder)
    added_BN = lexical_part(asked).scores(Postings.in_memory(snapshot)) if lexical else None
    rows_BK, scores_BK = ExactSearch(vectors_ND).search(asked, k, added_BN=added_BN)
    return [
        ([snapshot.block(row).block_id for row in rows], scores)
        for rows, scores in zip(rows_BK.tolist(), scores_BK.tolist(), strict=True)
    ]


def of_base(one: LivingDocument) -> LivingDocument:
    """A document as a base that was ingested knows it."""
    return replace(one, collection=one.collection or NAME)
