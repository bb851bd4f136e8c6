"""Arrays are on the disk as numpy writes them, or it is told that they are not."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from realm_core.arrays import save_array

ARRAYS = [
    np.arange(80, dtype=np.int32).reshape(-1, 5),
    np.arange(6, dtype=np.uint64),
    np.arange(12.0).reshape(3, 4)[:, ::2],
    np.empty((0, 5), np.int32),
]


@pytest.mark.parametrize("array", ARRAYS)
def test_bytes_are_numpys(tmp_path: Path, array: np.ndarray[Any, np.dtype[Any]]) -> None:
    save_array(tmp_path / "ours.npy", array)
    np.save(tmp_path / "numpys.npy", array, allow_pickle=False)
    assert (tmp_path / "ours.npy").read_bytes() == (tmp_path / "numpys.npy").read_bytes()


@pytest.mark.parametrize("array", ARRAYS)
def test_a_full_disk_is_told(array: np.ndarray[Any, np.dtype[Any]]) -> None:
    with pytest.raises(OSError) as raised:
        save_array(Path("/dev/full"), array)
    assert raised.value.errno == errno.ENOSPC
