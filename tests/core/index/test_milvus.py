"""Vectors in Milvus: filled once, also by a process that is killed; what a server that is away or refuses comes to."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import torch

from realm_core.errors import EngineUnavailable, RealmError, Stopped
from realm_core.files import read_json
from realm_core.index import milvus as milvus_module
from realm_core.index.allowed_rows import AllowedRows
from realm_core.index.choice import MilvusServer
from realm_core.index.milvus import MilvusVectors, drop
from realm_core.index.search import ExactSearch
from realm_core.index.tasks import ToMilvus
from realm_core.index.to_milvus import main, open_vectors
from realm_core.living.search import BaseSearch, open_base
from realm_core.runs.activity import Activity
from tests.core.index.test_approximate import Stopping, drawn, generation
from tests.core.processes import finish, start
from tests.milvus import LocalMilvus, running_milvus
from tests.waiting import wait_until

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def milvus() -> Iterator[LocalMilvus]:
    with running_milvus() as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A generation of 300 vectors, with a name of its own."""
    yield generation(tmp_path / f"of-{tmp_path.name}", drawn(300), 120, wanted="exact")


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 50 rows each."""
    monkeypatch.setattr(milvus_module, "_BATCH_BYTES", 50 * 16 * 4)


def found_in(folder: Path, server: MilvusServer) -> list[list[int]]:
    return nearest(open_base(folder, CPU, server), drawn(9, seed=7), 5)


def nearest(base: BaseSearch, queries_BD: torch.Tensor, k: int) -> list[list[int]]:
    every = AllowedRows(torch.ones(len(base), dtype=torch.bool), CPU)
    rows: list[list[int]] = base.search(queries_BD.float(), k, every)[0].tolist()
    return rows


def answers(base: BaseSearch) -> bool:
    try:
        return bool(nearest(base, drawn(1), 1))
    except EngineUnavailable:
        return False


EXACT = ExactSearch(drawn(300)).search(drawn(9, seed=7).float(), 5)[0].tolist()


def test_the_command_fills_it_and_a_second_time_has_nothing_to_do(milvus: LocalMilvus, folder: Path) -> None:
    for _ in range(2):
        main(ToMilvus(index=folder, uri=milvus.server.uri), Activity(folder.parent / "run", quiet=True))
    told = read_json(folder.parent / "run" / "result.json")
    assert told["vectors"] == 300 and told["collection"].startswith("realm_of_test_the_command")
    assert found_in(folder, milvus.server) == EXACT


def test_a_filling_that_is_stopped_goes_on(milvus: LocalMilvus, folder: Path, small_batches: None) -> None:
    task, at = ToMilvus(index=folder, uri=milvus.server.uri), 0
    vectors = MilvusVectors(milvus.server, read_json(folder / "manifest.json"))
    for at in range(20):  # stopped at each place once, from the first on
        try:
            main(task, Stopping(at))
            break
        except Stopped:
            assert not vectors.is_complete()
    assert at >= 6 and vectors.is_complete()
    assert found_in(folder, milvus.server) == EXACT


KILLED = """
import os, signal, sys
from pathlib import Path
from realm_core.index import milvus
from realm_core.index.choice import MilvusServer
from realm_core.index.to_milvus import open_vectors
milvus._BATCH_BYTES = 50 * 16 * 4
def progress(done, total):
    if done >= 150:
        os.kill(os.getpid(), signal.SIGKILL)
