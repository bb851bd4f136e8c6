"""What a long activity leaves for whoever watches it, and how it is stopped."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from realm_core.errors import RealmError, Stopped
from realm_core.files import disk_errors, publish_folder, read_json, write_json
from realm_core.runs import activity as activity_module
from realm_core.runs.activity import Activity
from realm_core.runs.folder import RunFolder


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    now = [1000.0]
    for name in ("time", "monotonic"):
        monkeypatch.setattr(activity_module.time, name, lambda: now[0])
    yield now


def test_progress_tells_rate_and_time_left(tmp_path: Path, clock: list[float]) -> None:
    activity = Activity(tmp_path / "run", quiet=True)
    activity.progress(100, 1000, "blocks")
    clock[0] += 10
    activity.progress(300, 1000, "blocks", "first shard")
    progress = read_json(tmp_path / "run" / "progress.json")
    assert progress == {
        "done": 300,
        "total": 1000,
        "unit": "blocks",
        "rate": 20.0,  # what was done before it began to count does not count
        "seconds_left": 35.0,
        "message": "first shard",
        "time": 1010.0,
    }


def test_what_was_too_soon_to_be_reported_is_when_it_stops(tmp_path: Path, clock: list[float]) -> None:
    activity = Activity(tmp_path, quiet=True, with_parent=-1)  # nobody's parent: it is to stop
    for done in range(4):
        activity.progress(done, 10, "steps")
    assert read_json(tmp_path / "progress.json")["done"] == 0
    with pytest.raises(Stopped):
        activity.check()
    assert read_json(tmp_path / "progress.json")["done"] == 3


def test_a_warning_is_not_taken_for_the_reason_of_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Activity(tmp_path, quiet=True).warn("The index was never replaced.")
    folder = RunFolder(tmp_path)
    folder.log_file.write_text(capsys.readouterr().err)
    assert folder.log_file.read_text() == "warning: The index was never replaced.\n" and folder.error_sentence() is None


def test_a_slow_rate_is_not_shown_as_none(
    tmp_path: Path, clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    activity = Activity(tmp_path)
    activity.progress(0, 28, "steps")
    clock[0] += 54
    activity.progress(2, 28, "steps")
    assert capsys.readouterr().err.endswith("\n2 of 28 steps · 0.037 steps/s · 11 min 42 s left\n")


def test_the_same_count_begun_again_has_a_rate_of_its_own(tmp_path: Path, clock: list[float]) -> None:
    activity = Activity(tmp_path, quiet=True)
    for rate in (20, 50):  # of two indexes, with the same questions
        for done in (10, 10 + 10 * rate):
            activity.progress(done, 1000, "questions")
            clock[0] += 10
        assert read_json(tmp_path / "progress.json")["rate"] == rate


def test_progress_is_written_now_and_then_and_at_the_end(tmp_path: Path, clock: list[float]) -> None:
    activity = Activity(tmp_path, quiet=True)
    activity.progress(1, 10, "pages")
    activity.progress(2, 10, "pages")
    assert read_json(tmp_path / "progress.json")["done"] == 1
    activity.progress(10, 10, "pages")
    assert read_json(tmp_path / "progress.json")["done"] == 10


def test_progress_goes_on_when_the_clock_is_set_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter((5_000.0, 1_000.0))
    monkeypatch.setattr(activity_module.time, "time", lambda: next(times))
    monkeypatch.setattr(activity_module, "_PROGRESS_EVERY_S", 0.0)
    activity = Activity(tmp_path, quiet=True)
    told = []
    for done in (1, 2):
        activity.progress(done, 9, "blocks")
        told.append(read_json(tmp_path / "progress.json"))
    assert [(one["done"], one["time"]) for one in told] == [(1, 5_000.0), (2, 1_000.0)]
    assert told[1]["rate"] > 0


def test_an_unknown_total_is_no_obstacle(
    tmp_path: Path, clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    Activity(tmp_path).progress(1500, None, "pages")
    assert read_json(tmp_path / "progress.json")["seconds_left"] is None
    assert capsys.readouterr().err == "1,500 pages\n"


def test_metrics_are_appended_line_by_line(tmp_path: Path) -> None:
    for step in (1, 2):  # a resumed run appends to what is there
        Activity(tmp_path, quiet=True).metrics(step, loss=0.5 / step)
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [(row["step"], row["loss"]) for row in rows] == [(1, 0.5), (2, 0.25)]
    Activity(quiet=True).metrics(1, loss=0.0)  # without a folder there is nowhere to


def test_a_row_cut_in_half_is_not_gone_on_behind(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1, "time": 1.0}\n{"step": 2, "ti')  # a disk was full
    activity = Activity(tmp_path)
    for step in (2, 3):
        activity.metrics(step, loss=0.5)
    assert [json.loads(line)["step"] for line in path.read_text().splitlines()] == [1, 2, 3]


def test_a_signal_asks_to_stop_and_a_second_one_insists() -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        activity = Activity(quiet=True)
        activity.stop_on_signals()
        activity.check()
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(Stopped):
            activity.check()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_it_stops_when_whoever_started_it_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    bound, free = Activity(quiet=True, with_parent=os.getppid()), Activity(quiet=True)
    bound.check()
    monkeypatch.setattr(os, "getppid", lambda: 1)  # who becomes the parent of orphans
    free.check()
    with pytest.raises(Stopped):
        bound.check()
    late = Activity(quiet=True, with_parent=4711)  # it was gone before this process could look
    with pytest.raises(Stopped):
        late.check()


def test_a_published_folder_is_never_overwritten(tmp_path: Path) -> None:
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    with pytest.raises(RealmError, match="old exists already"):
        publish_folder(tmp_path / "new", tmp_path / "old")
    assert (tmp_path / "old" / "file").read_text() == "old"
    publish_folder(tmp_path / "new", tmp_path / "newer")
    assert (tmp_path / "newer" / "file").read_text() == "new" and not (tmp_path / "new").exists()


def test_json_is_replaced_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_json(tmp_path / "a.json", {"n": "é"})
    with pytest.raises(TypeError):
        write_json(tmp_path / "a.json", {"n": object()})
    assert read_json(tmp_path / "a.json") == {"n": "é"}


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(28, "No space left on device"), "is full; free some space"),
        (OSError(122, "Disk quota exceeded"), "is full; free some space"),
        (OSError(13, "Permission denied"), "cannot be written: Permission denied"),
        (ValueError("I/O error: Read-only file system (os error 30)"), "cannot be written: Read-only file system"),
    ],
)
def test_a_disk_that_cannot_be_written_is_a_sentence(tmp_path: Path, error: Exception, said: str) -> None:
    with pytest.raises(RealmError, match=said) as raised, disk_errors(tmp_path):
        raise error
    assert str(tmp_path) in str(raised.value)


@pytest.mark.parametrize("error", [ValueError("something else"), OSError(5, "Input/output error")])
def test_other_errors_pass_as_they_are(tmp_path: Path, error: Exception) -> None:
    with pytest.raises(type(error)) as raised, disk_errors(tmp_path):
        raise error
    assert raised.value is error
