"""`manage.py wikipedia --language simple`: fetch the newest dump, and have it ingested and indexed by jobs."""

from __future__ import annotations

import time
from argparse import ArgumentParser
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError

from realm_core.errors import RealmError
from realm_core.runs.activity import duration
from webapp.documents.viewing import active, current_view
from webapp.jobs.service import start
from webapp.models import JobKind
from webapp.refusals import StateConflict
from webapp.schedules import growth
from webapp.schedules import service as schedules
from webapp.serving.embedding import embedding_of
from webapp.serving.engine import EngineUnavailable
from webapp.sources import dumps
from webapp.sources.dumps import Dump

# The paper's 13 million blocks are of the English Wikipedia of 20 December 2018, whose pages-articles.xml.bz2 has
# 15,712,882,238 bytes. Multistream dumps, which are fetched here, are larger by about a tenth.
_BLOCKS_A_BYTE: Final = 13e6 / 15_712_882_238
_MEASURED_S: Final = 5.0  # for how long blocks are embedded to see how fast that goes
_BLOCKS_AT_ONCE: Final = 32
_TOLD_EVERY_S: Final = 2.0
_VECTOR_BYTES: Final = 2  # of each dimension, as stored
_LICENCE: Final = "CC BY-SA 4.0"


class Command(BaseCommand):
    """Estimate, fetch, begin."""

    help = (
        "Fetch the newest dump of a Wikipedia, and have it ingested, indexed and, if you want, deployed by jobs, the "
        "first part of it first. First it says how long that takes. Killed while it fetches, the same command goes on."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--language", default="en", help="such as en, simple or fr (default en)")
        parser.add_argument("--date", default="", help="of another dump than the newest, as YYYYMMDD")
        parser.add_argument("--mirror", default=dumps.MIRROR, help=f"default {dumps.MIRROR}")
        parser.add_argument("--estimate", action="store_true", help="say how long it takes, and do nothing")
        parser.add_argument("--deploy", action="store_true", help="let each part answer as soon as it is indexed")

    def handle(self, *_args: Any, **options: Any) -> None:
        try:
            dump = dumps.newest(options["language"], mirror=options["mirror"], date=options["date"])
            self._estimate(dump)
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
            schedules.follow(job, dump.wiki, deploy=options["deploy"])
        except (RealmError, StateConflict, EngineUnavailable) as error:
            raise CommandError(str(error), returncode=2) from None
        except KeyboardInterrupt:
            raise CommandError("Stopped; the same command goes on from here.", returncode=3) from None
        part = f"the first {first:,} articles of " if first else ""
        then = ", and it answers" if options["deploy"] else ""
        then += "; larger parts follow, until all of it does" if first else ""
        self.stdout.write(
            f"Job {job.pk} ingests {part}{source.name}; then a job indexes {dump.wiki}{then}. What is deployed answers "
            "meanwhile. Manage › Jobs and Manage › Schedules show how far it is."
        )

    def _estimate(self, dump: Dump) -> None:
        """Say what is to be fetched, built and stored, and how long embedding takes on this machine."""
        blocks = dump.size_bytes * _BLOCKS_A_BYTE
        dimension, rate = _embedding_rate()
        self.stdout.write(f"{dump.name}: {_size(dump.size_bytes)} to fetch.")
        self.stdout.write(
            f"At most about {blocks:,.0f} blocks, by its size (of the English Wikipedia a compressed MB has 827); "
            f"vectors of {_size(blocks * dimension * _VECTOR_BYTES)}."
        )
        self.stdout.write(
            f"This machine embeds {rate:,.0f} blocks a second, measured now beside whatever else it does: "
            f"{duration(blocks / rate)} for the index on it alone, and with --deploy a seventh more at most, because "
            "parts of it answer earlier and are indexed again. Further workers of the queue index share that."
        )


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
    _, view = current_view()
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


def _size(count: float) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"
