"""The tasks of indexes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from realm_core.errors import RealmError
from realm_core.index.choice import SearchKind
from realm_core.settings import Count, SettingError, setting
from realm_core.task import CorpusFolder, IndexFolder, JobPart, ModelFolder, Task, artefact, runtime

SHARD_ROWS = 50_000
_MOST_SHARDS = 10_000  # each is a job, which its parent looks at
BY_INDEX = "by the index's snapshot id"  # a corpus
SEARCH = "how blocks are found: exact, ivf (approximately, for more than a million), or auto: by their number"
STATE = "file of the corpus state above the index, so that what was edited is there, too (needs --living and --run)"
LIVING = "folder of all living corpora, with the segments of the state"
DEVICE = "auto, cpu, cuda or cuda:N"


class Index(Task):
    """Model and snapshot → generation.

    As a job, a corpus of more than one shard is handed out: its shards are parts, which every worker of the queue
    takes; the build itself comes back when all are there, and publishes them.
    """

    activity = kind = "index"
    summary = "embed every block of a snapshot and publish an index generation"
    code = "realm_core.index.build"
    title = "Build an index"
    about = "Embed every block of a corpus with a model. What is built serves nobody before it is deployed."
    group = "Corpus and index"
    queue = "index"
    makes = "index"

    model: ModelFolder = artefact("the model that embeds")
    corpus: CorpusFolder = artefact("the corpus")
    shard_rows: int = setting(
        SHARD_ROWS, "in a shard; shards are built by all workers of the queue", unit="blocks", ge=1
    )
    search: SearchKind = setting("auto", SEARCH)
    output: Path = runtime(help="folder of all generations")
    generation: str | None = runtime(None, help="its name (default: made of the model's and the snapshot's hashes)")
    shard: Count | None = runtime(
        None, help="build this shard alone, from 0 on, and publish nothing (needs --generation)"
    )
    device: str = runtime("auto", help=DEVICE)

    def check_together(self) -> None:
        if self.shard is not None and self.generation is None:
            raise RealmError("--shard needs --generation, the name of what the shard is of.")

    def before(self, *, blocks: int) -> Sequence[JobPart]:
        """A part for each shard, unless there is but one or the generation is published already."""
        rows = self.shard_rows
        if blocks > rows * _MOST_SHARDS:
            raise RealmError(
                f"The corpus has {blocks:,} blocks, and an index at most {_MOST_SHARDS:,} shards: "
                f"shard_rows must be at least {-(-blocks // _MOST_SHARDS):,}, not {rows:,}."
            )
        if blocks <= rows or (self.generation is not None and (self.output / self.generation).exists()):
            return ()
        return [
            JobPart(IndexShard.kind, {"shard": number, "rows": min(rows, blocks - start)})
            for number, start in enumerate(range(0, blocks, rows))
        ]


class IndexShard(Task):
    """One shard of an index, by the build's own command."""

    kind = "index-shard"
    title = "Embed one shard of an index"
    about = "A part of an index build."
    queue = "index"
    by_hand = False

    shard: Count = setting(0, "its number")
    rows: int = setting(1, "in it", unit="blocks", ge=1)

    def within(self, parent: Task, _run: Path) -> Task:
        return parent.model_copy(update={"shard": self.shard})

    @classmethod
    def kept(cls, result: dict[str, Any]) -> dict[str, Any]:
        """Nothing is recorded before the whole index is published."""
        return {"shard": result["shard"], "rows": result["rows"]}


class ShipVectors(Task):
    """Generation → the vectors that are shipped with its model."""

    activity = "ship-vectors"
    summary = "quantise the vectors of an index to six bits a number, to be shipped with its model"
    code = "realm_core.index.shipping"

    index: IndexFolder = artefact("the index")
    output: Path = runtime(help="the folder to make: vectors, in the model's folder")


class CountWordpieces(Task):
    """Snapshot → the counts that `lexical.py` ranks by."""

    activity = "count-wordpieces"
    summary = "count in how many blocks each wordpiece occurs, for the lexical part of the prior"
    code = "realm_core.index.lexical"

    corpus: Path = runtime(help="snapshot folder")
    output: Path = runtime(help="the file to make")


class ToMilvus(Task):
    """Generation → its collection in Milvus."""

    activity = "to-milvus"
    summary = "put the vectors of an index into Milvus, from which a server with REALM_SEARCH=milvus finds them"
    code = "realm_core.index.to_milvus"

    index: IndexFolder = artefact("the index")
    uri: str = runtime(help="of the server: http://host:19530; its token is read from REALM_MILVUS_TOKEN")


# Checks of the tasks that find blocks by an index or by BM25.


def unused_for(retriever: str) -> dict[str, str]:
    """Fields that mean nothing for a retriever, and why."""
    if retriever == "bm25":
        return {"index": "is for --retriever dense alone"}
    return dict.fromkeys(("score_scale", "bm25_cache"), "is for --retriever bm25 alone")


def check_index(retriever: str, index: Path | None) -> None:
    """Refuse to search by an index where none is named."""
    if retriever == "dense" and index is None:
        raise SettingError("index", "is needed, unless BM25 finds the blocks.")
