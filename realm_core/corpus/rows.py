"""Users' own sources: JSON lines and Parquet with `id`, `title`, `text` and optionally `url`.

`id`, `title` and `text` are required in every row. An id may be an integer; of several rows with the same id the first
is kept. A row with blank text gives no article. Titles are truncated to 512 characters; null bytes and other invisible
characters are removed from all texts.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from realm_core.corpus.records import RawArticle, Rights
from realm_core.corpus.streams import MAX_LINE_BYTES, InputFile
from realm_core.errors import RealmError
from realm_core.files import parse_json

_REQUIRED = ("id", "title", "text")
_COLUMNS = (*_REQUIRED, "url")
_ROWS_AT_ONCE = 256


class JsonLinesSource:
    """One JSON object per line, plain or compressed; blank lines are skipped.

    language: two-letter code of the articles. licence, attribution: shown next to a passage.
    """

    name = "jsonl"
    rights: tuple[Rights, ...] = ()

    def __init__(self, path: Path, *, language: str = "en", licence: str = "", attribution: str = "") -> None:
        self._file = InputFile(path)
        self.language = language
        self.licence = licence
        self.attribution = attribution

    def fingerprint(self) -> str:
        return f"jsonl {self.language} {self._file.fingerprint()}"

    def share_read(self) -> float | None:
        return self._file.share_read()

    def articles(self, start: int) -> Iterator[RawArticle]:
        record = 0
        for number, line in enumerate(self._file.lines(), 1):
            if number == 1:
                line = line.removeprefix(codecs.BOM_UTF8)
            if not line.strip():
                continue
            record += 1
            if record > start:
                place = f"{self._file.path}, line {number}"
                yield _article(_parsed(line, place), place, self.language)


def _parsed(line: bytes, place: str) -> dict[str, Any]:
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        raise RealmError(f"{place}, byte {error.start + 1}: not valid UTF-8.") from None
    try:
        row = parse_json(text)
    except RealmError as error:
        raise RealmError(f"{place} {error}") from None
    if not isinstance(row, dict):
        raise RealmError(f"{place}: a JSON object with id, title and text is expected.")
    return row


class ParquetSource:
    """A Parquet file with the columns id, title, text and optionally url, read in small batches.

    language, licence, attribution: as for `JsonLinesSource`.
    """

    name = "parquet"
    rights: tuple[Rights, ...] = ()

    def __init__(self, path: Path, *, language: str = "en", licence: str = "", attribution: str = "") -> None:
        self._file = InputFile(path)
        self.language = language
        self.licence = licence
        self.attribution = attribution
        self._read = self._total = 0

    def fingerprint(self) -> str:
        return f"parquet {self.language} {self._file.fingerprint()}"

    def share_read(self) -> float | None:
        return self._read / self._total if self._total else None

    def articles(self, start: int) -> Iterator[RawArticle]:
        path = self._file.path
        try:
            columns = self._columns(pq.read_schema(path, memory_map=True))
            # Dictionary-encoded, so that a text repeated in every row is in memory once.
            with pq.ParquetFile(path, memory_map=True, read_dictionary=columns) as file:
                yield from self._articles(file, columns, start)
        except UnicodeDecodeError:
            raise RealmError(f"{path}, after row {self._read:,}: not valid UTF-8.") from None
        except (pa.ArrowException, OSError, MemoryError) as error:
            raise RealmError(f"{path}, after row {self._read:,}: not a valid Parquet file ({error}).") from error

    def _columns(self, schema: pa.Schema) -> list[str]:
        """The columns to read; RealmError if a required one is missing or of the wrong type."""
        columns = [name for name in _COLUMNS if name in schema.names]
        missing = [name for name in _REQUIRED if name not in columns]
        if missing:
            raise RealmError(f"{self._file.path} has no column {missing[0]!r}; id, title and text are required.")
        for name in columns:
            if schema.names.count(name) > 1 or not _holds_texts(schema.field(name)):
                raise RealmError(f"{self._file.path}: the column {name!r} must contain strings.")
        return columns

    def _articles(self, file: pq.ParquetFile, columns: list[str], start: int) -> Iterator[RawArticle]:
        self._read, self._total = 0, file.metadata.num_rows
        for batch in file.iter_batches(_ROWS_AT_ONCE, columns=columns):
            if self._read + batch.num_rows <= start:
                self._read += batch.num_rows
                continue
            self._check_lengths(batch)
            for position in range(batch.num_rows):
                self._read += 1
                if self._read > start:
                    row = {name: batch.column(name)[position].as_py() for name in columns}
                    yield _article(row, f"{self._file.path}, row {self._read}", self.language)

    def _check_lengths(self, batch: pa.RecordBatch) -> None:
        for column in batch.columns:
            values = column.dictionary if pa.types.is_dictionary(column.type) else column
            if pa.types.is_integer(values.type) or not len(values):
                continue
            if (pc.max(pc.binary_length(values)).as_py() or 0) > MAX_LINE_BYTES:
                place = f"{self._file.path}, rows {self._read + 1} to {self._read + batch.num_rows}"
                raise RealmError(f"{place}: a text is longer than {MAX_LINE_BYTES >> 20} MiB.")


def _holds_texts(field: pa.Field) -> bool:
    """Whether a column has a supported type. Others, such as lists, can expand from a few bytes to any size."""
    data_type = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    if field.name == "id" and pa.types.is_integer(data_type):
        return True
    return bool(pa.types.is_string(data_type) or pa.types.is_large_string(data_type))


def _article(row: dict[str, Any], place: str, language: str) -> RawArticle:
    for name in _REQUIRED:
        if row.get(name) is None:
            raise RealmError(f"{place}: {name!r} is missing.")
    identity = row["id"]
    if isinstance(identity, int) and not isinstance(identity, bool):
        identity = str(identity)
    url = "" if row.get("url") is None else row["url"]
    for name, value in (("id", identity), ("title", row["title"]), ("text", row["text"]), ("url", url)):
        if not isinstance(value, str):
            raise RealmError(f"{place}: {name!r} is {type(value).__name__}, a string is expected.")
    if not identity.strip() or not row["title"].strip():
        raise RealmError(f"{place}: {'title' if identity.strip() else 'id'!r} is blank.")
    return RawArticle(identity, row["title"], url, row["text"], "plain", language)
