"""Cleaning wikitext beside mwparserfromhell, on articles of a dump: python -m benchmarks.cleaning DUMP [--rounds N]

Ours makes prose, sections, places of links, and sentences of infoboxes and tables (`to_prose`). mwparserfromhell parses
(its tokeniser is written in C) and strips the markup (`parse` and `strip_code`, with their defaults). One thread each;
what counts is processor time, so that other work on the machine matters little.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version
from itertools import accumulate, takewhile
from pathlib import Path
from typing import Any

import mwparserfromhell

from benchmarks.inputs import with_status
from benchmarks.machine import describe, now
from benchmarks.rounds import ratios, run_rounds, summary
from realm_core.corpus.mediawiki import MediaWikiSource
from realm_core.corpus.wikitext import to_prose
from realm_core.files import write_json

RESULTS = Path(__file__).resolve().parent / "results" / "cleaning.json"
_OURS, _THEIRS = "realm_core", "mwparserfromhell"


@with_status
def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cleaning", description=__doc__)
    parser.add_argument("dump", type=Path, help="a MediaWiki dump, plain or compressed")
    parser.add_argument("--megabytes", type=float, default=20, help="of wikitext at most (default: 20)")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--output", type=Path, default=RESULTS, help="JSON file (default: results/cleaning.json)")
    arguments = parser.parse_args(argv)
    source = MediaWikiSource(arguments.dump)
    texts = first_megabytes([article.text for article in source.articles(0)], arguments.megabytes)
    results = measure(texts, source.language, arguments.rounds)
    ratio = results["ratio"]
    print(f"{results['articles']:,} articles, {results['characters']:,} characters, {arguments.rounds} rounds")
    for name, seconds in results["seconds"].items():
        print(f"  {name:<18} {seconds['median']:6.2f} s ({seconds['low']:.2f} to {seconds['high']:.2f})")
    print(f"  theirs / ours      {ratio['median']:6.2f}   ({ratio['low']:.2f} to {ratio['high']:.2f})")
    write_json(arguments.output, results)


def first_megabytes(texts: list[str], megabytes: float) -> list[str]:
    """The first texts that together have at most so many million characters."""
    sizes = takewhile(lambda size: size <= megabytes * 1e6, accumulate(map(len, texts)))
    return texts[: sum(1 for _ in sizes)]


def measure(texts: list[str], language: str, rounds: int) -> dict[str, Any]:
    """Processor seconds of both for all texts, and theirs divided by ours within each round."""
    contestants: dict[str, Callable[[], float]] = {
        _OURS: partial(seconds_of, lambda text: to_prose(text, language)[0], texts),
        _THEIRS: partial(seconds_of, lambda text: mwparserfromhell.parse(text).strip_code(), texts),
    }
    gc.collect()
    gc.freeze()  # objects of torch, which both would pay for whenever the collector looks through everything
    seconds = run_rounds(contestants, rounds)
    return {
        "format": 1,
        "created": now(),
        "machine": describe(),
        "version_theirs": version(_THEIRS),
        "articles": len(texts),
        "characters": sum(map(len, texts)),
        "rounds": rounds,
        "seconds": {name: summary(values) for name, values in seconds.items()},
        "ratio": ratios(seconds[_THEIRS], seconds[_OURS]),
    }


def seconds_of(clean: Callable[[str], str], texts: list[str]) -> float:
    """Processor time that cleaning all texts takes."""
    started_at = time.process_time()
    for text in texts:
        clean(text)
    return time.process_time() - started_at


if __name__ == "__main__":
    sys.exit(main())
