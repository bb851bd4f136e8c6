"""Read the tensors of a file that torch.save has written, without unpickling anything.

Such a file is a zip: `data.pkl` says which tensor is which part of which storage, `data/KEY` are the storages' bytes.
The pickle is read instruction by instruction by a machine that knows the few of them which a table of tensors needs and
three names; it makes texts, numbers, tuples and tables, and calls nothing. Whatever else stands there is refused.
"""

from __future__ import annotations

import pickletools
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from realm_core.errors import RealmError

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


def read_torch_file(path: Path, wanted: Callable[[str], bool] = lambda _name: True) -> dict[str, Tensor]:
    """The tensors, by name, for whose names `wanted` says so; RealmError for what is no plain table of tensors."""
    try:
        with zipfile.ZipFile(path) as archive:
            table = [name for name in archive.namelist() if name.endswith("data.pkl")]
            if len(table) != 1:
                raise RealmError(f"{path} is not a file of tensors that torch has saved.")
            stored = _table(archive.read(table[0]), path)
            folder = table[0].removesuffix("data.pkl")
            return {
                name: _tensor(archive, f"{folder}data/{one.storage.key}", one, f"{path}, {name}")
                for name, one in stored.items()
                if wanted(name)
            }
    except OSError as error:
        raise RealmError(f"{path} cannot be read: {error.strerror or error}.") from None
    except (zipfile.BadZipFile, KeyError, NotImplementedError) as error:
        raise RealmError(f"{path} is damaged, or older than torch 1.6: {error}.") from None


def _table(pickled: bytes, path: Path) -> dict[str, _Stored]:
    try:
        table = _Machine().run(pickled)
    except RealmError as error:
        raise RealmError(f"{path}: {error}") from None
    except (ValueError, IndexError, KeyError, TypeError, AttributeError) as error:
        raise RealmError(f"{path} is no table of tensors: {error!r}.") from None
    if not isinstance(table, dict) or not all(
        isinstance(name, str) and isinstance(one, _Stored) for name, one in table.items()
    ):
        raise RealmError(f"{path} is no table of tensors.")
    return table


def _tensor(archive: zipfile.ZipFile, file: str, one: _Stored, where: str) -> Tensor:
    data = bytearray(archive.read(file))
    flat = torch.frombuffer(data, dtype=one.storage.dtype) if data else torch.empty(0, dtype=one.storage.dtype)
    last = one.offset + sum((size - 1) * stride for size, stride in zip(one.size, one.stride, strict=True))
    if min((one.offset, *one.size, *one.stride)) < 0 or (0 not in one.size and last >= len(flat)):
        raise RealmError(f"{where}: the tensor reaches beyond its storage.")
    return flat.as_strided(one.size, one.stride, one.offset).clone()


class _Machine:
    """The instructions that a table of tensors consists of."""

    def __init__(self) -> None:
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}

    def run(self, pickled: bytes) -> Any:
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
            stack.append(_Name(f"{stack.pop()} {own}"))
        elif name == "BINPERSID":
            stack.append(_storage(stack.pop()))
        elif name == "REDUCE":
            arguments = stack.pop()
            stack.append(_made(stack.pop(), arguments))
        elif name == "SETITEM":
            value = stack.pop()
            key = stack.pop()
            stack[-1][key] = value
        elif name == "SETITEMS":
            items = self._since_mark()
            stack[-1].update(zip(items[::2], items[1::2], strict=True))
        elif name == "BUILD":
            stack.pop()  # versions of modules, which a table carries as an attribute
        elif name not in ("PROTO", "FRAME"):
            raise RealmError(f"the instruction {name} has no place in a table of tensors.")

    def _since_mark(self) -> list[Any]:
        first = self._marks.pop()
        items = self._stack[first:]
        del self._stack[first:]
        return items


def _storage(told: Any) -> _Storage:
    _word, kind, key, _location, _elements = told
    name = kind.text.rpartition(" ")[2]
    if name not in _DTYPES:
        raise RealmError(f"tensors of {name} are not known.")
    return _Storage(str(key), _DTYPES[name])


def _made(name: _Name, arguments: Any) -> Any:
    """What a call would make, for the three names that are known."""
    if name.text == _TABLE and arguments == ():
        return {}
    if name.text == _TENSOR:
        storage, offset, size, stride = arguments[:4]
        return _Stored(storage, int(offset), tuple(map(int, size)), tuple(map(int, stride)))
    if name.text == _PARAMETER:
        return arguments[0]
    raise RealmError(f"it wants to call {name.text}, which is refused.")
