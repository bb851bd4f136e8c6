"""`manage.py register_model PATH`: record a model folder; schedules that wait for a new model then build its index."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.db import transaction

from realm_core.errors import RealmError
from webapp.artefacts.registering import record_model
from webapp.management.operator import OperatorCommand
from webapp.models import ModelVersion
from webapp.schedules import service as scheduling


class Command(OperatorCommand):
    """Record a model folder. It stays in its place; recording it again updates its path."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("path", type=Path)
        parser.add_argument("--name", default="", help="the model's name (default: the folder's)")
        parser.add_argument("--parent", default="", help="hash of the model that it was trained from")

    def handle(self, *_args: Any, path: Path, name: str, parent: str, **_options: Any) -> None:
        ancestor = ModelVersion.objects.filter(model_hash=parent).first() if parent else None
        if parent and ancestor is None:
            raise RealmError(f"No model with the hash {parent} is recorded.")
        known = set(ModelVersion.objects.values_list("pk", flat=True))
        with transaction.atomic():
            model = record_model(path, name=name, parent=ancestor)
            jobs = [] if model.pk in known else scheduling.model_made(model)
        self.stdout.write(f"Recorded: {model} (hash {model.model_hash})")
        for job in jobs:
            self.stdout.write(f"A schedule builds its index: job {job.pk}.")
