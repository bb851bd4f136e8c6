"""`manage.py backup FILE`: see webapp/operations/backups.py."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from realm_core.errors import RealmError
from webapp.operations import backups


class Command(BaseCommand):
    """Write all records, and the files that they name, into one tar file."""

    help = "Write all records, and the files that they name, into one tar file."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, help="the tar file to write")

    def handle(self, *_args: Any, **options: Any) -> None:
        try:
            left_out = backups.back_up(options["file"])
        except RealmError as error:
            raise CommandError(str(error), returncode=2) from None
        for path in left_out:
            self.stdout.write(f"Not in the backup, because it lies outside the data folder: {path}")
        self.stdout.write(f"{options['file']} has {options['file'].stat().st_size:,} bytes.")
