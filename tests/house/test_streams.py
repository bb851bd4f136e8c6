"""How `make test` divides the files of tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import run
from tests.run import divide, needs_postgresql, needs_sqlite, room_in_memory


def test_every_file_is_in_one_share_and_shares_take_about_as_long() -> None:
    seconds = {"a": 50.0, "b": 30.0, "c": 20.0, "d": 20.0, "e": 10.0}
    shares = divide(["new", *reversed(seconds)], seconds, 3)
    assert shares == [["a"], ["b", "e", "new"], ["c", "d"]]


def test_files_that_share_a_browser_or_a_server_are_in_one_share() -> None:
    browser = [f"tests/browser/test_{name}.py" for name in "abc"]
    shares = divide(["tests/web/test_a.py", *browser], dict.fromkeys(browser, 10.0) | {"tests/web/test_a.py": 25.0}, 2)
    assert shares == [browser, ["tests/web/test_a.py"]]


def test_more_streams_than_files_leave_some_empty() -> None:
    assert divide(["a"], {}, 3) == [["a"], [], []]


def test_the_last_stream_begins_after_that_of_postgresql() -> None:
    shares = divide(["a", "b", "c", "d"], {**dict.fromkeys("abcd", 10.0), "PostgreSQL": 15.0}, 2)
    assert sorted(map(len, shares)) == [1, 3] and len(shares[1]) == 1


def test_files_for_postgresql_are_found_by_their_marks(tmp_path: Path) -> None:
    marked, first, plain, alone = (tmp_path / f"test_{name}.py" for name in ("marked", "first", "plain", "alone"))
    marked.write_text("import pytest\n\npytestmark = [pytest.mark.django_db, pytest.mark.both_databases]\n")
    first.write_text("import pytest\n\n\n@pytest.mark.postgresql_first\ndef test() -> None: ...\n")
    plain.write_text("import pytest\n\npytestmark = pytest.mark.django_db\n")
    alone.write_text("import pytest\n\npytestmark = [pytest.mark.django_db, pytest.mark.postgresql_only]\n")
    assert needs_postgresql(marked) and not needs_postgresql(plain) and needs_postgresql(alone)
    assert needs_postgresql(first) and needs_sqlite(first)
    assert needs_sqlite(marked) and needs_sqlite(plain) and not needs_sqlite(alone)


def test_temporary_files_lie_in_memory_where_it_has_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.setattr(run, "_LEAST_ROOM", 1)
    assert room_in_memory(tmp_path) == tmp_path
    assert room_in_memory(tmp_path / "missing") is None
    monkeypatch.setattr(run, "_LEAST_ROOM", 1 << 60)
    assert room_in_memory(tmp_path) is None
    monkeypatch.setattr(run, "_LEAST_ROOM", 1)
    monkeypatch.setenv("TMPDIR", "/elsewhere")
    assert room_in_memory(tmp_path) is None
