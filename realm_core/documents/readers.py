"""Which reader reads which kind, in this process: without bounds on time and memory, which `reading` gives it."""

from __future__ import annotations

import json
from pathlib import Path

from realm_core.documents.draft import Budget, Draft
from realm_core.documents.file_format import FILE_FORMATS, HOLDS_MANY, format_of
from realm_core.documents.plain import declared_charset, decode, read_text
from realm_core.documents.records import Limits, ParsedDocument
from realm_core.errors import RealmError

_LONGEST = 1000  # characters of a refusal


def read_file(
    path: Path, name: str, declared_type: str | None, limits: Limits, *, only_one: bool
) -> list[ParsedDocument]:
    """All documents of a file. `RealmError` as a whole sentence that begins with the file's name."""
    try:
        kind = format_of(path, name, declared_type)
        if kind not in HOLDS_MANY:
            return [_one(kind, path, name, declared_type, limits)]
        if only_one:
            raise RealmError(f"is {FILE_FORMATS[kind]}, which holds many documents, and one is expected.")
        from realm_core.documents.containers import read_container  # pyarrow takes a while

        return read_container(kind, path, Budget(limits), limits)
    except RealmError as error:
        told = " ".join(str(error).split())
        # The corpus' sources name the place themselves.
        told = told.replace(str(path), name) if str(path) in told else f"{name} {told}"
        # Libraries quote what is wrong, however long that is.
        raise RealmError(told if len(told) <= _LONGEST else f"{told[: _LONGEST - 100]} … {told[-100:]}") from error


def read_typed(path: Path, limits: Limits) -> list[ParsedDocument]:
    """The documents of texts that were typed, plain text whatever they look like: a JSON list of names and texts.

    `RealmError` begins with the name of the first that cannot be read.
    """
    return [_typed(name, text, limits) for name, text in json.loads(path.read_bytes())]


def _typed(name: str, text: str, limits: Limits) -> ParsedDocument:
    draft = Draft("text", name, Budget(limits))
    try:
        _read_text_kind("text", text.encode(errors="replace"), "text/plain; charset=utf-8", draft)
        return draft.finish()
    except RealmError as error:
        raise RealmError(f"{name} {error}") from error


def _one(kind: str, path: Path, name: str, declared_type: str | None, limits: Limits) -> ParsedDocument:
    draft = Draft(kind, name, Budget(limits))
    if kind == "pdf":
        from realm_core.documents.pdf import read_pdf

        read_pdf(path, draft, limits)
    elif kind == "docx":
        from realm_core.documents.docx import read_docx

        read_docx(path, draft, limits)
    else:
        _read_text_kind(kind, path.read_bytes(), declared_type, draft)
    return draft.finish()


def _read_text_kind(kind: str, data: bytes, declared_type: str | None, draft: Draft) -> None:
    charset = declared_charset(declared_type)
    if kind == "html":
        from realm_core.documents.html import read_html, stated_charset

        read_html(decode(data, draft, charset or declared_charset(stated_charset(data))), draft)
    elif kind == "markdown":
        from realm_core.documents.markdown import read_markdown

        read_markdown(decode(data, draft, charset), draft)
    elif kind in ("csv", "tsv"):
        from realm_core.documents.delimited import read_delimited

        read_delimited(decode(data, draft, charset), draft, "\t" if kind == "tsv" else "")
    else:
        read_text(decode(data, draft, charset), draft)
