"""What can be done with a corpus that was edited: fold its edits into a new base."""

from __future__ import annotations

from pathlib import Path

from realm_core.task import IndexFolder, Task, given, runtime


class Fold(Task):
    """A base, segments and tombstones → a new base that equals them, and the present state on it."""

    activity = kind = "fold"
    summary = "make one corpus and index of a base and the edits above it"
    code = "realm_core.living.folding"
    title = "Fold the edits of a corpus"
    about = (
        "Make one corpus and one index of those that answer and of what was edited above them. Nothing is embedded "
        "again, and every answer stays as it is; the new pair then answers in the place of the old one."
    )
    group = "Corpus and index"
    queue = "default"
    makes = "base"

    index: IndexFolder = given("the index that answers, above which documents were edited")
    corpora: Path = runtime(help="folder of all snapshots")
    living: Path = runtime(help="folder of the living corpus, with its segments")
    state: Path = runtime(help="file of the state to fold")
    now: Path = runtime(help="file of the present state, which is moved onto the new base")
    model: Path = runtime(help="folder of the model that built the index")
