"""`manage.py backup FILE`: see webapp/operations/backups.py."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from webapp.management.operator import OperatorCommand
from webapp.operations import backups


class Command(OperatorCommand):
    """Write all records, and the files that they name, into one tar file."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, help="the tar file to write")

    def handle(self, *_args: Any, **options: Any) -> None:
        left_out = backups.back_up(options["file"])
        for path in left_out:
            self.stdout.write(f"Not in the backup, because it lies outside the data folder: {path}")
        self.stdout.write(f"{options['file']} has {options['file'].stat().st_size:,} bytes.")
