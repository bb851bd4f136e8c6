"""How `make test` divides the files of tests."""

from __future__ import annotations

from pathlib import Path

from tests.run import divide, needs_postgresql


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


def test_files_for_postgresql_are_found_by_their_marks(tmp_path: Path) -> None:
    marked, plain = tmp_path / "test_marked.py", tmp_path / "test_plain.py"
    marked.write_text("import pytest\n\npytestmark = [pytest.mark.django_db, pytest.mark.both_databases]\n")
    plain.write_text("import pytest\n\npytestmark = pytest.mark.django_db\n")
    assert needs_postgresql(marked) and not needs_postgresql(plain)
