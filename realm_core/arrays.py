"""Arrays on disk: written completely, read through a memory map, so a file that claims to be larger takes no memory.

No pickle.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike

from realm_core.errors import RealmError

Array = np.ndarray[Any, np.dtype[Any]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]
Rows = np.ndarray[Any, np.dtype[np.int64]]  # row numbers of blocks or articles


def save_array(path: Path, array: Array) -> None:
    """Write an .npy file, as `np.save` does, which ignores a disk that becomes full behind its buffer.

    OSError if there is no room.
    """
    array = np.ascontiguousarray(array)
    with open(path, "wb") as file:
        np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(array))
        file.write(array.data)


def open_array(
    path: Path, dtype: DTypeLike, shape: tuple[int | None, ...], *, mode: Literal["r", "c"] = "r"
) -> np.ndarray[Any, np.dtype[Any]]:
    """The array of an .npy file. shape: the required one, None for any length.

    mode: "r" for reading, "c" for changes that are not written.
    `RealmError` names a file that is missing or damaged, or holds another kind of array.
    """
    try:
        with warnings.catch_warnings(action="ignore"):  # headers written by Python 2
            array: Array = np.lib.format.open_memmap(path, mode=mode)
    except MemoryError:
        raise RealmError(f"{path} does not fit into the memory.") from None
    # numpy evaluates the header as a Python literal, and passes on whatever that raises.
    except Exception as error:
        raise RealmError(f"{path} is missing or damaged: {str(error).rstrip('.')}.") from None
    fits = len(array.shape) == len(shape) and all(
        wanted in (None, length) for wanted, length in zip(shape, array.shape, strict=True)
    )
    if not fits or array.dtype != dtype:
        lengths = " × ".join("any" if length is None else f"{length:,}" for length in shape)
        raise RealmError(f"{path} is missing or damaged: it does not hold {lengths} numbers of {np.dtype(dtype).name}.")
    return array
