"""`manage.py register_questions FILE`: record a file of questions, to train on or to measure by."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from webapp.management.operator import OperatorCommand
from webapp.models import Purpose
from webapp.questions import service as questions


class Command(OperatorCommand):
    """Record a file of questions (JSON lines, CSV or TSV). It is copied into the data folder and never changed."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("path", type=Path)
        parser.add_argument("--purpose", choices=Purpose.values, required=True, help="train on it, or measure by it")
        parser.add_argument("--name", default="", help="name of the set (default: the file's name)")
        parser.add_argument(
            "--leave-out-measured",
            action="store_true",
            help="for training questions: omit those that are in a set to measure by",
        )
        parser.add_argument("--origin", default="", help="where the questions came from, and their licence")

    def handle(self, *_args: Any, path: Path, purpose: str, name: str, origin: str, **options: Any) -> None:
        made = questions.record_file(
            path, purpose, name=name, origin=origin, leave_out_measured=options["leave_out_measured"]
        )
        self.stdout.write(f"Recorded: {made}")
