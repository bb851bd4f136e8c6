"""A checksum is computed once for what a file holds, and anew for whatever it may hold by now."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

import pytest

from realm_core import files
from realm_core.files import checksum


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that were read, in order."""
    paths, compute = list[Path](), files.sha256_of_file

    def watched(path: Path) -> str:
        paths.append(path)
        return compute(path)

    monkeypatch.setattr(files, "sha256_of_file", watched)
    return paths


@pytest.fixture
def settled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that has not changed for a while."""
    path = tmp_path / "file"
    path.write_bytes(b"one")
    later(monkeypatch)
    return path


def later(monkeypatch: pytest.MonkeyPatch, seconds: float = 5) -> None:
    now_ns = time.time_ns() + int(seconds * 1e9)
    monkeypatch.setattr("realm_core.files.time.time_ns", lambda: now_ns)


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_a_file_that_has_not_changed_is_read_once(settled: Path, read: list[Path]) -> None:
    assert [checksum(settled) for _ in range(3)] == [sha256(b"one")] * 3
    assert read == [settled]


def test_a_replaced_file_of_the_same_length_and_times_is_read_again(settled: Path, read: list[Path]) -> None:
    assert checksum(settled) == sha256(b"one")
    times = settled.stat().st_atime_ns, settled.stat().st_mtime_ns
    settled.write_bytes(b"two")
    os.utime(settled, ns=times)  # as a program that copies does; the time of the change itself cannot be set
    assert checksum(settled) == sha256(b"two")
    other = settled.with_name("other")
    other.write_bytes(b"six")
    os.replace(other, settled)
    assert checksum(settled) == sha256(b"six")
    assert len(read) == 3


def test_what_has_only_just_changed_is_read_each_time(
    tmp_path: Path, read: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One more change within the same tick would leave all times as they are."""
    path = tmp_path / "file"
    path.write_bytes(b"one")
    assert [checksum(path), checksum(path)] == [sha256(b"one")] * 2
    assert len(read) == 2
    later(monkeypatch, -3600)  # a clock that was set back says nothing of how long ago that was
    checksum(path)
    checksum(path)
    assert len(read) == 4


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        checksum(tmp_path / "none")
