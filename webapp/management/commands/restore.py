"""`manage.py restore FILE`: see webapp/operations/backups.py."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from webapp.management.operator import OperatorCommand
from webapp.operations import backups


class Command(OperatorCommand):
    """Restore a backup into an empty database and this data folder."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, help="the tar file to read")

    def handle(self, *_args: Any, **options: Any) -> None:
        aside = backups.restore(options["file"])
        for path in aside:
            self.stdout.write(f"Existing files differed from the backup; they are now in {path}")
        self.stdout.write(f"{options['file']} is restored. Restart the processes: the secret key may have changed.")
