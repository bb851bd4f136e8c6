"""What is measured with: a model, a corpus, an index of it, questions; made where they are missing."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path

from realm_core.corpus.store import Snapshot
from realm_core.errors import RealmError
from realm_core.files import read_json

TOP = Path(__file__).resolve().parents[1]
MODEL = TOP / "models" / "realm-mini"
QUESTIONS = TOP / "models" / "questions" / "plain-dev.jsonl"
CORPUS_NAME = "vital-en"  # as `make run` names it, so that neither makes what the other has made


@dataclass(frozen=True)
class Size:
    """How much is measured.

    blocks:     embedded by each contestant in each round of indexing; warm_up_blocks before the first.
    questions:  asked of each contestant in each round of answering.
    rounds:     of either.
    sentences:  masked in a step of pre-training; `steps` of them of each contestant in each of `training_rounds`.
    span_blocks: blocks whose salient spans are masked.
    vectors:    that are searched approximately.
    peak_s:     seconds that each matrix shape is tried; peak_large: size of the large square matrices.
    """

    blocks: int
    warm_up_blocks: int
    questions: int
    rounds: int
    sentences: int
    steps: int
    training_rounds: int
    span_blocks: int
    vectors: int
    peak_s: float
    peak_large: int


FULL = Size(
    blocks=512,
    warm_up_blocks=64,
    questions=60,
    rounds=5,
    sentences=2,
    steps=3,
    training_rounds=3,
    span_blocks=200,
    vectors=200_000,
    peak_s=1.0,
    peak_large=4096,
)
QUICK = Size(
    blocks=32,
    warm_up_blocks=8,
    questions=4,
    rounds=2,
    sentences=1,
    steps=1,
    training_rounds=2,
    span_blocks=20,
    vectors=5_000,
    peak_s=0.05,
    peak_large=1024,
)


@dataclass(frozen=True)
class Inputs:
    """Folders of what is measured with."""

    model: Path
    corpus: Path
    index: Path
    questions: Path

    @property
    def folders(self) -> tuple[Path, Path, Path]:
        """Model, corpus and index."""
        return self.model, self.corpus, self.index

    def blocks(self, count: int) -> tuple[list[str], list[str]]:
        """Titles and texts of `count` blocks, in runs spread evenly over the corpus."""
        snapshot = Snapshot.open(self.corpus)
        if len(snapshot) < count:
            raise RealmError(f"{self.corpus} has {len(snapshot)} blocks, and {count} are measured.")
        run = 8
        titles: list[str] = []
        texts: list[str] = []
        for start in range(0, count, run):
            low = start * (len(snapshot) // count)
            run_titles, run_texts = snapshot.titles_texts(low, low + min(run, count - start))
            titles.extend(run_titles)
            texts.extend(run_texts)
        return titles, texts

    def first_questions(self, count: int) -> list[str]:
        """The first `count` questions of the question file."""
        with open(self.questions, encoding="utf-8") as file:
            questions = [json.loads(line)["question"] for line in file if line.strip()]
        if len(questions) < count:
            raise RealmError(f"{self.questions} has {len(questions)} questions, and {count} are asked.")
        return questions[:count]


def prepare(model: Path | None, corpus: Path | None, index: Path | None) -> Inputs:
    """The folders given, the others as `make run` has or would have them; `RealmError` without a model."""
    model = model or MODEL
    if not (model / "config.json").exists():
        raise RealmError(f"There is no model in {model}; restore it from the repository, or name one with --model.")
    data = Path(os.environ.get("REALM_DATA") or TOP / "var").absolute()
    if corpus is None:
        output = ["--output", str(data / "corpora")]
        corpus = run_activity("ingest", "--source", "default", "--name", CORPUS_NAME, *output)
    if index is None:
        where = ["--model", str(model), "--corpus", str(corpus), "--output", str(data / "indexes")]
        index = run_activity("index", *where)
    return Inputs(model.absolute(), corpus.absolute(), index.absolute(), QUESTIONS)


def add_folders(parser: argparse.ArgumentParser) -> None:
    """The options --model, --corpus and --index, for `prepare`."""
    parser.add_argument("--model", type=Path, help="model folder (default: models/realm-mini)")
    parser.add_argument("--corpus", type=Path, help="snapshot folder (default: the default corpus)")
    parser.add_argument("--index", type=Path, help="generation folder (default: made if missing)")


def with_status(measure: Callable[[Sequence[str] | None], None]) -> Callable[..., int]:
    """The `main` of a measurement, which takes its words: it returns the exit status, 2 after a `RealmError`."""

    @wraps(measure)
    def main(argv: Sequence[str] | None = None) -> int:
        try:
            measure(argv)
        except RealmError as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
        except KeyboardInterrupt:
            print("\nStopped; no results were written.", file=sys.stderr)
            return 130
        return 0

    return main


def run_activity(name: str, *arguments: str) -> Path:
    """The folder that an activity of realm_core made, or found made already."""
    with tempfile.TemporaryDirectory() as run:
        command = [sys.executable, "-m", "realm_core", name, *arguments, "--run", run]
        if subprocess.run(command, cwd=TOP, check=False).returncode != 0:
            raise RealmError(f"“realm_core {name}” did not succeed; what it said stands above.")
        return Path(read_json(Path(run) / "result.json")["path"])
