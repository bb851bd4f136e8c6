"""`manage.py backup FILE`: see webapp/operations/backups.py."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from webapp.management.operator import OperatorCommand
from webapp.operations import backups
from webapp.storage.places import sources_dir
from webapp.text import counted


class Command(OperatorCommand):
    """Write all records, and the files that they name, into one tar file."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, help="the tar file to write")
        parser.add_argument(
            "--without-sources", action="store_true", help="leave out the files to ingest, which may be large"
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        written = backups.back_up(options["file"], with_sources=not options["without_sources"])
        for path in written.outside:
            self.stdout.write(f"Not in the backup, because it lies outside the data folder: {path}")
        if options["without_sources"]:
            self.stdout.write(f"Not in the backup, as you said: the files to ingest, in {sources_dir()}")
        elif written.sources:
            size = sum(one.size_bytes for one in written.sources)
            files = counted(len(written.sources), "file")
            self.stdout.write(f"{files} to ingest, {size:,} bytes, in the backup; --without-sources leaves them out.")
        self.stdout.write(f"{options['file']} has {options['file'].stat().st_size:,} bytes.")
