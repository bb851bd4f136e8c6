"""Reads the tensors of a file written by torch.save without unpickling it.

Such a file is a zip: `data.pkl` maps each tensor to a part of a storage, `data/KEY` are the bytes of the storages. The
pickle is interpreted by a machine with only the opcodes and the three names that a state dict needs. It builds strings,
numbers, tuples and dicts, and calls nothing; everything else is refused.
"""

from __future__ import annotations

import math
import pickletools
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from realm_core.errors import RealmError, printable, quoted

_DTYPES: Final = {
    "FloatStorage": torch.float32,
    "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16,
    "LongStorage": torch.int64,
    "IntStorage": torch.int32,
    "BoolStorage": torch.bool,
    "ByteStorage": torch.uint8,
}
_LITERALS: Final = frozenset("BINUNICODE SHORT_BINUNICODE BINUNICODE8 BININT BININT1 BININT2 LONG1 BINFLOAT".split())
_MOST_DIMENSIONS: Final = 8
_MOST_ELEMENTS: Final = 1 << 40  # of a storage
_LONGEST_SHOWN: Final = 80  # characters of a name in messages
_CONSTANTS: Final = {"NEWTRUE": True, "NEWFALSE": False, "NONE": None, "EMPTY_TUPLE": ()}
_TUPLES: Final = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_TABLE, _TENSOR, _PARAMETER = (
    "collections OrderedDict",
    "torch._utils _rebuild_tensor_v2",
    "torch._utils _rebuild_parameter",
)


@dataclass(frozen=True)
class _Name:
    """A module and name from the pickle; never imported."""

    text: str


@dataclass(frozen=True)
class _Storage:
    key: str
    dtype: torch.dtype


@dataclass(frozen=True)
class _TensorView:
    """A tensor as a view of its storage, in elements."""

    storage: _Storage
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]

    def is_well_formed(self) -> bool:
        """Whether all fields have the right type."""
        if not (isinstance(self.storage, _Storage) and isinstance(self.storage.key, str)):
            return False
        if not (isinstance(self.size, tuple) and isinstance(self.stride, tuple)):
            return False
        return all(type(number) is int for number in (self.offset, *self.size, *self.stride))


def read_torch_file(path: Path, wanted: Callable[[str], bool] = lambda _name: True) -> dict[str, Tensor]:
    """The tensors by name, filtered by `wanted`; RealmError if the file is not a plain state dict."""
    try:
        with zipfile.ZipFile(path) as archive:
            table = [name for name in archive.namelist() if name.endswith("data.pkl")]
            if len(table) != 1:
                raise RealmError(f"{path} is not a file of tensors written by torch.")
            # torch does not compress; without compression the content is never larger than the file.
            if any(member.compress_type != zipfile.ZIP_STORED for member in archive.infolist()):
                raise RealmError(f"{path} is not a file of tensors written by torch: it is compressed.")
            views = {name: view for name, view in _table(archive.read(table[0]), path).items() if wanted(name)}
            folder = table[0].removesuffix("data.pkl")
            storages = {view.storage for view in views.values()}
            data = {storage: _flat(archive, folder, storage, path) for storage in storages}
            return {name: _tensor(data[view.storage], view, f"{path}, {_shown(name)}") for name, view in views.items()}
    except OSError as error:
        raise RealmError(f"{path} cannot be read: {error.strerror or error}.") from None
    # zipfile raises various errors for encrypted, truncated or unsupported archives.
    except (zipfile.BadZipFile, KeyError, RuntimeError, EOFError, ValueError) as error:
        raise RealmError(f"{path} is damaged, or older than torch 1.6: {error}.") from None


def _table(pickled: bytes, path: Path) -> dict[str, _TensorView]:
    try:
        table = _PickleMachine().run(pickled)
    except RealmError as error:
        raise RealmError(f"{path}: {error}") from None
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise RealmError(f"{path} is not a state dict of tensors: {quoted(error)}.") from None
    if not isinstance(table, dict) or not all(
        isinstance(name, str) and isinstance(view, _TensorView) and view.is_well_formed()
        for name, view in table.items()
    ):
        raise RealmError(f"{path} is not a state dict of tensors.")
    return table


def _flat(archive: zipfile.ZipFile, folder: str, storage: _Storage, path: Path) -> Tensor:
    """All elements of a storage, which several tensors may share."""
    data = bytearray(archive.read(f"{folder}data/{storage.key}"))
    if len(data) % storage.dtype.itemsize:
        raise RealmError(f"{path}: the storage {_shown(storage.key)} is truncated within an element.")
    return torch.frombuffer(data, dtype=storage.dtype) if data else torch.empty(0, dtype=storage.dtype)


