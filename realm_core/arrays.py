"""Arrays on disk: written whole, read through a memory map, where one that claims more than it holds takes no memory.

No pickle.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike

from realm_core.errors import RealmError


def save_array(path: Path, array: np.ndarray[Any, np.dtype[Any]]) -> None:
    """Write an .npy file, as `np.save` does, which takes no notice of a disk that becomes full behind its buffer.

    OSError where there is no room.
    """
    array = np.ascontiguousarray(array)
    with open(path, "wb") as file:
        np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(array))
        file.write(array.data)


def open_array(
    path: Path, dtype: DTypeLike, shape: tuple[int | None, ...], *, mode: Literal["r", "c"] = "r"
) -> np.ndarray[Any, np.dtype[Any]]:
    """The array of an .npy file. shape: what it must have, None where any length will do.

    mode: "r" to read alone, "c" for one whose changes are not written.
    `RealmError` names a file that is missing or damaged, or holds another kind of array.
    """
    try:
        with warnings.catch_warnings(action="ignore"):  # of headers that Python 2 wrote
            array: np.ndarray[Any, np.dtype[Any]] = np.lib.format.open_memmap(path, mode=mode)
    except MemoryError:
        raise RealmError(f"{path} does not fit into the memory.") from None
    # numpy evaluates the header as Python's own notation, and lets through whatever that raises.
    except Exception as error:
        raise RealmError(f"{path} is missing or damaged: {str(error).rstrip('.')}.") from None
    fits = len(array.shape) == len(shape) and all(
        wanted in (None, length) for wanted, length in zip(shape, array.shape, strict=True)
    )
    if not fits or array.dtype != dtype:
        lengths = " × ".join("any" if length is None else f"{length:,}" for length in shape)
        raise RealmError(f"{path} is missing or damaged: it does not hold {lengths} numbers of {np.dtype(dtype).name}.")
    return array
