"""A file is replaced whole or not at all, and nothing is left beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from realm_core.errors import RealmError
from realm_core.files import replaced


@pytest.mark.parametrize("by_several", [False, True])
def test_a_file_is_replaced_at_the_end(tmp_path: Path, by_several: bool) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with replaced(path, by_several=by_several) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new" and [*tmp_path.iterdir()] == [path]


def test_an_error_leaves_the_old_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt), replaced(path) as temporary:
        temporary.write_text("ha")
        raise KeyboardInterrupt
    assert path.read_text() == "old" and [*tmp_path.iterdir()] == [path]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(RealmError, match="cannot be written"), replaced(tmp_path / "gone" / "file") as temporary:
        temporary.write_text("new")
