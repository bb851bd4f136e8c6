"""What is read of a run folder, in whatever state it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from realm_core.runs.folder import RunFolder, Tail, metric_row


def test_nothing_is_there_yet(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    assert (folder.progress(), folder.result(), folder.log_size(), folder.log_tail(9)) == (None, None, 0, "")
    assert folder.error_sentence() is None and Tail(folder.metrics_file).take() == []


def test_a_line_is_read_when_it_is_complete_and_dealt_with_when_it_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    tail = Tail(path)
    path.write_bytes(b"one\ntwo\nthr")
    assert tail.new() == tail.new() == ([b"one", b"two"], 8)
    assert tail.take() == [b"one", b"two"] and tail.take() == []
    with open(path, "ab") as file:
        file.write(b"ee\n")
    assert tail.take() == [b"three"]


def test_a_file_that_was_begun_anew_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"a long first line\n")
    tail = Tail(path)
    tail.take()
    path.write_bytes(b"new\n")
    assert tail.take() == [b"new"]


def test_the_end_of_a_log_and_its_last_error(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.log_file.write_bytes(b"error: First.\nwords \xff\nerror: Second,\nin two lines.\n")
    assert folder.error_sentence() == "Second,\nin two lines."
    assert folder.error_sentence(folder.log_size()) is None
    assert folder.log_tail(7) == "lines.\n" and folder.log_tail(10**6, start=14).startswith("words �\n")


@pytest.mark.parametrize(
    ("line", "row"),
    [
        (
            b'{"step": 1, "time": 2.5, "loss": NaN, "rate": 1e999}',
            {"step": 1, "time": 2.5, "loss": None, "rate": None},
        ),
        (b'{"step": 1, "ti', None),
        (b'{"step": 1}', None),
        (b"[]", None),
    ],
)
def test_a_row_of_metrics(line: bytes, row: object) -> None:
    assert metric_row(line) == row
