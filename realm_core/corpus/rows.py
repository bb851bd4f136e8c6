"""Users' own sources: JSON lines and Parquet with `id`, `title`, `text`, and optionally more.

`id`, `title` and `text` are required in every row. An id may be an integer; of several rows with the same id the first
is kept. A row with blank text gives no article. Titles are truncated to 512 characters; null bytes and other invisible
characters are removed from all texts.

What else a row may state, for documents and for ingesting alike: `url`, and what `Stated` has.
"""

from __future__ import annotations

import codecs
import datetime
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from realm_core.corpus.metadata import composed
from realm_core.corpus.records import (
    LONGEST_ATTRIBUTION,
    LONGEST_COLLECTION,
    LONGEST_LANGUAGE,
    LONGEST_LICENCE,
    LONGEST_TAG,
    MOST_TAGS,
    ArticleRights,
    RawArticle,
    Stated,
)
from realm_core.corpus.streams import MAX_LINE_BYTES, InputFile
from realm_core.errors import RealmError, quoted
from realm_core.files import parse_json
from realm_core.text.language_codes import language_code

_REQUIRED = ("id", "title", "text")
_COLUMNS = (*_REQUIRED, "url", *(field.name for field in fields(Stated)))
_READS = "described"  # part of the fingerprint: what was ingested before rows were read for these columns has none
_ROWS_AT_ONCE = 256
_MOST_TOLD = 20 * MOST_TAGS  # tags in a row, before repeated ones are dropped
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(?:[-_].+)?", re.DOTALL)


class _RowsSource(ABC):
    """A file of rows with id, title, text and optionally others.

    language: two-letter code of the articles. licence, attribution: shown next to a passage.
    """

    name: str
    rights: tuple[ArticleRights, ...] = ()

    def __init__(self, path: Path, *, language: str = "en", licence: str = "", attribution: str = "") -> None:
        self._file = InputFile(path)
        self.language = language
        self.licence = licence
        self.attribution = attribution

    def fingerprint(self) -> str:
        return f"{self.name} {_READS} {self.language} {self._file.fingerprint()}"

    def articles(self, start: int) -> Iterator[RawArticle]:
        return (_article(row, place, self.language) for row, place in self._rows(start))

    @abstractmethod
    def _rows(self, start: int) -> Iterator[tuple[dict[str, Any], str]]:
        """Rows and where they are, from row `start` on."""


class JsonLinesSource(_RowsSource):
    """One JSON object per line, plain or compressed; blank lines are skipped."""

    name = "jsonl"

    def share_read(self) -> float | None:
        return self._file.share_read()

    def _rows(self, start: int) -> Iterator[tuple[dict[str, Any], str]]:
        record = 0
        for number, line in enumerate(self._file.lines(), 1):
            if number == 1:
                line = line.removeprefix(codecs.BOM_UTF8)
            if not line.strip():
                continue
            record += 1
            if record > start:
                place = f"{self._file.path}, line {number}"
                yield _parsed(line, place), place


def _parsed(line: bytes, place: str) -> dict[str, Any]:
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        raise RealmError(f"{place}, byte {error.start + 1}: not valid UTF-8.") from None
    row = parse_json(text, place)
    if not isinstance(row, dict):
        raise RealmError(f"{place}: a JSON object with id, title and text is expected.")
    return row


class ParquetSource(_RowsSource):
    """A Parquet file with these columns, read in small batches."""

    name = "parquet"
    _read = _total = 0

    def share_read(self) -> float | None:
        return self._read / self._total if self._total else None

    def _rows(self, start: int) -> Iterator[tuple[dict[str, Any], str]]:
        path = self._file.path
        try:
            metadata = pq.read_metadata(path, memory_map=True)
            schema = metadata.schema.to_arrow_schema()
            columns = self._columns(schema)
            self._check_tags(metadata)
            # Dictionary-encoded, so that a text repeated in every row is in memory once.
            texts = [name for name in columns if _is_text(schema.field(name).type)] + _leaves(metadata, "tags")
            with pq.ParquetFile(path, memory_map=True, read_dictionary=texts) as file:
                yield from self._read_rows(file, columns, start)
        except UnicodeDecodeError:
            raise RealmError(f"{path}, after row {self._read:,}: not valid UTF-8.") from None
        except (pa.ArrowException, OSError, MemoryError, KeyError) as error:
            raise RealmError(f"{path}, after row {self._read:,}: not a valid Parquet file ({error}).") from error

    def _columns(self, schema: pa.Schema) -> list[str]:
        """The columns to read; RealmError if a required one is missing or one of them is of the wrong type."""
        columns = [name for name in _COLUMNS if name in schema.names]
        missing = [name for name in _REQUIRED if name not in columns]
        if missing:
            raise RealmError(f"{self._file.path} has no column {missing[0]!r}; id, title and text are required.")
        for name in columns:
            if schema.names.count(name) > 1 or not _holds_texts(schema.field(name)):
                held = {"date": "dates or strings", "tags": "strings or lists of strings"}.get(name, "strings")
                raise RealmError(f"{self._file.path}: the column {name!r} must contain {held}.")
        return columns

    def _check_tags(self, metadata: pq.FileMetaData) -> None:
        """RealmError if a part of the file has more tags than its rows may have; lists expand from few bytes."""
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            parts = (group.column(index) for index in range(group.num_columns))
            if any(_in(one.path_in_schema, "tags") and one.num_values > MOST_TAGS * group.num_rows for one in parts):
                raise RealmError(f"{self._file.path}: a row may have {MOST_TAGS} 'tags', and some have more.")

    def _read_rows(self, file: pq.ParquetFile, columns: list[str], start: int) -> Iterator[tuple[dict[str, Any], str]]:
        self._read, self._total = 0, file.metadata.num_rows
        for batch in file.iter_batches(_ROWS_AT_ONCE, columns=columns):
            if self._read + batch.num_rows <= start:
                self._read += batch.num_rows
                continue
            self._check_lengths(batch)
            for position in range(batch.num_rows):
                self._read += 1
                if self._read > start:
                    place = f"{self._file.path}, row {self._read}"
                    yield {name: _value(batch.column(name)[position], name, place) for name in columns}, place

    def _check_lengths(self, batch: pa.RecordBatch) -> None:
        for column in batch.columns:
            values = column.flatten() if _is_list(column.type) else column
            values = values.dictionary if pa.types.is_dictionary(values.type) else values
            if not _is_text(values.type) or not len(values):
                continue
            if (pc.max(pc.binary_length(values)).as_py() or 0) > MAX_LINE_BYTES:
                place = f"{self._file.path}, rows {self._read + 1} to {self._read + batch.num_rows}"
                raise RealmError(f"{place}: a text is longer than {MAX_LINE_BYTES >> 20} MiB.")