open_vectors(Path(sys.argv[1]), MilvusServer(sys.argv[2]), progress)
"""


def test_what_a_killed_process_has_inserted_is_not_inserted_again(
    milvus: LocalMilvus, folder: Path, small_batches: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert finish(start([str(folder), milvus.server.uri], KILLED))[0] == -9
    read: list[int] = []
    vectors = MilvusVectors(milvus.server, read_json(folder / "manifest.json"))
    half_there = vectors._client.query(vectors.collection, filter="row < 150", output_fields=["count(*)"])
    assert half_there[0]["count(*)"] == 150 and not vectors.is_complete()

    def rows(start: int, stop: int) -> milvus_module.Vectors:
        read.append(start)
        return drawn(300)[start:stop].float().numpy()

    vectors.fill(rows, lambda _done: None)
    assert read == [150, 200, 250] and found_in(folder, milvus.server) == EXACT


def test_two_that_fill_it_at_once_do_it_once(milvus: LocalMilvus, folder: Path, small_batches: None) -> None:
    words = ["to-milvus", "--index", str(folder), "--uri", milvus.server.uri, "--quiet"]
    assert [finish(process) for process in [start(words), start(words)]] == [(0, ""), (0, "")]
    assert found_in(folder, milvus.server) == EXACT


def test_a_dropped_collection_is_filled_again(milvus: LocalMilvus, folder: Path, tmp_path: Path) -> None:
    found_in(folder, milvus.server)
    longer = generation(tmp_path / f"{folder.name}-2", drawn(300), 300, wanted="exact")
    found_in(longer, milvus.server)
    assert len(drop(milvus.server, folder.name)) == 1 and drop(milvus.server, folder.name) == []
    vectors = MilvusVectors(milvus.server, read_json(longer / "manifest.json"))
    assert vectors.is_complete(), "another generation whose name begins alike stays"
    assert found_in(folder, milvus.server) == EXACT


def test_another_generation_of_the_same_name_has_vectors_of_its_own(milvus: LocalMilvus, tmp_path: Path) -> None:
    first = generation(tmp_path / "a" / "the same", drawn(300), 300, wanted="exact")
    other = generation(tmp_path / "b" / "the same", drawn(300, seed=5), 300, wanted="exact")
    assert found_in(first, milvus.server) == EXACT != found_in(other, milvus.server)
    assert len(drop(milvus.server, "the same")) == 2


@pytest.mark.nightly  # web/documents/test_milvus.py has it go and come back every day
def test_it_comes_back_by_itself(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    with running_milvus() as milvus:
        base, asked = open_base(folder, CPU, milvus.server), drawn(9, seed=7)
        milvus.kill()
        with pytest.raises(EngineUnavailable, match=r"^The vector database does not answer\.$") as away:
            nearest(base, asked, 5)
        assert away.value.retry_after_s > 0 and f"Milvus at {milvus.server.uri} does not answer." in caplog.messages
        with pytest.raises(EngineUnavailable, match=rf"^Milvus at {milvus.server.uri} does not answer\.$"):
            open_base(folder, CPU, milvus.server)
        milvus.start()
        wait_until(partial(answers, base), patience_s=20.0)
        assert nearest(base, asked, 5) == EXACT


def test_what_the_server_refuses_is_told_in_its_words(milvus: LocalMilvus, folder: Path) -> None:
    vectors, _ = open_vectors(folder, milvus.server, lambda _done, _total: None)
    drop(milvus.server, folder.name)
    with pytest.raises(EngineUnavailable, match=rf"^Milvus at {milvus.server.uri} refuses: .*does not exist\.$"):
        vectors.search(drawn(1).float().numpy(), 5)


def test_damage_is_told_before_anything_is_inserted(milvus: LocalMilvus, folder: Path) -> None:
    data = bytearray((folder / "vectors-00001.safetensors").read_bytes())
    data[-1] ^= 1
    (folder / "vectors-00001.safetensors").write_bytes(data)
    with pytest.raises(RealmError, match=r"vectors-00001\.safetensors is damaged"):
        open_vectors(folder, milvus.server, lambda _done, _total: None)
    assert drop(milvus.server, folder.name) == []


def test_without_its_client(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymilvus", None)
    with pytest.raises(RealmError, match="install the package pymilvus"):
        open_base(folder, CPU, MilvusServer("http://127.0.0.1:1"))


@pytest.mark.parametrize("uri", ["http://h:1", "https://h.example:19530", "http://[::1]:19530/one_database"])
def test_addresses(uri: str) -> None:
    assert "secret" not in repr(MilvusServer(uri, "root:secret"))


@pytest.mark.parametrize(
    "uri",
    ["", "h:1", "http://h", "tcp://h:1", "http://h:x", "http://u:p@h:1", "http://h:1/a/b", "http://h:1?x=1", "./x.db"],
)
def test_what_is_no_address(uri: str) -> None:
    with pytest.raises(RealmError, match="The address of Milvus must read like"):
        MilvusServer(uri)
