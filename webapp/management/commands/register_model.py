"""`manage.py register_model PATH`: record a model folder, so that indexes can be built with it."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from realm_core.errors import RealmError
from webapp.models import ModelVersion
from webapp.services.registering import record_model


class Command(BaseCommand):
    """Record a model."""

    help = "Record a model folder. It stays where it is; recording it again gives the row its new place."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("path", type=Path)
        parser.add_argument("--name", default="", help="the model's name (default: the folder's)")
        parser.add_argument("--parent", default="", help="hash of the model that it was trained from")

    def handle(self, *_args: Any, path: Path, name: str, parent: str, **_options: Any) -> None:
        ancestor = ModelVersion.objects.filter(model_hash=parent).first() if parent else None
        if parent and ancestor is None:
            raise CommandError(f"No model with the hash {parent} is recorded.")
        try:
            model = record_model(path, name=name, parent=ancestor)
        except RealmError as error:
            raise CommandError(str(error), returncode=2) from None
        self.stdout.write(f"Recorded: {model} (hash {model.model_hash})")
