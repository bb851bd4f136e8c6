"""Second folders of recorded corpora, which nothing names: what retention removes of them."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from realm_core.corpus.tables import tokens_folder
from tests.web.pages import stored
from webapp.artefacts import retention
from webapp.models import AuditEntry, CorpusSnapshot, CorpusState, Job, JobState
from webapp.storage.places import resolve

pytestmark = pytest.mark.django_db


def test_old_copies_of_a_corpus_that_nothing_names_are_removed(tmp_path: Path, settings: Any) -> None:
    settings.REALM_DATA = tmp_path
    index = stored.deployment().index
    corpus = index.corpus
    named = resolve(corpus.path)
    places = [named, *(resolve(f"corpora/{name}/{corpus.snapshot_id}") for name in ("second", "new"))]
    others = [resolve("corpora/second/fedcba9876543210"), tokens_folder(places[1])]
    for folder, days in zip([*places, *others], (40, 40, 0, 40, 40), strict=True):
        folder.mkdir(parents=True)
        (folder / "manifest.json").write_text("{}")
        changed = (timezone.now() - timedelta(days)).timestamp()
        os.utime(folder / "manifest.json", (changed, changed))
    at_work = Job.objects.create(kind="ingest", state=JobState.RUNNING)
    assert retention.removable() == []
    at_work.delete()
    state = {"name": "second", "base": {"snapshot": corpus.snapshot_id, "generation": index.generation}}
    edited = CorpusState.objects.create(index=index, state_id="s", state=state, has_edits=True)
    assert retention.removable() == []  # edits are above this folder
    edited.delete()
    [removal] = retention.removable()
    said = f"Copy in corpora/second/{corpus.snapshot_id} of the corpus {corpus}"
    assert (str(removal), removal.folders, removal.size_bytes) == (said, (places[1], others[1]), 4)
    assert retention.remove(by=None) == [removal] and retention.removable() == []
    assert [folder.exists() for folder in [*places, *others]] == [True, False, True, True, False]
    assert AuditEntry.objects.get(action="retention.remove").target == said
    CorpusSnapshot.objects.filter(pk=corpus.pk).update(path=f"corpora/second/{corpus.snapshot_id}")
    assert retention.removable() == []  # what is recorded is not there: a copy may have to take its place
