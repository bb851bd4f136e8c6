"""One masked sentence on the command line: `python -m realm_core fill`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

from realm_core.index.corpus_of import add_corpus_argument, corpus_of
from realm_core.runs.activity import Activity
from realm_core.serving.engine import Engine
from realm_core.serving.filled import Filling, Guess, Mask
from realm_core.text.masked import fill_masks

_EXCERPT = 160  # characters of a block


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `fill`."""
    parser.add_argument("sentence", help="a sentence with [MASK] where a word is missing")
    parser.add_argument("--model", type=Path, required=True, help="folder of a pre-trained model")
    parser.add_argument("--index", type=Path, required=True, help="generation folder")
    add_corpus_argument(parser, by_index=True)
    parser.add_argument("--k", type=int, default=8, help="blocks to read, the null block counted (default 8)")
    parser.add_argument("--truth", metavar="WORD", help="what stands there: how likely is it, which blocks help?")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")


def main(arguments: argparse.Namespace, activity: Activity) -> None:
    """Print the filling, as tables or as JSON."""
    engine = Engine.load(arguments.model, arguments.index, corpus_of(arguments.index, arguments.corpus))
    try:
        filling = engine.fill(arguments.sentence, k=arguments.k, truth=arguments.truth)
    finally:
        engine.close()
    if arguments.json:
        print(json.dumps(filling.as_dict(), ensure_ascii=False, indent=1))
    else:
        print("\n".join(_lines(filling)))


def _lines(filling: Filling) -> Iterator[str]:
    yield "".join(text for text, _ in fill_masks(filling.sentence, filling.explained.words))
    yield ""
    yield f"{'':30}{'without retrieval':>24}{'best block':>24}{'marginal':>24}"
    for guess in filling.guesses:
        yield _row(guess, guess.text)
    if filling.truth is not None:
        yield _row(filling.truth, f"truth: {filling.truth.text}")
    for number, mask in enumerate(filling.masks, start=1):
        yield ""
        yield f"[MASK] {number}"
        yield from _columns(mask)
    for block in filling.evidence:
        title = "The null block" if block.block_id is None else block.title
        best = ", the best block" if block.block_id and block.block_id == filling.best_block_id else ""
        yield ""
        yield f"{block.rank}. {title}{best}   {block.url}".rstrip()
        yield (
            f"   prior {block.prior:.3f}   likelihood {block.likelihood:.3g}   posterior {block.posterior:.3f}   "
            f"utility {block.utility:+.2f}"
        )
        if block.text:
            text = block.text.replace("\n", " ")
            yield f"   {text[:_EXCERPT]}{'…' if len(text) > _EXCERPT else ''}"
    yield ""
    yield f"{filling.model} · {filling.index} · {filling.corpus} · {filling.latency_ms:.0f} ms"


def _row(guess: Guess, name: str) -> str:
    values = (guess.without_retrieval, guess.best_block, guess.marginal)
    return f"{name:30}" + "".join(f"{'–' if value is None else f'{value:.3g}':>24}" for value in values)


def _columns(mask: Mask) -> Iterator[str]:
    for row in range(len(mask.marginal)):
        words = [column[row] if column else None for column in (mask.without_retrieval, mask.best_block, mask.marginal)]
        yield " " * 30 + "".join(
            f"{'–' if word is None else f'{word.text} {word.probability:.3g}':>24}" for word in words
        )
