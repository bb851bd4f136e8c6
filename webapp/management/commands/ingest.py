"""`manage.py ingest …`: read a source, publish a corpus snapshot in the data folder and record it."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

from realm_core.command_line import add_options, task_of
from realm_core.corpus.tasks import Ingest
from realm_core.runs.activity import Activity
from webapp.artefacts.registering import record_corpus
from webapp.management.operator import OperatorCommand
from webapp.storage.places import corpora_dir


class Command(OperatorCommand):
    """Make a corpus snapshot from a source. If it is killed, the same command resumes where it stopped."""

    stopped = "Stopped; the same command resumes from here."

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_options(parser, Ingest, without=["output"])

    def handle(self, *_args: Any, **options: Any) -> None:
        from realm_core.corpus.ingest import snapshot_of  # imports the tokeniser

        activity = Activity(quiet=options["verbosity"] == 0)
        activity.stop_on_signals()
        task = task_of(Ingest, Namespace(**options, output=corpora_dir()))
        snapshot = record_corpus(snapshot_of(task, activity))
        self.stdout.write(f"Recorded: {snapshot}")
