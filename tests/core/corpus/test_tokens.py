"""The cached wordpieces of a snapshot: correct, made once and atomically, and only used for their snapshot."""

from __future__ import annotations

import errno
import json
import shutil
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from realm_core.corpus import tokens as tokens_module
from realm_core.corpus.store import Snapshot
from realm_core.corpus.tokens import BlockTokens, Ragged, open_tokens, text_hash
from realm_core.errors import RealmError, Stopped
from realm_core.runs.activity import Activity
from realm_core.text.wordpieces import Wordpieces
from tests.core.processes import finish, start
from tests.tiny import tiny_snapshot
from tests.waiting import PATIENCE_S

QUIET = Activity(quiet=True)
ARTICLES = {
    "Ada Lovelace": "Ada wrote notes. " * 100,
    "A very long title " * 20: "It says little.",
    "Émile 東京": "Un texte. Voilà 東京 😀, and [SEP] is five characters.",
    "One copy": "The same words.",
    "Another copy": "The same words.",
}


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    return Snapshot.open(tiny_snapshot(tmp_path_factory.mktemp("tokens"), ARTICLES))


def sequences(ragged: Ragged) -> list[list[int]]:
    starts = ragged.starts_N1.tolist()
    return [ragged.values_T[start:stop].tolist() for start, stop in pairwise(starts)]


def same(one: BlockTokens, other: BlockTokens) -> bool:
    return all(
        np.array_equal(mine, others)
        for mine, others in [
            (one.titles.values_T, other.titles.values_T),
            (one.titles.starts_N1, other.titles.starts_N1),
            (one.bodies.values_T, other.bodies.values_T),
            (one.bodies.starts_N1, other.bodies.starts_N1),
            (one.text_hashes_N, other.text_hashes_N),
        ]
    )


@pytest.mark.parametrize("rows_at_once", [1, 2, 4096])
def test_tokens_are_the_wordpieces_of_each_block(
    snapshot: Snapshot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows_at_once: int
) -> None:
    monkeypatch.setattr(tokens_module, "_ROWS_AT_ONCE", rows_at_once)
    tokens = open_tokens(snapshot, QUIET, tmp_path / "tokens")
    titles, texts = snapshot.titles_texts(0, len(snapshot))
    assert len(tokens) == len(tokens.titles) == len(snapshot) > len(ARTICLES)  # the first article has several blocks
    encoded = Wordpieces.default().encode
    assert sequences(tokens.bodies) == [one.ids for one in encoded(texts)]
    assert sequences(tokens.titles) == [one.ids[:64] for one in encoded(titles)]
    assert max(len(one.ids) for one in encoded(titles)) > 64


def test_equal_texts_have_equal_hashes_and_no_others(snapshot: Snapshot) -> None:
    tokens = open_tokens(snapshot, QUIET)
    texts = snapshot.titles_texts(0, len(snapshot))[1]
    assert tokens.text_hashes_N.tolist() == [text_hash(text) for text in texts]
    assert len(set(tokens.text_hashes_N.tolist())) == len(set(texts)) < len(texts)


def test_an_existing_cache_is_opened(snapshot: Snapshot, capsys: pytest.CaptureFixture[str]) -> None:
    tokens = open_tokens(snapshot, QUIET)
    folder = snapshot.folder.with_name(f".{snapshot.snapshot_id}.tokens")
    made_at = (folder / "manifest.json").stat().st_mtime_ns
    capsys.readouterr()
    assert same(open_tokens(snapshot, Activity()), tokens)
    assert capsys.readouterr().err == "" and (folder / "manifest.json").stat().st_mtime_ns == made_at


def test_writing_to_opened_arrays_does_not_change_the_file(snapshot: Snapshot) -> None:
    """torch needs writable arrays; other processes must not see the changes."""
    tokens = open_tokens(snapshot, QUIET)
    before = tokens.bodies.values_T.tolist()
    tokens.bodies.values_T[:] = 0
    assert open_tokens(snapshot, QUIET).bodies.values_T.tolist() == before


def test_a_cache_of_another_snapshot_is_refused(snapshot: Snapshot, tmp_path: Path) -> None:
    other = Snapshot.open(tiny_snapshot(tmp_path, {"Mars": "It has two moons."}))
    open_tokens(other, QUIET, tmp_path / "tokens")
    with pytest.raises(RealmError, match=r"tokens contains the wordpieces of another snapshot or vocabulary; remove"):
        open_tokens(snapshot, QUIET, tmp_path / "tokens")


@pytest.mark.parametrize("key", ["format", "tokenizer_sha256", "blocks"])
def test_a_cache_of_another_format_or_vocabulary_is_refused(snapshot: Snapshot, tmp_path: Path, key: str) -> None:
    open_tokens(snapshot, QUIET, tmp_path / "tokens")
    manifest = json.loads((tmp_path / "tokens" / "manifest.json").read_text())
    (tmp_path / "tokens" / "manifest.json").write_text(json.dumps({**manifest, key: 0}))
    with pytest.raises(RealmError, match="another snapshot or vocabulary"):
        open_tokens(snapshot, QUIET, tmp_path / "tokens")


