"""`manage.py wikipedia --language simple`: fetch the newest dump, and have it ingested, indexed and deployed."""

from __future__ import annotations

import os
import time
from argparse import ArgumentParser, ArgumentTypeError, BooleanOptionalAction
from typing import Any, Final

from realm_core.errors import RealmError
from realm_core.runs.activity import duration
from webapp.jobs.service import start
from webapp.management.operator import OperatorCommand
from webapp.models import GONE, Document, JobKind
from webapp.schedules import growth
from webapp.schedules import service as scheduling
from webapp.serving.embedding import embedding_of
from webapp.serving.living import active, current_view
from webapp.sources import dumps, estimating
from webapp.sources.dumps import Dump
from webapp.text import counted

# The paper's 13 million blocks are of the English Wikipedia of 20 December 2018, whose pages-articles.xml.bz2 has
# 15,712,882,238 bytes. Multistream dumps, which are fetched here, are larger by about a tenth.
_BLOCKS_A_BYTE: Final = 13e6 / 15_712_882_238
_MEASURED_S: Final = 5.0  # for how long blocks are embedded to see how fast that goes
_BLOCKS_AT_ONCE: Final = 32
_TOLD_EVERY_S: Final = 2.0
_ENGLISH: Final = ("en", "simple")  # what the shipped models read
_IN_PARTS: Final = "; parts that answer earlier are indexed again, a seventh more at most"
_LICENCE: Final = "CC BY-SA 4.0"


