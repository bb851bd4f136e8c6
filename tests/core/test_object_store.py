"""Folders in a store that machines share: whole or not at all, verified, got once. Machines are data folders here."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from realm_core import object_store
from realm_core.corpus.ingest import ingest
from realm_core.corpus.records import RawArticle
from realm_core.errors import RealmError
from realm_core.index.build import build, build_shard
from realm_core.index.tasks import Index
from realm_core.object_store import forget, get_folder, is_published, is_shared, publish, put_folder
from realm_core.runs.activity import Activity
from tests.core.conftest import Deployment
from tests.core.processes import TOP
from tests.in_memory_source import InMemorySource
from tests.s3 import S3, running_s3

QUIET = Activity(quiet=True)
Machine = Callable[[str], Path]


@pytest.fixture(scope="module")
def s3() -> Iterator[S3]:
    with running_s3() as running:
        yield running


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Continue on another machine; returns its data folder."""

    def continue_on(name: str) -> Path:
        monkeypatch.setenv("REALM_DATA", str(tmp_path / name))
        return tmp_path / name

    return continue_on


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store that is a folder."""
    monkeypatch.setenv("REALM_STORE", f"file://{tmp_path / 'store'}")
    return tmp_path / "store"


def model_in(data: Path, name: str = "m") -> Path:
    """A published folder of two files."""
    folder = data / "models" / f".{name}.tmp"
    (folder / "vectors").mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "vectors" / "some").write_bytes(bytes(range(256)) * 100)
    publish(folder, data / "models" / name)
    return data / "models" / name


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_what_one_machine_publishes_another_one_gets(s3: S3, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    there = model_in(machine("first"))
    folder = machine("second") / "models" / "m"
    assert is_published(folder) and not folder.exists()
    assert get_folder(folder) == folder
    assert contents(folder) == contents(there)
    assert sorted(path.name for path in folder.parent.iterdir()) == [".m.get.lock", "m"]
    assert not put_folder(folder)

    forget(folder)
    assert s3.objects() == [] and folder.exists()
    assert put_folder(folder) and not put_folder(folder)
    absent = folder.with_name("absent")
    assert not is_published(absent) and not get_folder(absent).exists()
    monkeypatch.setenv("REALM_STORE", "s3://no-such-bucket/realm")
    with pytest.raises(RealmError, match=r"^The object models/m of the store s3://no-such-bucket/realm cannot be"):
        forget(folder)
        put_folder(folder)


def test_only_published_folders_of_the_data_folder_are_shared(
    disk: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = machine("first")
    assert is_shared(data / "corpora" / "towns" / "1") and is_shared(data / "indexes" / "i")
    assert not is_shared(data / "runs" / "r") and not is_shared(data.parent / "models" / "m")
    assert not is_shared(data) and not is_shared(data / "models"), "forgetting it would empty the store"
    monkeypatch.delenv("REALM_STORE")
    assert not is_shared(data / "models" / "m")
    model_in(data)
    assert not disk.exists() and get_folder(data / "models" / "m").exists()


@pytest.mark.parametrize(
    ("store", "says"),
    [
        ("bucket/prefix", "REALM_STORE must be an address such as"),
        ("s3://", "REALM_STORE must be an address such as"),
        ("nothing://here", "is no store that fsspec knows"),
    ],
)
def test_an_address_that_is_none_is_refused(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, store: str, says: str
) -> None:
    data = machine("first")
    monkeypatch.setenv("REALM_STORE", store)
    with pytest.raises(RealmError, match=says):
        is_published(data / "models" / "m")


def test_a_store_needs_a_data_folder(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REALM_DATA")
    with pytest.raises(RealmError, match="needs REALM_DATA"):
        object_store.check_settings()


def test_a_put_that_is_killed_is_not_there(disk: Path, machine: Machine) -> None:
    folder, left = machine("first") / "models" / "m", machine("first") / "models" / ".m.tmp"
    left.mkdir(parents=True)
    (left / "config.json").write_text("{}")
    program = f"""
import os, signal
from pathlib import Path
from realm_core import object_store
files, _ = object_store._opened({os.environ["REALM_STORE"]!r})
files.pipe_file = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
object_store.publish(Path({str(left)!r}), Path({str(folder)!r}))
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=TOP, check=False)
    assert done.returncode == -signal.SIGKILL
    assert any(path.is_file() for path in disk.rglob("*")) and not folder.exists()
    assert not is_published(folder) and not get_folder(machine("second") / "models" / "m").exists()
    machine("first")
    publish(left, folder)
    assert contents(get_folder(machine("second") / "models" / "m")) == contents(folder)


def test_a_folder_without_files_is_got_as_one(disk: Path, machine: Machine) -> None:
    made = machine("first") / "models" / ".m.tmp"
    made.mkdir(parents=True)
    publish(made, made.with_name("m"))
    folder = get_folder(machine("second") / "models" / "m")
    assert folder.is_dir() and contents(folder) == {}


def test_half_a_description_is_none(disk: Path, machine: Machine) -> None:
    folder = model_in(machine("first"))
    described = disk / "models" / "m" / "done.json"
    whole = described.read_bytes()
    for half in (whole[:-5], b"[]", b'{"upload": "x"}', b""):
        described.write_bytes(half)
        assert not get_folder(machine("second") / "models" / "m").exists()
    machine("first")
    assert put_folder(folder) and json.loads(described.read_bytes())["files"] == json.loads(whole)["files"]


