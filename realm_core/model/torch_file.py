"""Read the tensors of a file that torch.save has written, without unpickling anything.

Such a file is a zip: `data.pkl` says which tensor is which part of which storage, `data/KEY` are the storages' bytes.
The pickle is read instruction by instruction by a machine that knows the few of them which a table of tensors needs and
three names; it makes texts, numbers, tuples and tables, and calls nothing. Whatever else stands there is refused.
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
_PUSHED_AS_THEY_ARE: Final = frozenset(
    "BINUNICODE SHORT_BINUNICODE BINUNICODE8 BININT BININT1 BININT2 LONG1 BINFLOAT".split()
)
_MOST_DIMENSIONS: Final = 8
_END: Final = 1 << 40  # no storage has as many elements
_LONGEST_SHOWN: Final = 80  # characters of a name that are shown
_CONSTANTS: Final = {"NEWTRUE": True, "NEWFALSE": False, "NONE": None, "EMPTY_TUPLE": ()}
_TUPLES: Final = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_TABLE, _TENSOR, _PARAMETER = (
    "collections OrderedDict",
    "torch._utils _rebuild_tensor_v2",
    "torch._utils _rebuild_parameter",
)


@dataclass(frozen=True)
class _Name:
    """module and name, as the pickle has them; never imported."""

    text: str


@dataclass(frozen=True)
class _Storage:
    key: str
    dtype: torch.dtype


@dataclass(frozen=True)
class _Stored:
    """Where a tensor lies in its storage, counted in elements."""

    storage: _Storage
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]

    def is_well_formed(self) -> bool:
        """Whether a table put into its places what belongs there."""
        if not (isinstance(self.storage, _Storage) and isinstance(self.storage.key, str)):
            return False
        if not (isinstance(self.size, tuple) and isinstance(self.stride, tuple)):
            return False
        return all(type(number) is int for number in (self.offset, *self.size, *self.stride))


def read_torch_file(path: Path, wanted: Callable[[str], bool] = lambda _name: True) -> dict[str, Tensor]:
    """The tensors, by name, for whose names `wanted` says so; RealmError for what is no plain table of tensors."""
    try:
        with zipfile.ZipFile(path) as archive:
            table = [name for name in archive.namelist() if name.endswith("data.pkl")]
            if len(table) != 1:
                raise RealmError(f"{path} is not a file of tensors that torch has saved.")
            # torch compresses nothing, so that what is unpacked is never larger than the file.
            if any(member.compress_type != zipfile.ZIP_STORED for member in archive.infolist()):
                raise RealmError(f"{path} is not a file of tensors that torch has saved: it is compressed.")
            stored = {name: one for name, one in _table(archive.read(table[0]), path).items() if wanted(name)}
            folder = table[0].removesuffix("data.pkl")
            storages = {one.storage for one in stored.values()}
            kept = {storage: _flat(archive, folder, storage, path) for storage in storages}
            return {name: _tensor(kept[one.storage], one, f"{path}, {_shown(name)}") for name, one in stored.items()}
    except OSError as error:
        raise RealmError(f"{path} cannot be read: {error.strerror or error}.") from None
    # zipfile has no error of its own for an archive that is encrypted, cut off or of another kind.
    except (zipfile.BadZipFile, KeyError, RuntimeError, EOFError, ValueError) as error:
        raise RealmError(f"{path} is damaged, or older than torch 1.6: {error}.") from None


def _table(pickled: bytes, path: Path) -> dict[str, _Stored]:
    try:
        table = _Machine().run(pickled)
    except RealmError as error:
        raise RealmError(f"{path}: {error}") from None
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise RealmError(f"{path} is no table of tensors: {quoted(error)}.") from None
    if not isinstance(table, dict) or not all(
        isinstance(name, str) and isinstance(one, _Stored) and one.is_well_formed() for name, one in table.items()
    ):
        raise RealmError(f"{path} is no table of tensors.")
    return table


def _flat(archive: zipfile.ZipFile, folder: str, storage: _Storage, path: Path) -> Tensor:
    """All elements of a storage; read once, however many tensors share it."""
    data = bytearray(archive.read(f"{folder}data/{storage.key}"))
    if len(data) % storage.dtype.itemsize:
        raise RealmError(f"{path}: the storage {_shown(storage.key)} breaks off within a number.")
    return torch.frombuffer(data, dtype=storage.dtype) if data else torch.empty(0, dtype=storage.dtype)


def _tensor(flat: Tensor, one: _Stored, where: str) -> Tensor:
    """The tensor, as a part of its storage; so nothing that a table says takes memory."""
    numbers = (one.offset, *one.size, *one.stride)
    if (
        len(one.size) != len(one.stride)
        or len(one.size) > _MOST_DIMENSIONS
        or not 0 <= min(numbers) <= max(numbers) < _END
    ):
        raise RealmError(f"{where}: this is no shape of a tensor.")
    if 0 in one.size:
        return flat.new_empty(one.size)
    last = one.offset + sum((size - 1) * stride for size, stride in zip(one.size, one.stride, strict=True))
    if last >= len(flat) or math.prod(one.size) > len(flat):  # with strides of zero it could be of any size
        raise RealmError(f"{where}: the tensor reaches beyond its storage.")
    return flat.as_strided(one.size, one.stride, one.offset)


class _Machine:
    """The instructions that a table of tensors consists of."""

    def __init__(self) -> None:
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}

    def run(self, pickled: bytes) -> Any:
        # Of instructions that no table has (a text with odd escapes) it may warn before they are refused here.
        with warnings.catch_warnings(action="ignore"):
            for opcode, argument, _place in pickletools.genops(pickled):
                if opcode.name == "STOP":
                    return self._stack.pop()
                self._step(opcode.name, argument)
        raise RealmError("the table breaks off.")

    def _step(self, name: str, argument: Any) -> None:
        stack = self._stack
        if name in _PUSHED_AS_THEY_ARE:
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
            stack.append(_made(stack.pop(), arguments))
        elif name == "SETITEM":
            value = stack.pop()
            key = _text(stack.pop())
            stack[-1][key] = value
        elif name == "SETITEMS":
            items = self._since_mark()
            stack[-1].update(zip(map(_text, items[::2]), items[1::2], strict=True))
        elif name == "BUILD":
            stack.pop()  # versions of modules, which a table carries as an attribute
        elif name not in ("PROTO", "FRAME"):
            raise RealmError(f"the instruction {name} has no place in a table of tensors.")

    def _since_mark(self) -> list[Any]:
        first = self._marks.pop()
        items = self._stack[first:]
        del self._stack[first:]
        return items


def _text(value: Any) -> str:
    """The value, which must be a text. Of anything else neither the hash is taken nor the notation written: tuples that
    name one another need few bytes, and would be endless."""
    if not isinstance(value, str):
        raise TypeError(f"{type(value).__name__} where a text belongs")
    return value


def _shown(name: str) -> str:
    return printable(name)[:_LONGEST_SHOWN]


def _storage(told: Any) -> _Storage:
    _word, kind, key, _location, _elements = told
    name = kind.text.rpartition(" ")[2]
    if name not in _DTYPES:
        raise RealmError(f"tensors of {_shown(name)} are not known.")
    return _Storage(_text(key), _DTYPES[name])


def _made(name: _Name, arguments: Any) -> Any:
    """What a call would make, for the three names that are known."""
    if name.text == _TABLE and arguments == ():
        return {}
    if name.text == _TENSOR:
        storage, offset, size, stride = arguments[:4]
        return _Stored(storage, int(offset), tuple(map(int, size)), tuple(map(int, stride)))
    if name.text == _PARAMETER:
        return arguments[0]
    raise RealmError(f"it wants to call {_shown(name.text)}, which is refused.")