@pytest.mark.parametrize("name", ["titles", "bodies", "title_starts", "body_starts", "text_hashes"])
def test_a_missing_or_damaged_file_is_named(snapshot: Snapshot, tmp_path: Path, name: str) -> None:
    open_tokens(snapshot, QUIET, tmp_path / "tokens")
    path = tmp_path / "tokens" / f"{name}.npy"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(RealmError, match=rf"{name}\.npy is missing or damaged: .*; remove .*tokens\."):
        open_tokens(snapshot, QUIET, tmp_path / "tokens")
    path.unlink()
    with pytest.raises(RealmError, match=rf"{name}\.npy is missing or damaged"):
        open_tokens(snapshot, QUIET, tmp_path / "tokens")


class StopsAt(Activity):
    """Receives a stop request at the n-th check."""

    def __init__(self, looks: int) -> None:
        super().__init__(quiet=True)
        self.looks = looks

    def check(self) -> None:
        self.looks -= 1
        if not self.looks:
            raise Stopped


def test_an_interruption_leaves_no_cache_that_counts_as_complete(
    snapshot: Snapshot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens_module, "_ROWS_AT_ONCE", 1)
    with pytest.raises(Stopped):
        open_tokens(snapshot, StopsAt(3), tmp_path / "tokens")
    assert not (tmp_path / "tokens").exists()
    (tmp_path / "tokens.tmp").mkdir()  # as a process that was killed while it wrote leaves it
    (tmp_path / "tokens.tmp" / "bodies.npy").write_bytes(b"half")
    assert same(open_tokens(snapshot, QUIET, tmp_path / "tokens"), open_tokens(snapshot, QUIET))
    assert not (tmp_path / "tokens.tmp").exists()


def rows_tokenised(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rows that are tokenised from now on, in a list that grows."""
    rows: list[int] = []
    unwatched = tokens_module.tokenised

    def watched(snapshot: Snapshot, activity: Activity, part: range) -> BlockTokens:
        tokens = unwatched(snapshot, activity, part)
        rows.extend(part)
        return tokens

    monkeypatch.setattr(tokens_module, "tokenised", watched)
    return rows


def test_what_was_finished_before_a_stop_is_not_tokenised_again(
    snapshot: Snapshot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens_module, "_PART_ROWS", 2)
    monkeypatch.setattr(tokens_module, "_ROWS_AT_ONCE", 1)
    rows = rows_tokenised(monkeypatch)
    with pytest.raises(Stopped):
        open_tokens(snapshot, StopsAt(6), tmp_path / "tokens")  # in the middle of the third part
    assert rows == [0, 1, 2, 3]
    made = open_tokens(snapshot, QUIET, tmp_path / "tokens")
    assert rows == list(range(len(snapshot))) and len(snapshot) > 5
    assert same(made, open_tokens(snapshot, QUIET)) and not (tmp_path / "tokens.tmp").exists()


@pytest.mark.parametrize("broken", ["another snapshot", "damaged"])
def test_unfinished_parts_that_are_damaged_or_of_another_snapshot_are_made_again(
    snapshot: Snapshot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    monkeypatch.setattr(tokens_module, "_PART_ROWS", 2)
    monkeypatch.setattr(tokens_module, "_ROWS_AT_ONCE", 1)
    other = Snapshot.open(tiny_snapshot(tmp_path, {f"Moon {i}": f"Moon number {i}." for i in range(8)}))
    with pytest.raises(Stopped):
        open_tokens(other if broken == "another snapshot" else snapshot, StopsAt(6), tmp_path / "tokens")
    if broken == "damaged":
        path = tmp_path / "tokens.tmp" / "0000000000" / "bodies.npy"
        path.write_bytes(path.read_bytes()[:-1])
    rows = rows_tokenised(monkeypatch)
    assert same(open_tokens(snapshot, QUIET, tmp_path / "tokens"), open_tokens(snapshot, QUIET))
    assert rows[:2] == [0, 1] and (len(rows) < len(snapshot)) == (broken == "damaged")


def test_a_full_disk_is_an_error_message(snapshot: Snapshot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tokens_module, "save_array", full)
    with pytest.raises(RealmError, match=r"The disk that holds .*tokens is full"):
        open_tokens(snapshot, QUIET, tmp_path / "tokens")
    assert not (tmp_path / "tokens").exists()


def test_one_of_several_concurrent_processes_makes_the_cache(tmp_path: Path) -> None:
    corpus = tiny_snapshot(tmp_path, {f"Article {i}": f"It is number {i}. " * 200 for i in range(100)})
    program = (
        "import sys, time\nfrom pathlib import Path\n"
        "from realm_core.runs.activity import Activity\n"
        "from realm_core.corpus.store import Snapshot\nfrom realm_core.corpus.tokens import open_tokens\n"
        "snapshot, here = Snapshot.open(sys.argv[1]), Path(sys.argv[2])\n"
        "here.touch()\n"
        "while not here.with_name('go').exists(): time.sleep(0.001)\n"
        "print(len(open_tokens(snapshot, Activity())))\n"
    )
    processes = [start([str(corpus), str(tmp_path / f"{number}.here")], program) for number in range(3)]
    deadline = time.monotonic() + PATIENCE_S
    while len(list(tmp_path.glob("*.here"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    (tmp_path / "go").touch()
    ended = [finish(process) for process in processes]
    assert [status for status, _ in ended] == [0, 0, 0], ended
    assert sum("Tokenising the corpus" in errors for _, errors in ended) == 1
    snapshot = Snapshot.open(corpus)
    made = open_tokens(snapshot, QUIET)
    shutil.rmtree(snapshot.folder.with_name(f".{snapshot.snapshot_id}.tokens"))
    assert same(open_tokens(snapshot, QUIET), made)
