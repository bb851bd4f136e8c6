"""The cache of salient spans: content, resuming after a kill, and errors."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers import BertConfig

from realm_core.corpus.store import Snapshot
from realm_core.errors import RealmError
from realm_core.files import read_json
from realm_core.runs.activity import Activity
from realm_core.salient import extract as extract_module
from realm_core.salient.cache import SalientSpans, salient_spans
from realm_core.salient.extract import extract
from realm_core.salient.spans import TaggedSpan as Span
from realm_core.salient.taggers import TaggerOptions
from realm_core.text.sentences import sentence_spans
from tests.core.conftest import Deployment
from tests.core.processes import finish, run, start
from tests.tiny import tiny_snapshot
from tests.waiting import wait_until

QUIET = Activity(quiet=True)
DATES = TaggerOptions("dates")


@pytest.fixture(scope="module")
def towns(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """150 blocks with two dates each."""
    return towns_of(tmp_path_factory.mktemp("towns"), 150)


def towns_of(folder: Path, blocks: int) -> Path:
    """A snapshot of blocks with two dates each."""
    numbers = range(blocks)
    texts = {f"Town {i}": f"Town {i} has a mayor. In {1000 + i} it burned; it stood in {1001 + i}." for i in numbers}
    return tiny_snapshot(folder, texts)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != ".lock"}


# ── What is in it ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_span_is_a_date_within_its_sentence(deployment: Deployment, tmp_path: Path) -> None:
    spans = extract(deployment.corpus, tmp_path / "spans", QUIET, DATES)
    snapshot = Snapshot.open(deployment.corpus)
    found = set()
    for row, *span, first, last in spans.spans_M5.tolist():
        text = snapshot.block(row).text
        assert (first, last) in sentence_spans(text)
        found.add((snapshot.block(row).title, text[slice(*span)], text[first:last]))
    assert found == {
        ("Suez Canal", "17 November 1869", "It was opened on 17 November 1869 after ten years of work."),
        ("Stanley Kubrick", "2001", "He directed 2001: A Space Odyssey in 1968."),
        ("Stanley Kubrick", "1968", "He directed 2001: A Space Odyssey in 1968."),
        ("Berlin", "9 November 1989", "The Berlin Wall fell on 9 November 1989."),
        ("Johann Sebastian Bach", "1750", "He wrote the Mass in B minor and died in 1750."),
    }
    assert spans.spans_M5.dtype == np.int32 and spans.labels_M.dtype == np.uint8
    assert (spans.manifest["labels"], spans.labels_M.tolist()) == (["DATE"], [0] * 5)
    assert (spans.manifest["blocks"], spans.manifest["blocks_with_spans"], len(spans)) == (12, 4, 5)


def test_blocks_find_their_spans(towns: Path, tmp_path: Path) -> None:
    spans = extract(towns, tmp_path / "spans", QUIET, DATES, shard_blocks=7)
    assert spans.rows_N.tolist() == list(range(150))
    for i, row in enumerate(spans.rows_N.tolist()):
        own = spans.spans_M5[spans.first_N1[i] : spans.first_N1[i + 1]]
        assert own[:, 0].tolist() == [row, row] and own[0, 1] < own[1, 1]


class FixedTagger:
    """Finds the same spans in every text."""

    labels = ("A", "B")
    description: dict[str, Any] = {}

    def __init__(self, spans: Sequence[Span]) -> None:
        self._spans = list(spans)

    def spans(self, texts: Sequence[str], rows: Sequence[int] = ()) -> list[list[Span]]:
        return [self._spans for _ in texts]


def test_a_span_that_crosses_sentences_is_left_out() -> None:
    text = "It is one.  Here is two.\nThree"
    tagger = FixedTagger(
        [
            Span(3, 5, "A"),
            Span(6, 16, "B"),
            Span(17, 19, "B"),
            Span(20, 27, "A"),
            Span(28, 30, "B"),
        ]
    )
    spans, labels = salient_spans(tagger, [7], [text])
    assert spans.tolist() == [[7, 3, 5, 0, 10], [7, 17, 19, 12, 24], [7, 28, 30, 25, 30]]
    assert labels.tolist() == [0, 1, 1]


def test_no_spans_at_all_are_arrays_too() -> None:
    spans, labels = salient_spans(FixedTagger([]), [1, 2], ["One.", ""])
    assert (spans.shape, spans.dtype, labels.shape, labels.dtype) == ((0, 5), np.int32, (0,), np.uint8)


def test_some_blocks_drawn_at_random(towns: Path, tmp_path: Path) -> None:
    some = extract(towns, tmp_path / "some", QUIET, DATES, blocks=20, seed=3, shard_blocks=8)
    again = extract(towns, tmp_path / "again", QUIET, DATES, blocks=20, seed=3, shard_blocks=1)
    other = extract(towns, tmp_path / "other", QUIET, DATES, blocks=20, seed=4)
    assert len(some.rows_N) == 20 and sorted(some.rows_N) == some.rows_N.tolist()
    np.testing.assert_array_equal(some.spans_M5, again.spans_M5)
    assert some.rows_N.tolist() != other.rows_N.tolist()
    everything = extract(towns, tmp_path / "all", QUIET, DATES, blocks=1000)
    assert everything.manifest["blocks"] == 150 and everything.manifest["drawn_by_seed"] is None


def test_several_processes_make_the_same_bytes(towns: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extract_module, "_REQUEST_BLOCKS", 3)
    extract(towns, tmp_path / "one", QUIET, DATES, shard_blocks=40, processes=1)
    extract(towns, tmp_path / "three", QUIET, DATES, shard_blocks=40, processes=3)
    assert contents(tmp_path / "one") == contents(tmp_path / "three")


@pytest.mark.nightly  # test_taggers.py has spaCy every day, the test above processes of their own
def test_spacy_in_a_process_of_its_own(deployment: Deployment, tmp_path: Path) -> None:
    arguments = ["spans", "--corpus", str(deployment.corpus), "--output", str(tmp_path / "spans")]
    status, errors = run([*arguments, "--processes", "2", "--run", str(tmp_path / "run")])
    assert status == 0, errors
    result = read_json(tmp_path / "run" / "result.json")
    assert (result["blocks"], result["path"]) == (12, str(tmp_path / "spans"))
    assert sum(result["spans_by_label"].values()) == result["spans"] >= 20
    here = extract(deployment.corpus, tmp_path / "here", QUIET, TaggerOptions())
    there = SalientSpans.open(tmp_path / "spans", Snapshot.open(deployment.corpus))
    np.testing.assert_array_equal(here.spans_M5, there.spans_M5)


# ── Again, and after being stopped ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.timeout(900)  # two processes are started, on a machine that may be busy
@pytest.mark.parametrize("processes", [pytest.param(1, marks=pytest.mark.nightly), 2])
def test_interrupted_runs_resume_to_the_same_bytes(tmp_path: Path, processes: int) -> None:
    towns = towns_of(tmp_path / "towns", 400)  # a second: long enough to be met in the middle
    folder = tmp_path / "spans"
    arguments = ["spans", "--corpus", str(towns), "--output", str(folder), "--tagger", "dates", "--shard-blocks", "1"]
    arguments += ["--processes", str(processes)]

    def shards() -> dict[str, int]:
        return {path.name: path.stat().st_mtime_ns for path in folder.glob("labels-*.npy")}

    killed = start(arguments)
    wait_until(lambda: len(shards()) >= 4, killed)
    os.kill(killed.pid, signal.SIGSTOP)
    with pytest.raises(RealmError, match="being filled by another process already"):
        extract(towns, folder, QUIET, DATES, shard_blocks=1)
    snapshot = Snapshot.open(towns)
    with pytest.raises(RealmError, match="not finished"):
        SalientSpans.open(folder, snapshot)
    killed.kill()
    assert finish(killed)[0] == -signal.SIGKILL
    after_kill = shards()
    assert 4 <= len(after_kill) < 400

    stopped = start(arguments)
    wait_until(lambda: len(shards()) >= len(after_kill) + 3, stopped)
    stopped.send_signal(signal.SIGTERM)
    status, errors = finish(stopped)
    assert (status, "Resuming" in errors, "Stopped" in errors) == (3, True, True)
    assert shards().items() >= dict(sorted(after_kill.items())[:-1]).items()  # the last one may have been half there
    assert not (folder / "manifest.json").exists()

    (folder / "spans-00001.npy").write_bytes(b"")  # as a power cut may leave it
    extract(towns, folder, QUIET, DATES, shard_blocks=1)
    extract(towns, tmp_path / "whole", QUIET, DATES, shard_blocks=1)
    assert contents(folder) == contents(tmp_path / "whole")


def test_a_finished_cache_is_reused(towns: Path, tmp_path: Path) -> None:
    first = extract(towns, tmp_path / "spans", QUIET, DATES)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "spans").glob("*.[nj]*")}
    second = extract(towns, tmp_path / "spans", QUIET, DATES)
    np.testing.assert_array_equal(first.spans_M5, second.spans_M5)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "spans").glob("*.[nj]*")} == before


# ── What is refused ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_cache_with_other_settings_is_refused(towns: Path, deployment: Deployment, tmp_path: Path) -> None:
    folder = tmp_path / "spans"
    extract(towns, folder, QUIET, DATES)
    with pytest.raises(RealmError, match=r"of the snapshot .* not of"):
        SalientSpans.open(folder, Snapshot.open(deployment.corpus))
    with pytest.raises(RealmError, match=r"of another run \(different: snapshot_id, blocks\)"):
        extract(deployment.corpus, folder, QUIET, DATES)
    with pytest.raises(RealmError, match=r"of another run \(different: tagger, labels\)"):
        extract(towns, folder, QUIET, TaggerOptions("spacy"))
    with pytest.raises(RealmError, match=r"of another run \(different: blocks, drawn_by_seed\)"):
        extract(towns, folder, QUIET, DATES, blocks=9)


def test_a_folder_with_other_files_is_left_alone(towns: Path, tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("Dear")
    with pytest.raises(RealmError, match="contains other files"):
        extract(towns, tmp_path, QUIET, DATES)
    with pytest.raises(RealmError, match="does not exist"):
        SalientSpans.open(tmp_path, Snapshot.open(towns))


@pytest.mark.parametrize("file", ["spans-00000.npy", "labels-00001.npy"])
def test_damage_is_noticed(towns: Path, tmp_path: Path, file: str) -> None:
    folder = tmp_path / "spans"
    extract(towns, folder, QUIET, DATES, shard_blocks=75)
    content = bytearray((folder / file).read_bytes())
    content[-1] ^= 1
    (folder / file).write_bytes(content)
    with pytest.raises(RealmError, match=f"{file} is missing or damaged"):
        SalientSpans.open(folder, Snapshot.open(towns))
    (folder / file).unlink()
    with pytest.raises(RealmError, match=f"{file} is missing or damaged"):
        SalientSpans.open(folder, Snapshot.open(towns))


def test_an_invalid_manifest_is_refused(towns: Path, tmp_path: Path) -> None:
    folder = tmp_path / "spans"
    extract(towns, folder, QUIET, DATES)
    manifest = read_json(folder / "manifest.json")
    for wrong in ({**manifest, "files": 3}, {**manifest, "labels": None}, [], {}):
        (folder / "manifest.json").write_text(json.dumps(wrong))
        with pytest.raises(RealmError, match="does not describe salient spans"):
            SalientSpans.open(folder, Snapshot.open(towns))


def test_a_corpus_without_a_name_is_refused(tmp_path: Path) -> None:
    corpus = tiny_snapshot(tmp_path, {"Rain": "It rains. It snows.", "Wind": "The wind blows."})
    with pytest.raises(RealmError, match="No salient span was found in the 2 blocks"):
        extract(corpus, tmp_path / "spans", QUIET, DATES)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param(["--blocks", "-1"], "blocks must be 0 or more, not -1", marks=pytest.mark.nightly),
        pytest.param(["--processes", "-1"], "processes must be at least 1", marks=pytest.mark.nightly),
        (["--labels", "TOWN"], "has no label TOWN, only "),
    ],
)
def test_bad_options_are_an_error_message(towns: Path, tmp_path: Path, options: list[str], message: str) -> None:
    status, errors = run(["spans", "--corpus", str(towns), "--output", str(tmp_path / "spans"), *options])
    assert status == 2 and message in errors and "Traceback" not in errors


@pytest.mark.nightly  # test_taggers.py has the sentence every day, tests/core/runs that a part's error is reported
def test_a_workers_error_is_reported(deployment: Deployment, tmp_path: Path) -> None:
    model = tmp_path / "model"  # a token classifier without weights
    BertConfig(id2label={0: "O", 1: "B-PER"}).save_pretrained(model)
    with pytest.raises(RealmError, match=r"The token classifier .* cannot be loaded"):
        extract(deployment.corpus, tmp_path / "spans", QUIET, TaggerOptions(str(model)), processes=2)
    assert not (tmp_path / "spans" / "manifest.json").exists()


def test_a_corpus_and_a_folder_must_be_named() -> None:
    status, errors = run(["spans"])
    assert status == 2 and "--corpus" in errors
