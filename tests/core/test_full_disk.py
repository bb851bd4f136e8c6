"""Every long activity where no file may grow beyond a size, and the longest on a disk that fills up.

Each ends with status 2 and a sentence that names the place, publishes nothing, and goes on once there is room.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from realm_core.corpus.store import Snapshot
from realm_core.corpus.tokens import open_tokens
from realm_core.files import read_json
from realm_core.index.generation import Generation
from realm_core.model.checkpoint import load_model
from realm_core.salient.extract import extract
from realm_core.salient.taggers import TaggerOptions
from tests.core.conftest import Deployment
from tests.core.processes import Process, finish, start
from tests.core.running import activity_of
from tests.core.small_disk import CannotMount, SmallDisk, small_disk
from tests.core.training.material import questions, write_lines
from tests.core.training.towns import QUIET, TEXTS, make_towns
from tests.tiny import tiny_snapshot

pytestmark = pytest.mark.timeout(900)  # processes are started, on a machine that may be busy

ENOUGH = 1 << 30  # bytes
ACTIVITY = """
import resource, sys
limit = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
from realm_core.__main__ import main
sys.exit(main(sys.argv[2:]))
"""
TRAINING = """
import resource, sys
from pathlib import Path
from torch import nn
from realm_core.runs.activity import Activity
from realm_core.errors import RealmError
from realm_core.training.config import RetrieverConfig
from realm_core.training.distributed import World
from realm_core.training.identity import Identity
from realm_core.training.loop import ParameterGroup, Loop

folder, limit = Path(sys.argv[1]), int(sys.argv[2])
matrix = nn.Linear(100, 100)
config = RetrieverConfig(warmup=0.2, weight_decay=0.0, clip=1e9, checkpoint_every=5)
identity = Identity("these", {})
loop = Loop("small", [ParameterGroup(matrix, 0.1)], config, identity, folder, Activity(None), World(), steps=20)

def losses(step):
    if step == 5:  # a checkpoint is there, and the disk fills up
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    yield matrix.weight.sum(), {}

try:
    loop.run(losses, dict)
except RealmError as error:
    print(f"error: {error}", file=sys.stderr)
    sys.exit(2)
