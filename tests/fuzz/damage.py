"""Hostile files made from valid ones: cut, flipped, spliced, with values that formats allow and nobody expects."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable
from typing import Any, Final

from hypothesis import strategies as st

# What is put into texts, whatever their language: marks of all formats, and characters that do not belong anywhere.
WORDS: Final[tuple[bytes, ...]] = tuple(
    word if isinstance(word, bytes) else word.encode("utf-8", "surrogatepass")
    for word in (
        *"{{ }} [[ ]] {| |} <ref> </ref> <!-- --> ''' == |a= {{{ }}} <nowiki> &#x0; [[a,|]] {{convert| #".split(),
        *"<page> </page> <title> </text> <![CDATA[ ]]> &e; <?xml <mediawiki> <ns> </mediawiki>".split(),
        *'" \' \\ \\u0000 \\ud800 null NaN Infinity -1 1e999 true [] {} : , "id" "text" = [a] [[a]] a.b.c'.split(),
        *"(?P<a> )* (a*)* {1,99999999} \\1 ( [".split(),
        *("\x00", "\ud800", "\u202e", "\u200b", "\ufeff", "\u2028", "\x85", "\r", "\t", "\n", "🜨", " ", ""),
        *(b"\xff\xfe", b"BZh9", b"\x1f\x8b", b"PK\x03\x04", b"\x80\x02", b"cos\nsystem\n", b"R.", b"\x93NUMPY\x01\x00"),
        *(
            b"'|O'",
            b"(-1,)",
            b"(99999999999999,)",
            b"L",
            b"\x85",
            b"q\x00",
            b"h\x00",
            b"s",
            b"u",
            b"t",
            b"(",
            b"Q",
            b"2",
        ),
        *(b"../../escaped", b"/etc/passwd", b"symlink", b"GNU.sparse.size=99999999999\n"),
        *("9" * 5000, "[" * 3000, "a" * 3000, " " * 3000, "{{" * 500, "((" * 500),
    )
)
# What a value in JSON may be, and a reader may not have thought of.
VALUES: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 10**30, -(10**30), 0.5, 1e308, float("nan"), float("inf")),
    *("", " ", "x", "\0", "\ud800", "\u202e", "..", "../../escaped", "/etc/passwd", "a" * 3000, "9" * 30),
    *([], {}, [[]], [None], {"": None}, [1, 2, 3], ["a"], {"a": {"b": {}}}, [0] * 100),
)
_NUMBERS: Final = (0, 1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 2**63 - 1, 2**64 - 1, 2**40)
_DEEPEST: Final = 100  # brackets within brackets that are parsed

Mutation = Callable[[st.DrawFn, bytes], bytes]


def hostile(seeds: tuple[bytes, ...], kind: str) -> st.SearchStrategy[bytes]:
    """Files made of one of `seeds`, which are of a kind among `KINDS`."""

    @st.composite
    def draw_one(draw: st.DrawFn) -> bytes:
        content = draw(st.sampled_from(seeds))
        for _ in range(draw(st.integers(1, 3))):
            content = draw(st.sampled_from(KINDS[kind]))(draw, content)
        return content

    return draw_one()


def _place(draw: st.DrawFn, content: bytes) -> int:
    return draw(st.integers(0, max(0, len(content) - 1)))


def _cut(draw: st.DrawFn, content: bytes) -> bytes:
    return content[: _place(draw, content)]


def _flip(draw: st.DrawFn, content: bytes) -> bytes:
    if not content:
        return b"\x01"
    at, changed = _place(draw, content), bytearray(content)
    changed[at] ^= 1 << draw(st.integers(0, 7))
    return bytes(changed)


def _splice(draw: st.DrawFn, content: bytes) -> bytes:
    """A part comes once more, or goes."""
    first, last = sorted((_place(draw, content), _place(draw, content)))
    return content[:first] + content[first:last] * draw(st.sampled_from((0, 2, 50))) + content[last:]


def _word(draw: st.DrawFn, content: bytes) -> bytes:
    at, word = _place(draw, content), draw(st.sampled_from(WORDS))
    return (
        content[:at] + word * draw(st.sampled_from((1, 1, 40))) + content[at + draw(st.sampled_from((0, len(word)))) :]
    )


def _number(draw: st.DrawFn, content: bytes) -> bytes:
    """A binary number that claims a lot, or nothing."""
    at, size = _place(draw, content), draw(st.sampled_from((1, 2, 4, 8)))
    number = draw(st.sampled_from(_NUMBERS)) % (1 << 8 * size)
    return content[:at] + number.to_bytes(size, "little") + content[at + size :]


def _value(draw: st.DrawFn, value: Any) -> Any:
    """`value` with another somewhere in it, a key more or less."""
    if isinstance(value, dict) and value and draw(st.integers(0, 5)):
        key = draw(st.sampled_from(sorted(value)))
        rest = {name: one for name, one in value.items() if name != key}
        return rest if not draw(st.integers(0, 5)) else {**value, key: _value(draw, value[key])}
    if isinstance(value, list) and value and draw(st.integers(0, 5)):
        at = draw(st.integers(0, len(value) - 1))
        return [*value[:at], _value(draw, value[at]), *value[at + 1 :]]
    return draw(st.sampled_from(VALUES))


def _json(draw: st.DrawFn, content: bytes) -> bytes:
    try:
        value = json.loads(content) if _depth(content) <= _DEEPEST else None
    except ValueError:
        value = None
    return _word(draw, content) if value is None else json.dumps(_value(draw, value)).encode()


def _depth(content: bytes) -> int:
    """Of brackets within brackets. What the parser stands would depend on how deep the stack is already: the same draws
    would not make the same file."""
    depth = deepest = 0
    for bracket in re.findall(rb"[\[{\]}]", content):
        depth += 1 if bracket in b"[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _line(draw: st.DrawFn, content: bytes) -> bytes:
    lines = content.split(b"\n")
    at = draw(st.integers(0, len(lines) - 1))
    return b"\n".join([*lines[:at], _json(draw, lines[at]), *lines[at + 1 :]])


def _header(draw: st.DrawFn, content: bytes) -> bytes:
    """Another value in the header of a safetensors file, its length made to fit."""
    if len(content) < 8:
        return _flip(draw, content)
    (length,) = struct.unpack("<Q", content[:8])
    header = _json(draw, content[8 : 8 + length])
    return struct.pack("<Q", len(header)) + header + content[8 + length :]


_BYTES: Final = (_cut, _flip, _splice, _number, _word)
KINDS: Final[dict[str, tuple[Mutation, ...]]] = {
    "bytes": _BYTES,
    "text": (_cut, _splice, _word, _word, _word, _flip),
    "json": (_json, _json, _json, _json, _word, _cut),
    "lines": (_line, _line, _line, _word, _splice, _cut),
    "tensors": (_header, _header, _header, *_BYTES),
}
