"""Reads plain and compressed files as a stream of bytes; errors name the position of damage.

The compression is recognised by the file's first bytes, not by its name: bzip2 (including Wikipedia's multistream
archives), gzip, xz, or none.
"""

from __future__ import annotations

import bz2
import hashlib
import lzma
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from realm_core.errors import RealmError

_COMPRESSED_BYTES = 1 << 18
_CHUNK_BYTES = 1 << 20
# Bounds the memory that a file without line breaks takes; parsed as JSON, a line needs many times its size.
MAX_LINE_BYTES = 16 << 20


class _Gzip:
    """zlib with the interface of the other two, which buffer unused input."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(wbits=31)

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def needs_input(self) -> bool:
        return not self._inner.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        return self._inner.decompress(self._inner.unconsumed_tail + data, max_length)


_Decompressor = bz2.BZ2Decompressor | lzma.LZMADecompressor | _Gzip
_FORMATS: dict[bytes, tuple[str, Callable[[], _Decompressor]]] = {
    b"BZh": ("bzip2", bz2.BZ2Decompressor),
    b"\x1f\x8b": ("gzip", _Gzip),
    b"\xfd7zXZ\x00": ("xz", lzma.LZMADecompressor),
}
COMPRESSED = tuple(_FORMATS)  # what a compressed file begins with


class InputFile:
    """A file that is read sequentially from its beginning, any number of times.

    read_bytes: bytes of the (compressed) file read so far.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            status = path.stat()
        except OSError as error:
            raise RealmError(f"{path} cannot be read: {error.strerror}.") from None
        if not path.is_file():
            raise RealmError(f"{path} is not a file.")
        self.size_bytes = status.st_size
        self._modified_ns = status.st_mtime_ns
        self.read_bytes = 0

    def fingerprint(self) -> str:
        """A hash of size, modification time and both ends of the file: dumps are too large to read twice."""
        digest = hashlib.sha256(f"{self.size_bytes} {self._modified_ns} ".encode())
        with open(self.path, "rb") as file:
            digest.update(file.read(_CHUNK_BYTES))
            file.seek(max(0, self.size_bytes - _CHUNK_BYTES))
            digest.update(file.read(_CHUNK_BYTES))
        return digest.hexdigest()

    def share_read(self) -> float | None:
        return min(1.0, self.read_bytes / self.size_bytes) if self.size_bytes else None

    def chunks(self) -> Iterator[bytes]:
        """The decompressed content in chunks of at most a megabyte; `RealmError` names the byte of damage."""
        self.read_bytes = 0
        with open(self.path, "rb") as file:
            start = file.read(6)
            for magic, (name, make) in _FORMATS.items():
                if start.startswith(magic):
                    file.seek(0)
                    yield from self._decompressed(file.read, name, make)
                    return
            file.seek(0)
            while chunk := file.read(_CHUNK_BYTES):
                self.read_bytes += len(chunk)
                yield chunk

    def lines(self) -> Iterator[bytes]:
        """The lines of the content, without line ends."""
        held = b""
        number = 0
        for chunk in self.chunks():
            *whole, held = (held + chunk).split(b"\n")
            for line in whole:
                number += 1
                yield line
            if len(held) > MAX_LINE_BYTES:
                raise RealmError(f"{self.path}, line {number + 1}: longer than {MAX_LINE_BYTES >> 20} MiB.")
        if held:
            yield held

    def _decompressed(
        self, read: Callable[[int], bytes], name: str, make: Callable[[], _Decompressor]
    ) -> Iterator[bytes]:
        """All concatenated streams of the file; zero bytes may pad the end."""
        data = read(_COMPRESSED_BYTES)
        self.read_bytes += len(data)
        while data:
            decompressor = make()
            while not decompressor.eof:
                try:
                    content = decompressor.decompress(data, _CHUNK_BYTES)
                except (OSError, zlib.error, lzma.LZMAError) as error:
                    raise RealmError(
                        f"{self.path}, near byte {self.read_bytes - len(data):,}: damaged {name} data ({error})."
                    ) from None
                if content:
                    yield content
                data = b""
                if decompressor.needs_input and not decompressor.eof:
                    data = read(_COMPRESSED_BYTES)
                    self.read_bytes += len(data)
                    if not data:
                        raise RealmError(
                            f"{self.path}, byte {self.read_bytes:,}: the {name} archive ends too early; "
                            "it is truncated, fetch it again."
                        )
            data = decompressor.unused_data.lstrip(b"\0")
            if not data:
                data = read(_COMPRESSED_BYTES)
                self.read_bytes += len(data)
                data = data.lstrip(b"\0")
