"""Parsed documents, and the limits of parsing."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class DocumentSection:
    """Text under one heading, of one page where the format has pages.

    headings: the heading and those above it, outermost first; empty before the first one.
    text:     paragraphs of clean prose, "\\n" between them; the heading is not among them.
    page:     counted from 1; None where the format has no pages.
    """

    headings: tuple[str, ...]
    text: str
    page: int | None = None


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """One document as clean text.

    title:     stated by the document, or its first heading, or its file's name.
    language:  two- or three-letter code; "" where the document states none.
    sections:  in order; at least one, and none is empty.
    links:     addresses of the pages that its text links to, each once, in order.
    format:    one of `file_format.FILE_FORMATS`.
    warnings:  sentences about what was guessed or not read.
    identity:  of a record that has an id (JSON lines, Parquet, MediaWiki, ZIM); else "".
    url:       where a record says that it is from; else "".
    titled_by_name: whether its title is the name of its file, for want of another.
    date, tags, licence, attribution, collection: as a row of JSON lines or Parquet states them (`records.Stated` of
               `corpus`).
    """

    title: str
    language: str
    sections: tuple[DocumentSection, ...]
    links: tuple[str, ...]
    format: str
    warnings: tuple[str, ...] = ()
    identity: str = ""
    url: str = ""
    date: str = ""
    tags: tuple[str, ...] = ()
    licence: str | None = None
    attribution: str | None = None
    collection: str = ""
    titled_by_name: bool = False


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of parsing one file; a file that exceeds one is refused as a whole.

    file_bytes:      of the file as it is given.
    unpacked_bytes:  of all that it holds, decompressed.
    pages:           of a PDF.
    documents:       of a file that holds many.
    characters:      of all text that is read.
    seconds:         from start to end, the start of the process that reads included.
    memory_bytes:    address space of that process. Below about 300 MiB pyarrow does not load.
    """

    file_bytes: int = 64 << 20
    unpacked_bytes: int = 512 << 20
    pages: int = 5_000
    documents: int = 100_000
    characters: int = 20_000_000
    seconds: float = 60.0
    memory_bytes: int = 2 << 30


def to_json(documents: list[ParsedDocument]) -> str:
    """Documents as JSON, for another process."""
    return json.dumps([asdict(document) for document in documents], ensure_ascii=False)


def from_json(text: str | bytes) -> list[ParsedDocument]:
    from pydantic import TypeAdapter  # which the process that reads a file need not load

    return TypeAdapter(list[ParsedDocument]).validate_json(text)
