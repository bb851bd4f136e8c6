"""Models that come with the source. The first run records one of them; the others are recorded when they are wanted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction

from realm_core.errors import RealmError
from realm_core.model.identity import read_hashes
from webapp.artefacts.registering import adopt_model
from webapp.models import AuditEntry, ModelVersion


def shipped_models() -> dict[str, ModelVersion | None]:
    """By name: the record of each, None of those that are not recorded."""
    hashes = {folder.name: model_hash for folder, model_hash in _folders()}
    known = {model.model_hash: model for model in ModelVersion.objects.filter(model_hash__in=hashes.values())}
    return {name: known.get(model_hash) for name, model_hash in hashes.items()}


def record_shipped(name: str, *, by: User) -> tuple[ModelVersion, bool]:
    """(the record of a shipped model, whether it is new). Its files are copied into the data folder.

    RealmError if there is no such model, or if the disk takes no files.
    """
    folder = next((folder for folder, _ in _folders() if folder.name == name), None)
    if folder is None:
        raise RealmError(f"No model of this name comes with the source; there are {', '.join(shipped_models())}.")
    if (known := shipped_models()[name]) is not None:
        return known, False
    with transaction.atomic():
        model = adopt_model(folder)
        AuditEntry.record("model.add", model, by=by, model=model.pk)
    return model, True


def _folders() -> Iterator[tuple[Path, str]]:
    """(folder, model hash) of each that can be read."""
    for config in sorted(settings.MODELS_DIR.glob("*/config.json")):
        try:
            model_hash, _ = read_hashes(config.parent)
        except RealmError:
            continue
        yield config.parent, model_hash
