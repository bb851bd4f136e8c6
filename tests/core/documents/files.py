"""What the tests of documents share: reading without a process of its own, and files of the formats that take some
writing."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import docx
import pytest

from realm_core.documents.readers import read_file
from realm_core.documents.records import Limits, ParsedDocument
from realm_core.errors import RealmError


class Reader:
    """Reads bytes as a file of a given name, in this process."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "content"

    def many(self, data: bytes, name: str, declared_type: str | None = None, **limits: int) -> list[ParsedDocument]:
        self._path.write_bytes(data)
        return read_file(self._path, name, declared_type, Limits(**limits), only_one=False)

    def one(self, data: bytes | str, name: str, declared_type: str | None = None, **limits: int) -> ParsedDocument:
        data = data.encode() if isinstance(data, str) else data
        self._path.write_bytes(data)
        return read_file(self._path, name, declared_type, Limits(**limits), only_one=True)[0]

    def refusal(self, data: bytes | str, name: str, declared_type: str | None = None, **limits: int) -> str:
        """The sentence with which a file is refused."""
        with pytest.raises(RealmError) as raised:
            self.many(data.encode() if isinstance(data, str) else data, name, declared_type, **limits)
        told = str(raised.value)
        assert told.startswith(name) and "\n" not in told and str(self._path) not in told
        return told


def shown(document: ParsedDocument) -> list[tuple[tuple[str, ...], str]]:
    """Headings and text of each section."""
    return [(section.headings, section.text) for section in document.sections]


def saved(document: docx.document.Document) -> bytes:
    """A DOCX file's bytes."""
    file = io.BytesIO()
    document.save(file)
    return file.getvalue()


def with_member(archive: bytes, name: str, content: bytes) -> bytes:
    """The same zip archive, with one file replaced or added."""
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as old, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as new:
        for member in old.namelist():
            if member != name:
                new.writestr(member, old.read(member))
        new.writestr(name, content)
    return file.getvalue()
