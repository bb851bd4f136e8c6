"""The snapshot of an index: given explicitly, or found by its id."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from realm_core.errors import RealmError
from realm_core.files import read_json, write_json
from realm_core.index.corpus_of import corpus_of
from tests.core.conftest import Deployment
from tests.core.running import activity_of
from tests.core.training.material import questions, write_lines
from tests.tiny import tiny_snapshot


@pytest.fixture
def elsewhere(deployment: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The index, moved away from its corpus; the data folder is `tmp_path`/data."""
    monkeypatch.setenv("REALM_DATA", str(tmp_path / "data"))
    return Path(shutil.copytree(deployment.index, tmp_path / "away" / "indexes" / "moved"))


def test_an_explicit_corpus_is_used(deployment: Deployment) -> None:
    assert corpus_of(deployment.index, Path("/named")) == corpus_of(None, Path("/named")) == Path("/named")
    with pytest.raises(RealmError, match="--corpus is required: without an index"):
        corpus_of(None, None)


def test_it_is_found_above_the_index(deployment: Deployment) -> None:
    assert corpus_of(deployment.index, None).samefile(deployment.corpus)


@pytest.mark.parametrize("named", [True, False])
def test_it_is_found_in_the_data_folder(
    deployment: Deployment, elsewhere: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    kept = tmp_path / ("data" if named else "var") / "corpora" / "other name" / deployment.corpus.name
    shutil.copytree(deployment.corpus, kept)
    if not named:
        monkeypatch.delenv("REALM_DATA")
        monkeypatch.chdir(tmp_path)
    assert corpus_of(elsewhere, None).samefile(kept)


def test_if_not_found_the_error_lists_the_searched_folders(
    deployment: Deployment, elsewhere: Path, tmp_path: Path
) -> None:
    wanted = deployment.corpus.name
    with pytest.raises(
        RealmError, match=rf"is of snapshot {wanted}, which is not in .*no corpora; give .* as --corpus"
    ):
        corpus_of(elsewhere, None)
    place = tmp_path / "away" / "corpora"
    shutil.copytree(tiny_snapshot(tmp_path / "other", {"One": "It is another."}), place / "tiny" / wanted)
    (tmp_path / "data" / "corpora" / "empty" / wanted).mkdir(parents=True)
    with pytest.raises(RealmError, match=rf"which is not in {tmp_path / 'data' / 'corpora'}, {place}; give"):
        corpus_of(elsewhere, None)  # what is there is another in its name, and an empty folder
    shutil.copytree(deployment.corpus, place / "whole" / wanted)
    assert corpus_of(elsewhere, None).samefile(place / "whole" / wanted)


@pytest.mark.parametrize("snapshot_id", [None, "../../etc", 7])
def test_an_index_without_a_snapshot_id_is_refused(elsewhere: Path, snapshot_id: object) -> None:
    manifest = read_json(elsewhere / "manifest.json")
    write_json(elsewhere / "manifest.json", manifest | {"snapshot_id": snapshot_id}, sealed=True)
    with pytest.raises(RealmError, match="does not name its snapshot; give the snapshot's folder as --corpus"):
        corpus_of(elsewhere, None)


def test_evaluate_and_ask_find_the_corpus(
    deployment: Deployment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = write_lines(tmp_path / "asked.jsonl", questions()[:1])
    where = ["--model", deployment.model, "--index", deployment.index]
    activity_of("evaluate", [*where, "--questions", asked, "--json"])
    figures = json.loads(capsys.readouterr().out)
    assert (figures["n"], figures["of"]["corpus"]) == (1, f"tiny@{deployment.corpus.name}")
    activity_of("ask", ["Who directed it?", *where])
    assert json.loads(capsys.readouterr().out)["corpus"] == f"tiny@{deployment.corpus.name}"
