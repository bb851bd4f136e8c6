"""Models that come with the source: an admin adds what the first run did not."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.web.conftest import Person
from tests.web.operating import TokenClient, post, problem
from webapp.artefacts.shipped import record_shipped, shipped_models
from webapp.models import AuditEntry, ModelVersion
from webapp.storage.places import resolve

pytestmark = pytest.mark.django_db


@pytest.fixture
def source(tmp_path: Path, settings: Any) -> Path:
    """A folder of two models, and of others that are none."""
    settings.REALM_DATA = tmp_path / "data"
    settings.MODELS_DIR = tmp_path / "source"
    for name in ("realm-base", "realm-mini"):
        folder = tmp_path / "source" / name
        folder.mkdir(parents=True)
        config = {"weights_sha256": sha256(name.encode()).hexdigest(), "block_hash": "b" * 16, "model": {}}
        (folder / "config.json").write_text(json.dumps(config))
        (folder / "model.safetensors").write_text(name)
        (folder / "README.md").write_text(f"# {name}")
    (tmp_path / "source" / "recipes").mkdir()
    (tmp_path / "source" / "broken").mkdir()
    (tmp_path / "source" / "broken" / "config.json").write_text("{")
    return tmp_path / "source"


def listed(staff: Person) -> str:
    return str(staff.client.get("/manage/models/").content.decode())


def test_the_page_offers_those_that_are_not_there_and_adds_one(staff: Person, source: Path) -> None:
    record_shipped("realm-base", by=staff.user)
    assert 'name="name" value="realm-mini"' in listed(staff)
    assert 'value="realm-base"' not in listed(staff) and "broken" not in listed(staff)
    made = staff.client.post("/manage/models/add/", {"name": "realm-mini"})
    model = ModelVersion.objects.get(name="realm-mini")
    assert made["Location"] == f"/manage/models/{model.pk}/" and model.card == "# realm-mini"
    # A copy: the folder of the source is another one after an upgrade.
    assert resolve(model.path) != source / "realm-mini"
    assert (resolve(model.path) / "model.safetensors").read_text() == "realm-mini"
    assert "Comes with the source" not in listed(staff)
    entry = AuditEntry.objects.filter(action="model.add").latest("pk")
    assert (entry.by, entry.details["model"]) == (staff.user, model.pk)
    staff.client.post("/manage/models/add/", {"name": "realm-mini"})  # a second click
    assert (AuditEntry.objects.filter(action="model.add").count(), ModelVersion.objects.count()) == (2, 2)


def test_a_model_that_was_removed_can_be_added_again(staff: Person, source: Path) -> None:
    model, _ = record_shipped("realm-mini", by=staff.user)
    ModelVersion.objects.filter(pk=model.pk).update(removed_at=model.created_at)
    assert shipped_models() == {"realm-base": None, "realm-mini": None}
    assert record_shipped("realm-mini", by=staff.user) == (model, True)


@pytest.mark.parametrize("name", ["", "broken", "recipes", "../source/realm-mini", "realm-mini/"])
def test_what_is_no_shipped_model_is_refused(staff: Person, program: TokenClient, source: Path, name: str) -> None:
    response = staff.client.post("/manage/models/add/", {"name": name}, follow=True)
    assert "there are realm-base, realm-mini." in response.content.decode()
    refused: dict[str, Any] = problem(post(program, "models", {"shipped": name}), 400)
    assert [one["field"] for one in refused["errors"]] == ["shipped"]
    assert not ModelVersion.objects.exists()


def test_rest_adds_one_once(source: Path, program: TokenClient) -> None:
    first, second = (post(program, "models", {"shipped": "realm-mini"}) for _ in range(2))
    assert (first.status_code, second.status_code) == (201, 200) and first.json() == second.json()
    assert program.get(first["Location"]).json() == first.json()
