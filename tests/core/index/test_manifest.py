"""An index is verified by its manifest without torch."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from realm_core.errors import RealmError
from realm_core.files import read_json
from realm_core.index.manifest import is_complete, verify
from tests.core.conftest import Deployment

SHARD = "vectors-00000.safetensors"


@pytest.fixture
def index(deployment: Deployment, tmp_path: Path) -> Path:
    return Path(shutil.copytree(deployment.index, tmp_path / "index"))


def test_a_whole_index_is_verified(index: Path) -> None:
    assert verify(index) == len(read_json(index / "manifest.json")["shards"]) > 0
    assert is_complete(index)


def _change_a_shard(index: Path) -> None:
    (index / SHARD).write_bytes((index / SHARD).read_bytes()[::-1])


def _without_shards(index: Path) -> None:
    (index / "manifest.json").write_text(json.dumps({"format": 1}))


@pytest.mark.parametrize(
    ("damage", "message", "complete"),
    [
        (_change_a_shard, rf"{SHARD} is damaged", True),  # only its checksum tells
        (lambda index: (index / SHARD).unlink(), rf"{SHARD} does not exist", False),
        (lambda index: (index / "manifest.json").unlink(), r"manifest\.json does not exist", False),
        (_without_shards, r"manifest\.json does not list its files", False),
    ],
    ids=["changed", "no shard", "no manifest", "no shards"],
)
def test_damage_is_reported(index: Path, damage: Callable[[Path], None], message: str, complete: bool) -> None:
    damage(index)
    with pytest.raises(RealmError, match=message):
        verify(index)
    assert is_complete(index) == complete


def test_verifying_loads_no_torch() -> None:
    program = (
        "import sys, realm_core.index.manifest, realm_core.model.identity, realm_core.corpus.store\n"
        "print('torch' in sys.modules)"
    )
    top = Path(__file__).resolve().parents[3]
    done = subprocess.run([sys.executable, "-c", program], cwd=top, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
