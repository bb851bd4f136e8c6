"""`manage.py ingest …`: read a source, publish a corpus snapshot in the data folder and record it."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from realm_core.corpus.sources import add_source_arguments, source_from
from realm_core.errors import RealmError, Stopped
from realm_core.runs.activity import Activity
from webapp.artefacts.registering import record_corpus
from webapp.storage.places import corpora_dir


class Command(BaseCommand):
    """Ingest and record."""

    help = "Make a corpus snapshot from a source. Killed at any time, the same command goes on where it stopped."

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_source_arguments(parser)
        parser.add_argument("--name", help="the corpus's name (default: the source's)")
        parser.add_argument("--processes", type=int, help="processes that clean and pack (default: one a processor)")

    def handle(self, *_args: Any, **options: Any) -> None:
        from realm_core.corpus.ingest import ingest  # brings the tokeniser

        if options["processes"] is not None and options["processes"] < 1:
            raise CommandError("--processes must be at least 1.")
        activity = Activity(quiet=options["verbosity"] == 0)
        activity.stop_on_signals()
        try:
            source = source_from(Namespace(**options))
            corpora_dir().mkdir(parents=True, exist_ok=True)
            folder = ingest(
                source,
                name=options["name"] or source.name,
                output=corpora_dir(),
                activity=activity,
                processes=options["processes"],
            )
            snapshot = record_corpus(folder)
        except RealmError as error:
            raise CommandError(str(error), returncode=2) from None
        except (Stopped, KeyboardInterrupt):
            raise CommandError("Stopped; the same command goes on from here.", returncode=3) from None
        self.stdout.write(f"Recorded: {snapshot}")
