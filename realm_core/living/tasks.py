"""The tasks of living corpora: fold the edits into a new base, join several corpora in one."""

from __future__ import annotations

from pathlib import Path

from realm_core.index.choice import SearchKind
from realm_core.index.tasks import BY_INDEX, SEARCH
from realm_core.settings import Name, SettingError, setting
from realm_core.task import IndexFolder, Task, artefact, runtime

LONGEST_NAME = 60  # characters, as `Name` has it
COPY = "with-edits"  # folder of a run, with a corpus and the edits above it (`present.py`)


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
    makes = "deployment"

    index: IndexFolder = artefact("the index that answers, above which documents were edited")
    corpora: Path = runtime(help="folder of all snapshots")
    living: Path = runtime(help="folder of the living corpus, with its segments")
    state: Path = runtime(help="file of the state to fold")
    now: Path = runtime(help="file of the present state, which is moved onto the new base")
    model: Path = runtime(help="folder of the model that built the index")


class Join(Task):
    """Several bases, with the segments and tombstones above them → one base of all their documents."""

    activity = kind = "join"
    summary = "make one corpus and index of several, without embedding anything"
    code = "realm_core.living.joining"
    title = "Join corpora"
    about = (
        "Make one corpus and one index of several corpora, with what was edited above them. Nothing is embedded again. "
        "Deploy what is made: a question then searches all of them, or those that it names as collections."
    )
    group = "Corpus and index"
    queue = "default"
    makes = "base"

    index: tuple[IndexFolder, ...] = artefact(
        "two or more, of different corpora and of one block embedder; of equal passages the first one's counts",
        become_one=True,
    )
    corpus_name: Name = setting(
        "", "what the joined corpus is called, unlike any of its parts; empty: the parts' names", flag="--name"
    )
    search: SearchKind = setting("auto", SEARCH)
    output: Path = runtime(help="data folder: corpora/, indexes/, and living/ with what was edited")
    corpus: tuple[Path, ...] = runtime((), help=f"snapshot folder of each index (default: found {BY_INDEX})")
    state: tuple[Path, ...] = runtime((), help="file of the state above each index (default: nothing was edited)")

    def check_together(self) -> None:
        if len(self.index) < 2:
            raise SettingError("index", "must name two or more indexes.")
        for name in ("corpus", "state"):
            if len(getattr(self, name)) not in (0, len(self.index)):
                raise SettingError(name, "must name as many as there are indexes, in their order.")