def _leaves(metadata: pq.FileMetaData, name: str) -> list[str]:
    """Where the values of a column of lists are."""
    paths = (metadata.schema.column(index).path for index in range(len(metadata.schema)))
    return [path for path in paths if _in(path, name)]


def _in(path: str, name: str) -> bool:
    return path.startswith(f"{name}.")


def _value(scalar: pa.Scalar, name: str, place: str) -> Any:
    if _is_list(scalar.type) and scalar.is_valid and len(scalar) > _MOST_TOLD:
        raise RealmError(f"{place}: {name!r} has {len(scalar):,} tags, and may have {MOST_TAGS}.")
    try:
        return scalar.as_py()
    except UnicodeDecodeError:
        raise
    except (ValueError, OverflowError, KeyError) as error:  # a day beyond Python's, a time zone that is none
        raise RealmError(f"{place}: {name!r} cannot be read ({error}).") from None


def _holds_texts(field: pa.Field) -> bool:
    """Whether a column has a supported type. Others, such as lists, can expand from a few bytes to any size."""
    data_type = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    if field.name == "id" and pa.types.is_integer(data_type):
        return True
    if field.name == "date" and (pa.types.is_date(data_type) or pa.types.is_timestamp(data_type)):
        return True
    if field.name == "tags" and _is_list(data_type):
        data_type = data_type.value_type
    return _is_text(data_type)


def _is_list(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_list(data_type) or pa.types.is_large_list(data_type))


def _is_text(data_type: pa.DataType) -> bool:
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
    return RawArticle(identity, row["title"], url, row["text"], "plain", language, _stated(row, place))


def _stated(row: dict[str, Any], place: str) -> Stated:
    """Metadata that a row states of its document; RealmError names the place and the column."""
    language = _text_of(row, "language", LONGEST_LANGUAGE, place) or ""
    if language and not _LANGUAGE.fullmatch(language):
        raise RealmError(f"{place}: 'language' is {quoted(language)}, a code such as en is expected.")
    return Stated(
        language_code(language),
        _day_of(row, place),
        _tags_of(row, place),
        _text_of(row, "licence", LONGEST_LICENCE, place),
        _text_of(row, "attribution", LONGEST_ATTRIBUTION, place),
        _text_of(row, "collection", LONGEST_COLLECTION, place) or "",
    )


def _text_of(row: dict[str, Any], name: str, longest: int, place: str) -> str | None:
    """A line of text; None where the row has none."""
    value = row.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        raise RealmError(f"{place}: {name!r} is {type(value).__name__}, a string is expected.")
    text = composed(value) if name == "collection" else " ".join(value.split())
    if len(text) > longest:
        raise RealmError(f"{place}: {name!r} has {len(text):,} characters, and may have {longest}.")
    return text or None


def _day_of(row: dict[str, Any], place: str) -> str:
    value = row.get("date")
    if value is None or value == "":
        return ""
    if isinstance(value, datetime.date):  # of Parquet; one with a time is one, too
        return value.isoformat()[:10]
    try:
        if isinstance(value, str) and _DAY.fullmatch(value):
            return datetime.date.fromisoformat(value).isoformat()
    except ValueError:
        pass
    raise RealmError(f"{place}: 'date' is {quoted(value)}, a day such as 2024-05-31 is expected.")


def _tags_of(row: dict[str, Any], place: str) -> tuple[str, ...]:
    """Tags of a list of strings, or of one string with commas between them; each once."""
    value = row.get("tags")
    told = value.split(",") if isinstance(value, str) else [] if value is None else value
    if not isinstance(told, list) or not all(isinstance(tag, str) for tag in told):
        raise RealmError(f"{place}: 'tags' is {quoted(value)}, a list of strings or one with commas is expected.")
    tags = tuple(dict.fromkeys(words for tag in told if (words := " ".join(tag.split()))))
    if len(tags) > MOST_TAGS:
        raise RealmError(f"{place}: 'tags' has {len(tags):,} tags, and may have {MOST_TAGS}.")
    if tags and len(longest := max(tags, key=len)) > LONGEST_TAG:
        raise RealmError(f"{place}: 'tags' has one of {len(longest):,} characters, which may have {LONGEST_TAG}.")
    return tags