class Command(OperatorCommand):
    """Fetch the newest dump of a Wikipedia, and have it ingested, indexed and, unless --no-deploy says otherwise,
    deployed by jobs, the first part of it first. Before that it says how long it takes. Killed while it fetches, the
    same command goes on.
    """

    stopped = "Stopped; the same command goes on from here."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--language", default="en", help="such as en, simple or fr (default en)")
        parser.add_argument("--date", default="", help="of another dump than the newest, as YYYYMMDD")
        parser.add_argument("--mirror", default=dumps.MIRROR, help=f"default {dumps.MIRROR}")
        parser.add_argument("--estimate", action="store_true", help="say how long it takes, and do nothing")
        parser.add_argument("--mbit", type=_mbit, default=0.0, help="of your connection a second (default: measured)")
        parser.add_argument("--anyway", action="store_true", help="begin even if the disk has less room than it takes")
        parser.add_argument(
            "--deploy",
            action=BooleanOptionalAction,
            default=True,
            help="let each part answer as soon as it is indexed (default); without, all of it is indexed and waits",
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        dump = dumps.newest(options["language"], mirror=options["mirror"], date=options["date"])
        self._estimate(dump, options)
        if options["estimate"]:
            return
        source = dumps.fetch(dump, _Progress(self.stdout.write).report)
        parameters: dict[str, Any] = {
            "source": "mediawiki",
            "file": source.name,
            "corpus_name": dump.wiki,
            "licence": _LICENCE,
        }
        first = growth.first_articles(dump.wiki) if options["deploy"] else 0
        if first:
            parameters["articles_at_most"] = first
        job = start(JobKind.INGEST, parameters, by=None)
        scheduling.follow(job, dump.wiki, deploy=options["deploy"])
        part = f"the first {first:,} articles of " if first else ""
        then = ", and it answers" if options["deploy"] else ""
        then += "; larger parts follow, until all of it does" if first else ""
        edits = _edits_told(dump.wiki) if options["deploy"] else ""
        self.stdout.write(
            f"Job {job.pk} ingests {part}{source.name}; then a job indexes {dump.wiki}{then}. What is deployed answers "
            f"meanwhile.{edits} Manage › Jobs and Manage › Schedules show how far it is."
        )

    def _estimate(self, dump: Dump, options: dict[str, Any]) -> None:
        """Say how long each step takes here, and what room the disk needs. RealmError if it has too little."""
        blocks = round(dump.size_bytes * _BLOCKS_A_BYTE)
        ingesting, came = estimating.sampled(dump)
        dimension, rate = _embedding_rate()
        fetching_s = estimating.fetching_s(dump, options["mbit"] * 1e6 / 8 if options["mbit"] else came)
        words_s, lists_s = estimating.words_s(blocks, ingesting), estimating.lists_s(blocks, dimension)
        disk = estimating.disk(dump, ingesting, blocks, dimension, in_parts=options["deploy"])
        together = duration(fetching_s + ingesting.whole_s + blocks / rate + words_s + lists_s)
        said = "by --mbit" if options["mbit"] else f"at {came / 1e6:,.1f} MB/s, measured now"
        steps = [
            f"{dump.name}: {_size(dump.size_bytes)}, of which {_size(disk.fetched)} are to be fetched. At most about "
            f"{blocks:,} blocks, by its size (of the English Wikipedia a compressed MB has 827).",
            f"  fetching   {duration(fetching_s)}, {said}" if disk.fetched else "  fetching   nothing, it is here",
            f"  ingesting  {duration(ingesting.whole_s)} on {os.cpu_count()} processors, by the beginning of the dump",
            f"  embedding  {duration(blocks / rate)} on this machine alone, at {rate:,.0f} blocks a second; further "
            "workers of the queue index share that",
            f"  words      {duration(words_s)}, for search by words"
            if words_s
            else "  words      none: so many blocks are found by meaning, and words rank the nearest",
            f"  lists      {duration(lists_s)}, for approximate search"
            if lists_s
            else "  lists      none: so many blocks are searched exactly",
            f"  together   {together}, measured beside whatever else this machine does"
            + (_IN_PARTS if options["deploy"] else ""),
            f"  disk       {_size(disk.needed)}: {_size(disk.fetched)} dump, {_size(disk.corpus)} corpus, "
            f"{_size(disk.vectors)} vectors, {_size(disk.words)} words, {_size(disk.lists)} lists"
            + (f", {_size(disk.parts)} earlier parts" if disk.parts else "")
            + f"; corpus and lists are there twice while they are written. {_size(disk.free)} are free",
        ]
        self.stdout.write("\n".join(steps))
        if options["language"] not in _ENGLISH:
            self.stdout.write(
                f"The shipped models read English alone: over {dump.wiki} they find and mark little that is right."
            )
        if disk.needed > disk.free:
            told = (
                f"The disk of the data folder has {_size(disk.free)} free, and about {_size(disk.needed)} are needed."
            )
            if not (options["estimate"] or options["anyway"]):
                raise RealmError(f"{told} Free some, let REALM_DATA name a folder elsewhere, or say --anyway.")
            self.stdout.write(self.style.WARNING(told))


def _edits_told(corpus_name: str) -> str:
    """What becomes of documents that were edited in what answers now."""
    index = active().index
    number = Document.objects.filter(index=index).exclude(status__in=GONE).count()
    if not number or index.corpus.name == corpus_name:
        return ""
    what = f"{counted(number, 'document')} that {'was' if number == 1 else 'were'} added to {index.corpus.name}"
    return f" {what}, or changed in it, will be brought over."


class _Progress:
    """Tells how far a fetch is, now and then."""

    def __init__(self, write: Any) -> None:
        self._write = write
        self._began: tuple[float, int] | None = None
        self._told_at = 0.0

    def report(self, there: int, whole: int) -> None:
        """Say it, if it was not said a moment ago."""
        now = time.monotonic()
        began_at, began_with = self._began = self._began or (now, there)
        if now - self._told_at < _TOLD_EVERY_S and there < whole:
            return
        self._told_at = now
        rate = (there - began_with) / (now - began_at) if now > began_at else 0.0
        left = f", {rate / 1e6:.1f} MB/s, {duration((whole - there) / rate)} left" if rate and there < whole else ""
        self._write(f"  {100 * there / whole:.1f} % of {_size(whole)}{left}")


def _embedding_rate() -> tuple[int, float]:
    """(dimension, blocks a second), by embedding blocks of the corpus that answers."""
    embed = embedding_of(active().model)
    view = current_view()
    rows = [row for row in range(min(len(view), 4096)) if view.live_rows[row]]
    if not rows:
        raise RealmError("The corpus that answers has no block by which to see how fast this machine embeds.")
    taken = [view.block(rows[number % len(rows)]) for number in range(_BLOCKS_AT_ONCE)]
    blocks = [(block.title, block.text) for block in taken]
    dimension = int(embed(blocks).shape[1])  # which also loads the embedder
    began, done = time.monotonic(), 0
    while (taken_s := time.monotonic() - began) < _MEASURED_S:
        embed(blocks)
        done += len(blocks)
    return dimension, done / taken_s


def _mbit(text: str) -> float:
    try:
        told = float(text)
    except ValueError:
        told = 0.0
    if not 0 < told < 1e9:
        raise ArgumentTypeError(f"{text!r} is no number of megabits a second")
    return told


def _size(count: float) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"