def _tensor(flat: Tensor, view: _TensorView, where: str) -> Tensor:
    """The tensor as a view of its storage, so that no declared size allocates memory."""
    numbers = (view.offset, *view.size, *view.stride)
    if (
        len(view.size) != len(view.stride)
        or len(view.size) > _MOST_DIMENSIONS
        or not 0 <= min(numbers) <= max(numbers) < _MOST_ELEMENTS
    ):
        raise RealmError(f"{where}: size, stride or offset are not valid.")
    if 0 in view.size:
        return flat.new_empty(view.size)
    last = view.offset + sum((size - 1) * stride for size, stride in zip(view.size, view.stride, strict=True))
    if last >= len(flat) or math.prod(view.size) > len(flat):  # strides of zero would allow any size
        raise RealmError(f"{where}: the tensor reaches beyond its storage.")
    return flat.as_strided(view.size, view.stride, view.offset)


class _PickleMachine:
    """Interprets the opcodes that occur in a pickled state dict."""

    def __init__(self) -> None:
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}

    def run(self, pickled: bytes) -> Any:
        # genops may warn of opcodes (such as strings with invalid escapes) that are refused below.
        with warnings.catch_warnings(action="ignore"):
            for opcode, argument, _place in pickletools.genops(pickled):
                if opcode.name == "STOP":
                    return self._stack.pop()
                self._step(opcode.name, argument)
        raise RealmError("the pickle is truncated.")

    def _step(self, name: str, argument: Any) -> None:
        stack = self._stack
        if name in _LITERALS:
            stack.append(argument)
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in _TUPLES:
            stack[-_TUPLES[name] :] = [tuple(stack[-_TUPLES[name] :])]
        elif name == "TUPLE":
            stack.append(tuple(self._since_mark()))
        elif name == "EMPTY_DICT":
            stack.append({})
        elif name == "MARK":
            self._marks.append(len(stack))
        elif name in ("BINPUT", "LONG_BINPUT"):
            self._memo[argument] = stack[-1]
        elif name == "MEMOIZE":
            self._memo[len(self._memo)] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            stack.append(self._memo[argument])
        elif name == "GLOBAL":
            stack.append(_Name(argument))
        elif name == "STACK_GLOBAL":
            own = stack.pop()
            stack.append(_Name(f"{_text(stack.pop())} {_text(own)}"))
        elif name == "BINPERSID":
            stack.append(_storage(stack.pop()))
        elif name == "REDUCE":
            arguments = stack.pop()
            stack.append(_reduced(stack.pop(), arguments))
        elif name == "SETITEM":
            value = stack.pop()
            key = _text(stack.pop())
            stack[-1][key] = value
        elif name == "SETITEMS":
            items = self._since_mark()
            stack[-1].update(zip(map(_text, items[::2]), items[1::2], strict=True))
        elif name == "BUILD":
            stack.pop()  # the state dict's attribute _metadata
        elif name not in ("PROTO", "FRAME"):
            raise RealmError(f"the opcode {name} is not allowed in a state dict of tensors.")

    def _since_mark(self) -> list[Any]:
        first = self._marks.pop()
        items = self._stack[first:]
        del self._stack[first:]
        return items


def _text(value: Any) -> str:
    """The value, which must be a string. Other values are never hashed or printed: nested tuples of a few bytes could
    take exponential time."""
    if not isinstance(value, str):
        raise TypeError(f"{type(value).__name__} instead of a string")
    return value


def _shown(name: str) -> str:
    return printable(name)[:_LONGEST_SHOWN]


def _storage(persistent_id: Any) -> _Storage:
    _word, storage_type, key, _location, _elements = persistent_id
    name = storage_type.text.rpartition(" ")[2]
    if name not in _DTYPES:
        raise RealmError(f"tensors of {_shown(name)} are not supported.")
    return _Storage(_text(key), _DTYPES[name])


def _reduced(name: _Name, arguments: Any) -> Any:
    """The result of a REDUCE, for the three allowed names."""
    if name.text == _TABLE and arguments == ():
        return {}
    if name.text == _TENSOR:
        storage, offset, size, stride = arguments[:4]
        return _TensorView(storage, int(offset), tuple(map(int, size)), tuple(map(int, stride)))
    if name.text == _PARAMETER:
        return arguments[0]
    raise RealmError(f"it calls {_shown(name.text)}, which is not allowed.")
