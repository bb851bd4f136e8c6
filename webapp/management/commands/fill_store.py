"""`manage.py fill_store`: put into the object store what was recorded before there was one."""

from __future__ import annotations

from typing import Any

from realm_core.errors import RealmError
from realm_core.object_store import is_shared, put_folder
from webapp.management.operator import OperatorCommand
from webapp.models import CorpusSnapshot, IndexGeneration, ModelVersion
from webapp.storage.places import corpora_dir, resolve


class Command(OperatorCommand):
    """Put every recorded corpus, model and index that lies here into the store of REALM_STORE, if it lacks there."""

    def handle(self, *_args: Any, **_options: Any) -> None:
        if not is_shared(corpora_dir() / "any"):
            raise RealmError("REALM_STORE names no store.")
        put = 0
        for record in (CorpusSnapshot, ModelVersion, IndexGeneration):
            for one in record._default_manager.all():
                folder = resolve(one.path)
                put += folder.is_dir() and put_folder(folder)
        self.stdout.write(f"Put into the store: {put} folders.")
