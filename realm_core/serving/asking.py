"""One question on the command line: `python -m realm_core ask`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from realm_core.index.corpus_of import add_corpus_argument, corpus_of
from realm_core.runs.activity import Activity
from realm_core.serving.engine import Engine


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `ask`."""
    parser.add_argument("question")
    parser.add_argument("--model", type=Path, required=True, help="model folder")
    parser.add_argument("--index", type=Path, required=True, help="generation folder")
    add_corpus_argument(parser, by_index=True)
    parser.add_argument("--k", type=int, default=5, help="blocks to read (default 5)")


def main(arguments: argparse.Namespace, activity: Activity) -> None:
    """Print the answer with its provenance as JSON."""
    engine = Engine.load(arguments.model, arguments.index, corpus_of(arguments.index, arguments.corpus))
    answer = engine.ask(arguments.question, k=arguments.k)
    print(json.dumps(answer.as_dict(), ensure_ascii=False, indent=1))
    engine.close()