"""


def run(limit: int, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return ended(start([str(limit), *map(str, arguments)], ACTIVITY))


def ended(process: Process) -> subprocess.CompletedProcess[str]:
    status, errors = finish(process)
    return subprocess.CompletedProcess(process.args, status, stderr=errors)


def refused(done: subprocess.CompletedProcess[str], why: str = "cannot be written: File too large") -> str:
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    said = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(said) == 1 and why in said[0]
    return said[0]


def published(folder: Path) -> list[str]:
    return [path.name for path in folder.glob("[!.]*")]


@pytest.fixture
def articles(tmp_path: Path) -> Path:
    path = tmp_path / "articles.jsonl"
    with open(path, "w", encoding="utf-8") as file:
        for number in range(200):
            words = " ".join(f"word{number * 31 + i}" for i in range(60))
            file.write(json.dumps({"id": str(number), "title": f"Title {number}", "text": f"It says {words}."}) + "\n")
    return path


def test_ingesting(articles: Path, tmp_path: Path) -> None:
    def ingest(limit: int) -> subprocess.CompletedProcess[str]:
        source = ("--source", "jsonl", "--path", articles, "--processes", "1")
        return run(limit, "ingest", *source, "--name", "full", "--output", tmp_path, "--quiet")

    assert str(tmp_path) in refused(ingest(20_000))
    assert published(tmp_path / "full") == []
    assert ingest(ENOUGH).returncode == 0
    [name] = published(tmp_path / "full")
    snapshot = Snapshot.open(tmp_path / "full" / name)
    snapshot.verify()
    assert snapshot.articles == 200


def test_building(deployment: Deployment, tmp_path: Path) -> None:
    def build(limit: int) -> subprocess.CompletedProcess[str]:
        given = (
            "--model",
            deployment.model,
            "--corpus",
            deployment.corpus,
            "--output",
            tmp_path,
            "--generation",
            "mine",
        )
        return run(limit, "index", *given, "--device", "cpu", "--quiet")

    assert str(tmp_path) in refused(build(300))
    assert published(tmp_path) == []
    assert build(ENOUGH).returncode == 0
    assert read_json(tmp_path / "mine" / "manifest.json")["rows"] == len(Snapshot.open(deployment.corpus))


def test_finding_spans(tmp_path: Path) -> None:
    corpus = tiny_snapshot(tmp_path, TEXTS)
    given = ("--corpus", corpus, "--output", tmp_path / "spans", "--tagger", "dates", "--processes", "1")
    assert "spans-00000.npy" in refused(run(400, "spans", *given, "--quiet"))
    assert published(tmp_path / "spans") == ["identity.json"]
    spans = extract(corpus, tmp_path / "spans", QUIET, TaggerOptions("dates"))
    assert len(spans) == 2 * len(TEXTS)


@pytest.mark.parametrize("lines", [pytest.param(0.5, marks=pytest.mark.nightly), 3.5])
def test_measuring(deployment: Deployment, tmp_path: Path, lines: float) -> None:
    """The last line is incomplete; the next attempt removes it and continues after the complete ones."""
    asked, kept = write_lines(tmp_path / "asked.jsonl", questions()), tmp_path / "kept" / "predictions.jsonl"

    def told(path: Path) -> list[str | Path]:
        return [*deployment.arguments(), "--questions", asked, "--predictions", path, "--device", "cpu"]

    def said(path: Path) -> list[str]:
        return [json.loads(line)["prediction"] for line in path.read_text().splitlines()[1:]]

    whole = tmp_path / "whole.jsonl"
    activity_of("evaluate", told(whole))
    before = whole.read_bytes().splitlines(keepends=True)[: int(lines) + 1]
    limit = sum(map(len, before)) - len(before[-1]) // 2

    assert str(kept) in refused(run(limit, "evaluate", *told(kept), "--quiet"))
    assert kept.stat().st_size == limit
    activity_of("evaluate", told(kept))
    assert said(kept) == said(whole)


@pytest.mark.nightly  # training/test_pretrain.py has a checkpoint on a full disk every day
def test_handing_parameters_to_a_builder(tmp_path: Path) -> None:
    towns, folder = make_towns(tmp_path), tmp_path / "run"
    open_tokens(Snapshot.open(towns.corpus), QUIET)  # these fit
    settings = {"steps": 6, "batch": 2, "k": 3, "refresh": "elsewhere", "refresh_every": 2, "holdout": 0.0}

    words = towns.pretrain(tmp_path / "made", settings)
    assert "snapshots/" in refused(run(20_000, "pretrain", *words, "--run", folder, "--quiet"))
    assert not list(folder.glob("snapshots/step-*")) and not (tmp_path / "made").exists()
    activity_of("pretrain", words, run=folder)
    assert (tmp_path / "made" / "config.json").exists() and not (folder / "snapshots").exists()


def test_checkpointing(tmp_path: Path) -> None:
    def train(limit: int) -> subprocess.CompletedProcess[str]:
        return ended(start([str(tmp_path), str(limit)], TRAINING))

    assert "checkpoint-10" in refused(train(20_000))
    assert published(tmp_path) == ["checkpoint-5"]  # whole
    done = train(ENOUGH)
    assert done.returncode == 0, done.stderr
    assert "resuming at step 5 of 20" in done.stderr
    assert published(tmp_path) == ["checkpoint-20"]


# ---- a file system without a free byte


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """16 MiB. Where nothing can be mounted (a container without rights) the limits above are all that is tested."""
    try:
        with small_disk(tmp_path / "disk", 16 << 20) as made:
            yield made
    except CannotMount as reason:
        pytest.skip(f"this machine lets no file system be mounted: {reason}")


def full(done: subprocess.CompletedProcess[str]) -> str:
    return refused(done, "is full; free some space and run this again.")


@pytest.mark.nightly  # test_ingesting reaches a limit in the same place
def test_ingesting_onto_a_full_disk(disk: SmallDisk, articles: Path) -> None:
    source = ("--source", "jsonl", "--path", articles, "--processes", "1")
    command = ("ingest", *source, "--name", "full", "--output", disk.path / "corpora", "--run", disk.path / "run")
    disk.fill(but_bytes=200 << 10)  # for the parts; not for the snapshot that is made of them
    assert "corpora/.full.partial/snapshot" in full(disk.run(*command))
    assert published(disk.files / "corpora") == []

    disk.make_room()
    done = disk.run(*command)
    assert done.returncode == 0, done.stderr
    assert "Resuming after the first 200 pages" in done.stderr
    [name] = published(disk.files / "corpora" / "full")
    snapshot = Snapshot.open(disk.files / "corpora" / "full" / name)
    snapshot.verify()
    assert snapshot.articles == 200


@pytest.mark.nightly  # test_building reaches a limit in the same place
def test_building_onto_a_full_disk(disk: SmallDisk, deployment: Deployment) -> None:
    given = ("--model", deployment.model, "--corpus", deployment.corpus, "--generation", "mine", "--device", "cpu")
    command = ("index", *given, "--shard-rows", "5", "--output", disk.path / "indexes")
    disk.fill(but_bytes=0)
    full(disk.run(*command))
    assert [path.name for path in (disk.files / "indexes").iterdir()] == [".mine.lock"]  # attempts do not pile up

    disk.make_room()
    disk.fill(but_bytes=9 << 10)  # a page for what it is of, and one for the first of three shards
    assert "vectors-00001.safetensors" in full(disk.run(*command))
    assert published(disk.files / "indexes") == []
    kept = disk.files / "indexes" / ".mine.partial" / "vectors-00000.safetensors"
    written = kept.stat().st_mtime_ns

    disk.make_room()
    done = disk.run(*command)
    assert done.returncode == 0, done.stderr
    assert "Resuming an earlier build." in done.stderr
    made = Generation.open(disk.files / "indexes" / "mine")  # compares checksums
    assert made.manifest["rows"] == len(Snapshot.open(deployment.corpus))
    assert (disk.files / "indexes" / "mine" / kept.name).stat().st_mtime_ns == written


@pytest.mark.nightly  # test_checkpointing reaches a limit in the same place
def test_training_on_a_full_disk(disk: SmallDisk, deployment: Deployment) -> None:
    settings = ("--set", "steps=6", "--set", "batch=4", "--set", "at_once=4", "--set", "checkpoint_every=2")
    given = ("--model", deployment.model, "--corpus", deployment.corpus, "--device", "cpu", *settings)
    command = ("ict", *given, "--output", disk.path / "made", "--run", disk.path / "run")
    disk.fill(but_bytes=350 << 10)  # for one checkpoint and a half
    assert "checkpoint-4" in full(disk.run(*command))
    run = disk.files / "run"
    assert published(run / "ict") == ["checkpoint-2"] and published(disk.files) == ["run", "ballast"]

    disk.make_room()
    done = disk.run(*command)
    assert done.returncode == 0, done.stderr
    assert "resuming at step 2 of 6" in done.stderr  # whose checksum it has compared
    load_model(disk.files / "made")
    assert [json.loads(line)["step"] for line in (run / "metrics.jsonl").read_text().splitlines()][-1] == 6
    kept = ["metrics.jsonl", "progress.json", "result.json", "task.json"]
    assert sorted(path.name for path in run.iterdir()) == kept
