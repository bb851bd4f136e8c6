"""The tasks of salient spans, the names and dates of a corpus."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from realm_core.settings import Count, Limit, Seed, ShortText, setting
from realm_core.task import CorpusFolder, Task, artefact, runtime

SHARD_BLOCKS = 2000  # about a minute of one processor with spaCy: what is lost when a run is killed
_TAGGERS = ("spacy", "links", "dates")
_TAGGER = Limit(f"one of {', '.join(_TAGGERS)}", choices=_TAGGERS, pattern="|".join(_TAGGERS))


class Spans(Task):
    """Snapshot → salient spans."""

    activity = kind = "spans"
    summary = "find the names and dates of a corpus that pre-training masks"
    code = "realm_core.salient.extract"
    title = "Find salient spans"
    about = "The names and dates of a corpus, which pre-training hides."
    group = "Corpus and index"
    queue = "default"
    makes = "spans"

    corpus: CorpusFolder = artefact("the corpus")
    # On the command line also the folder or name of a token classifier for transformers.
    tagger: Annotated[str, _TAGGER] = setting(
        "spacy", "spacy: names by spaCy's small model; links: a dump's wiki links; dates: none but dates"
    )
    labels: ShortText = setting("", "kinds of names to keep, with commas between; empty: the tagger's own")
    dates: bool = setting(True, "find dates by their pattern, too")
    blocks: Count = setting(0, "to look at, drawn at random; 0: all", unit="blocks")
    seed: Seed = setting(0, "draws them")
    output: Path = runtime(help="folder for the spans")
    shard_blocks: int = runtime(SHARD_BLOCKS, help="in a shard", unit="blocks", ge=1)
    processes: int | None = runtime(
        None,
        help="that look for them (default: one a processor, or one where a GPU does the work)",
        unit="processes",
        ge=1,
    )
