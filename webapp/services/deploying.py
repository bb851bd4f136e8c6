"""Deploy a model and an index, or go back to an earlier pair: the same step."""

from __future__ import annotations

from django.contrib.auth.models import User

from realm_core.errors import RealmError
from webapp.models import Deployment, IndexGeneration
from webapp.services.places import resolve


def deploy(index: IndexGeneration, *, by: User | None = None, note: str = "") -> Deployment:
    """Let `index` and its model answer from now on; every web process loads them beside what it has.

    RealmError when files are missing: better said now than found by each process.
    """
    return _activate(Deployment(model=index.model, index=index), by, note)


def roll_back(earlier: Deployment, *, by: User | None = None) -> Deployment:
    """Let an earlier deployment's pair answer again. Errors as `deploy`."""
    return _activate(earlier, by, f"Back to deployment {earlier.pk}")


def _activate(pair: Deployment, by: User | None, note: str) -> Deployment:
    index = pair.index
    for what, path, file in (
        ("model", pair.model.path, "config.json"),
        ("index", index.path, "manifest.json"),
        ("corpus", index.corpus.path, "manifest.json"),
    ):
        if not (resolve(path) / file).exists():
            raise RealmError(f"The {what} is not there any more: {resolve(path) / file} does not exist.")
    return Deployment.activate(index, model=pair.model, by=by, note=note)
