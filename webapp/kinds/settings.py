"""Settings of jobs that are not settings of a training: what is ingested, how a model is made and measured."""

from __future__ import annotations

import re
from dataclasses import dataclass

from realm_core.evaluation.config import BM25_SCALE
from realm_core.model.config import NORMALISATIONS
from realm_core.settings import (
    MAX_K,
    NOT_NEGATIVE,
    POSITIVE,
    SEED,
    SHARE,
    Limit,
    Settings,
    at_least,
    between,
    one_of,
    setting,
    some_of,
)
from realm_core.training.ablation import ROWS

_NAME = re.compile(r"(?!\.)[\w .-]{0,60}", re.ASCII)
NAME = Limit("at most 60 letters, digits, spaces, dots and dashes", lambda value: _NAME.fullmatch(value) is not None)
_FILE = re.compile(r"(?!\.)[\w .-]{0,200}", re.ASCII)
FILE = Limit("the name of a file in the data folder's sources/", lambda value: _FILE.fullmatch(value) is not None)
LINE = Limit("at most 500 characters", lambda value: len(value) <= 500)
OWN = "the model's own"


@dataclass(frozen=True)
class Naming(Settings):
    """What the thing made is called."""

    name: str = setting("", "what the new model is called; empty: named after the kind of job and the day", NAME)


@dataclass(frozen=True)
class IngestSettings(Settings):
    """Where articles come from."""

    source: str = setting(
        "vital",
        "vital: the leads of 10,033 vital Wikipedia articles, a package; jsonl, parquet, mediawiki: a file",
        one_of("vital", "jsonl", "parquet", "mediawiki"),
    )
    file: str = setting("", "the file, sent or put into the data folder's sources/ beforehand; empty for vital", FILE)
    language: str = setting("en", "two-letter code (vital has en, fr and es)", LINE)
    corpus_name: str = setting("", "what the corpus is called; empty: the source's name", NAME)
    licence: str = setting("", "of the texts, shown beside every passage; empty: the source's own", LINE)
    attribution: str = setting("", "whom the pages name beside a passage; empty: the source's own", LINE)


@dataclass(frozen=True)
class IndexSettings(Settings):
    """How an index is built."""

    shard_rows: int = setting(50_000, "blocks a shard; shards are built by all workers of the queue", at_least(1))


@dataclass(frozen=True)
class ShardSettings(Settings):
    """Which part of an index build."""

    shard: int = setting(0, "its number", NOT_NEGATIVE)
    rows: int = setting(1, "blocks in it", at_least(1))


@dataclass(frozen=True)
class SpansSettings(Settings):
    """What counts as salient."""

    tagger: str = setting(
        "spacy",
        "spacy: names by spaCy's small model; links: a dump's wiki links; dates: none but dates",
        one_of("spacy", "links", "dates"),
    )
    labels: str = setting("", "kinds of names to keep, with commas between; empty: the tagger's own", LINE)
    dates: bool = setting(True, "find dates by their pattern, too")
    blocks: int = setting(0, "look at so many blocks, drawn at random; 0: all", NOT_NEGATIVE)
    seed: int = setting(0, "draws them", SEED)


@dataclass(frozen=True)
class FinetuneOptions(Settings):
    """What finds blocks in fine-tuning, and what is left out."""

    retriever: str = setting("dense", "what finds blocks: the model, or BM25", one_of("dense", "bm25"))
    score_scale: float = setting(BM25_SCALE, "what BM25's scores are multiplied by to be prior logits", POSITIVE)
    leave_out_measured: bool = setting(
        True, "neither read nor learn from articles that question sets to measure by name as their own"
    )


@dataclass(frozen=True)
class EvaluateSettings(Settings):
    """How a model is measured."""

    retriever: str = setting("dense", "what finds blocks: the model, or BM25 as the baseline", one_of("dense", "bm25"))
    k: int = setting(5, "blocks read for a question", between(1, MAX_K))
    normalisation: str = setting(OWN, "how span scores become probabilities", one_of(OWN, *NORMALISATIONS))
    score_scale: float = setting(BM25_SCALE, "what BM25's scores are multiplied by to be prior logits", POSITIVE)
    sample: int = setting(0, "ask so many of the questions, the same ones every time; 0: all", NOT_NEGATIVE)


@dataclass(frozen=True)
class AblateSettings(Settings):
    """Which rows of the paper's table."""

    rows: list[str] = setting(
        list(ROWS),
        "of the paper's table 2, and BM25 beside them; each is trained and measured, what rows share once",
        some_of({name: row.title for name, row in ROWS.items()}),
    )


@dataclass(frozen=True)
class ExportSettings(Settings):
    """How a model is stored small."""

    query: str = setting("float16", "storage of the query embedder", one_of("float16", "int8", "float32"))
    reader: str = setting("float16", "storage of the reader", one_of("float16", "int8", "float32"))
    normalisation: str = setting(OWN, "how the exported model reads", one_of(OWN, *NORMALISATIONS))
    min_probability: float | None = setting(
        None, "an answer less likely than this is not given; empty: the model's own limit", SHARE
    )