@pytest.mark.parametrize("how", ["truncated", "changed", "lost"])
def test_what_is_damaged_in_the_store_is_refused_by_name(disk: Path, machine: Machine, how: str) -> None:
    model_in(machine("first"))
    (stored,) = disk.glob("models/m/*/vectors/some")
    if how == "lost":
        stored.unlink()
    else:
        content = stored.read_bytes()
        stored.write_bytes(content[:-1] if how == "truncated" else content[:-1] + b"x")
    folder = machine("second") / "models" / "m"
    with pytest.raises(RealmError, match=r"models/m/\w+/vectors/some of the store file://.* is (damaged|missing)"):
        get_folder(folder)
    assert [path.name for path in folder.parent.iterdir()] == [".m.get.lock"]


def test_names_that_lead_out_of_the_folder_are_refused(disk: Path, machine: Machine) -> None:
    model_in(machine("first"))
    described = disk / "models" / "m" / "done.json"
    told = json.loads(described.read_bytes())
    told["files"] = {"../../outside": told["files"]["config.json"]}
    described.write_text(json.dumps(told))
    folder = machine("second") / "models" / "m"
    with pytest.raises(RealmError, match="damaged"):
        get_folder(folder)
    assert not folder.exists() and not (folder.parent.parent / "outside").exists()


def test_processes_that_want_the_same_get_it_once(disk: Path, machine: Machine) -> None:
    there = model_in(machine("first"))
    folder = machine("second") / "models" / "m"
    program = (
        "from pathlib import Path; from realm_core.object_store import get_folder\n"
        "from realm_core.runs.activity import Activity\n"
        f"assert get_folder(Path({str(folder)!r}), Activity()).exists()"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", program], cwd=TOP, stderr=subprocess.PIPE, text=True) for _ in range(3)
    ]
    said = [process.communicate()[1] for process in running]
    assert [process.returncode for process in running] == [0, 0, 0]
    assert "".join(said) == "Getting models/m from the store.\n"
    assert contents(folder) == contents(there)


# ── Made before there was a store, or removed from it ──────────────────────────────────────────────────────────────


def test_publishing_it_again_puts_it(disk: Path, machine: Machine) -> None:
    there = model_in(machine("first"))
    forget(there)
    with pytest.raises(RealmError, match="never overwritten"):
        model_in(machine("first"))
    assert contents(get_folder(machine("second") / "models" / "m")) == contents(there)


def test_ingesting_it_again_puts_it(disk: Path, machine: Machine) -> None:
    source = InMemorySource([RawArticle("Nile", "Nile", "", "The Nile is a river.")], name="rivers")

    output = machine("first") / "corpora"

    def ingested(at_most: int) -> Path:
        return ingest(source, name="rivers", output=output, activity=QUIET, processes=1, articles_at_most=at_most)

    snapshot = ingested(0)
    for at_most in (0, 9):  # known by its fingerprint, and by its blocks alone
        forget(snapshot)
        assert ingested(at_most) == snapshot and not put_folder(snapshot)


# ── An index ────────────────────────────────────────────────────────────────────────────────────────────────────────


def shard(deployment: Deployment, data: Path, number: int, shard_rows: int = 5) -> None:
    folders = {"model": deployment.model, "corpus": deployment.corpus, "output": data / "indexes"}
    build_shard(Index(**folders, generation="mine", shard=number, shard_rows=shard_rows, device="cpu"), QUIET)


def whole(deployment: Deployment, output: Path, activity: Activity = QUIET) -> Path:
    return build(deployment.model, deployment.corpus, output, activity, name="mine", shard_rows=5, device="cpu")


def vectors(index: Path) -> dict[str, bytes]:
    return {name: content for name, content in contents(index).items() if name != "manifest.json"}


def test_an_index_is_made_of_the_shards_of_other_machines(
    disk: Path, machine: Machine, deployment: Deployment, capsys: pytest.CaptureFixture[str]
) -> None:
    shard(deployment, machine("first"), 0)
    shard(deployment, machine("second"), 1)
    shard(deployment, machine("second"), 2)
    (truncated,) = disk.glob("indexes/.mine.partial/vectors-00001.safetensors/*/*")
    truncated.write_bytes(truncated.read_bytes()[:-7])
    capsys.readouterr()
    index = whole(deployment, machine("third") / "indexes", Activity())
    assert vectors(index) == vectors(whole(deployment, disk.parent / "alone"))
    assert capsys.readouterr().err.count("is damaged: its checksum is not that in done.json. It is made again.") == 1
    assert [path.name for path in (disk / "indexes").iterdir() if any(path.rglob("*.*"))] == ["mine"]

    again = machine("fourth") / "indexes"
    shard(deployment, again.parent, 1)  # published already
    assert not (again / "mine").exists()
    assert contents(whole(deployment, again)) == contents(index)


def test_building_it_again_puts_it(
    disk: Path, machine: Machine, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as before:
        before.delenv("REALM_STORE")
        index = whole(deployment, machine("first") / "indexes")
    assert whole(deployment, index.parent) == index
    assert contents(get_folder(machine("second") / "indexes" / "mine")) == contents(index)


def test_shards_of_another_index_of_this_name_are_not_taken(
    disk: Path, machine: Machine, deployment: Deployment
) -> None:
    data = machine("first")
    shard(deployment, data, 0, shard_rows=4)
    index = whole(deployment, machine("second") / "indexes")
    assert vectors(index) == vectors(whole(deployment, disk.parent / "alone"))
